"""What people are told after a decision: what was recorded, and what happens next."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from perdure.application.ports.leases import LeaseRow
from perdure.domain.state import RunState
from perdure.infrastructure.cli.harmless import one_line
from perdure.infrastructure.cli.output import print_json, print_view
from perdure.infrastructure.cli.views import run_data


def report(
    state: RunState,
    lease: LeaseRow | None,
    told: str,
    recorded: Mapping[str, str | None] | None,
    *,
    as_json: bool,
) -> None:
    """Tell what was decided.

    Args:
        state: The run after it.
        lease: Who holds the run.
        told: What was recorded, or why nothing was, for people.
        recorded: The same for programs; None when nothing was.
        as_json: Whether programs read it.
    """
    if as_json:
        print_json({"recorded": recorded, "run": run_data(state, lease)})
    else:
        print_view(Text(one_line(told)), Text(_next_step(state, lease)))


def _next_step(state: RunState, lease: LeaseRow | None) -> str:
    owner = one_line(lease.owner) if lease is not None and lease.is_live else None
    if state.is_finished:
        left = ", ".join(call.call_id for call in state.in_doubt)
        return f"The run is {state.status}{f'; still in doubt: {left}' if left else ''}."
    if state.escalation is not None:
        waits = ", ".join(state.escalation.calls) or "a decision about the run itself"
        return f"The run still waits for: {waits}."
    if state.cancellation is not None:
        who = f"Its worker {owner}" if owner else "The next worker"
        return f"{who} settles what is in flight, and then stops the run."
    return f"The run is {state.status}: {f'its worker {owner}' if owner else 'a worker'} goes on with it."
