"""Comparing a killed and resumed run with one that nobody disturbed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import BaseModel

from perdure.domain.calls import call_id_for
from perdure.domain.events import EscalationResolved, Event, ToolCallSucceeded
from perdure.domain.evolution import fold
from perdure.domain.state import RunState, RunStatus
from perdure.domain.tools import Policy
from perdure.infrastructure.cli.demo.kill import KillPoint
from perdure.infrastructure.cli.demo.promises import Effect, attempts_at, broken_promises, killed_elsewhere

_MARKS = {"kind", "run", "call", "attempt", "key", "id"}
"""What tells one effect from another like it: who asked, and what it was called."""


class Scenario(BaseModel):
    """A run that was killed at one point and finished by another process.

    Attributes:
        effects_expected: Tickets, mails and refunds of the run that nobody disturbed.
        effects_seen: Those of this run.
        settled: How the outcome of the call became known.
        faults: Broken promises, in words.
    """

    kill_point: str
    policy: str
    request: str
    tool: str
    run_id: str
    effects_expected: int
    effects_seen: int
    answer_equal: bool
    budget_equal: bool
    settled: str
    attempts: int
    faults: list[str]

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return not self.faults


def compare(
    point: KillPoint,
    request: str,
    tool: str,
    policy: str,
    events: Sequence[Event],
    undisturbed: RunState,
    effects: Sequence[Effect],
    trouble: str | None,
) -> Scenario:
    """Find out what a killed run kept of its promises.

    Args:
        point: Where its worker was killed.
        request: Whose request it was.
        tool: The tool that was being called.
        policy: That tool's policy.
        events: The run's log.
        undisturbed: The same request's run that nobody disturbed.
        effects: What happened in the world.
        trouble: What went wrong with the killing itself, if anything did.
    """
    run_id = events[0].run_id
    call_id = call_id_for(run_id, 1, 2)
    state = fold(run_id, events)
    of_this_run = [effect for effect in effects if effect["run"] == run_id]
    expected = in_words(effect for effect in effects if effect["run"] == undisturbed.run_id)
    seen = in_words(of_this_run)
    answer_equal = state.status is RunStatus.COMPLETED and state.answer == undisturbed.answer
    budget_equal = _used(state) == _used(undisturbed) and state.deadline == fold(run_id, events[:1]).deadline
    faults = [trouble] if trouble is not None else killed_elsewhere(point, call_id, events)
    if state.status is not RunStatus.COMPLETED:
        faults.append(f"the run is {state.status}" + (f": {state.escalation}" if state.escalation else ""))
    elif not answer_equal:
        faults.append(f"it answered {state.answer!r}, and undisturbed {undisturbed.answer!r}")
    if seen != expected:
        faults.append(f"in the world: {'; '.join(seen)}; and undisturbed: {'; '.join(expected)}")
    if not budget_equal:
        faults.append(
            f"steps and tokens {_used(state)}, and undisturbed {_used(undisturbed)}; "
            f"deadline {state.deadline}"
        )
    faults += broken_promises(events, of_this_run)
    return Scenario(
        kill_point=point.value,
        policy=policy,
        request=request,
        tool=tool,
        run_id=run_id,
        effects_expected=len(expected),
        effects_seen=len(seen),
        answer_equal=answer_equal,
        budget_equal=budget_equal,
        settled=how_settled(call_id, events, policy),
        attempts=attempts_at(call_id, events),
        faults=faults,
    )


def in_words(effects: Iterable[Effect]) -> list[str]:
    """What happened in the world, in words that are the same for every run of a request."""
    return sorted(
        f"{effect['kind']} "
        + ", ".join(f"{name}={value}" for name, value in effect.items() if name not in _MARKS)
        for effect in effects
    )


def how_settled(call_id: str, events: Sequence[Event], policy: str) -> str:
    """Say how the outcome of a call became known."""
    for event in events:
        if isinstance(event, EscalationResolved) and event.call_id == call_id:
            return f"a person: {event.resolution}"
    for event in events:
        if isinstance(event, ToolCallSucceeded) and event.call_id == call_id:
            if event.known_by == "verified":
                return "verified: landed"
            starts = attempts_at(call_id, events)
            one_key = ", one key" if policy == Policy.RERUN_WITH_IDEMPOTENCY_KEY else ""
            return f"ran {starts} times{one_key}" if starts > 1 else "ran once"
    return "not settled"


def _used(state: RunState) -> tuple[int, int]:
    return state.steps, state.tokens
