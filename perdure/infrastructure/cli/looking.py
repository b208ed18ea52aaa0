"""`perdure show`, `perdure replay` and `perdure runs`: they read, and touch no tool, model or lease."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from perdure.domain.events import Event
from perdure.domain.evolution import evolve
from perdure.domain.state import RunState
from perdure.infrastructure.cli.options import SCHEMA, DatabaseUrl, Json, RunId, Schema, connect
from perdure.infrastructure.cli.output import console, plain, print_json
from perdure.infrastructure.cli.rendering import events_view, run_view, what_happened
from perdure.infrastructure.cli.views import event_data, run_data


def show(
    run_id: RunId,
    events: Annotated[bool, typer.Option("--events", help="Show all events, not the last ten.")] = False,
    database_url: DatabaseUrl = None,
    schema: Schema = SCHEMA,
    json: Json = False,
) -> None:
    """Show a run: where it stands, its conversation, its calls, and what is asked of a person."""
    with connect(database_url, schema) as runs:
        log = runs.events(run_id)
        state = runs.state(run_id)
        lease = runs.ports.leases.find(run_id)
    if json:
        data = run_data(state, lease)
        if events:
            data["events"] = [event_data(event) for event in log]
        print_json(data)
        return
    console.print(run_view(state, lease, commands=f"--schema {schema}" if schema != SCHEMA else ""))
    shown = log if events else log[-10:]
    console.print(Text("Events" if events else f"Last {len(shown)} of {len(log)} events", style="bold"))
    console.print(events_view(shown))


def replay(
    run_id: RunId,
    at: Annotated[int | None, typer.Option("--at", min=1, help="The version: events to fold.")] = None,
    database_url: DatabaseUrl = None,
    schema: Schema = SCHEMA,
    json: Json = False,
) -> None:
    """Show a run as it was at a version; without one, what each event changed."""
    with connect(database_url, schema) as runs:
        log = runs.events(run_id) if at is None else ()
        state = runs.state(run_id, at=at) if at is not None else None
    if state is not None:
        print_json(run_data(state)) if json else console.print(run_view(state))
        return
    steps = _steps(run_id, log)
    if json:
        print_json([{**event_data(event), "status": after.status.value} for event, _, after in steps])
        return
    table = Table(box=None, pad_edge=False)
    for name in ("at", "event", "status"):
        table.add_column(name, no_wrap=True)
    table.add_column("changed", overflow="fold")
    for event, before, after in steps:
        changed = " | ".join(filter(None, [_changed(before, after), what_happened(event)]))
        table.add_row(str(event.seq), type(event).__name__, after.status.value, plain(changed))
    console.print(table)


def runs(
    database_url: DatabaseUrl = None,
    schema: Schema = SCHEMA,
    json: Json = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Runs at most, by id.")] = 100,
    after: Annotated[str, typer.Option("--after", help="Only runs behind this id.")] = "",
) -> None:
    """List runs: status, owner, age, steps and tokens."""
    with connect(database_url, schema) as at_hand:
        states = [at_hand.state(run_id) for run_id in at_hand.ports.store.run_ids(after=after, limit=limit)]
        leases = {lease.run_id: lease for lease in at_hand.ports.leases.all()}
        now = at_hand.ports.clock.now()
    if json:
        print_json(
            [
                {key: data[key] for key in data if key not in ("messages", "calls")}
                for data in (run_data(state, leases.get(state.run_id)) for state in states)
            ]
        )
        return
    table = Table(box=None, pad_edge=False)
    for name in ("run", "agent", "tenant", "status", "steps", "tokens", "age", "owner"):
        table.add_column(name, overflow="fold")
    for state in states:
        lease = leases.get(state.run_id)
        owner = "" if lease is None else f"{lease.owner}{'' if lease.is_live else ' (expired)'}"
        age = str(now - state.started_at).split(".")[0] if state.started_at else ""
        cells = (state.run_id, state.agent, state.tenant or "", state.status.value)
        table.add_row(*map(plain, (*cells, state.steps, state.tokens, age, owner)))
    console.print(table)


def _steps(run_id: str, log: Sequence[Event]) -> list[tuple[Event, RunState, RunState]]:
    steps: list[tuple[Event, RunState, RunState]] = []
    before = RunState(run_id)
    for event in log:
        after = evolve(before, event)
        steps.append((event, before, after))
        before = after
    return steps


def _changed(before: RunState, after: RunState) -> str:
    parts: list[str] = []
    if after.steps != before.steps:
        parts.append(f"step {after.steps}")
    if after.tokens != before.tokens:
        parts.append(f"tokens {before.tokens} -> {after.tokens}")
    for call_id, call in after.calls.items():
        was = before.calls.get(call_id)
        if was is None:
            parts.append(f"{call_id} {call.status}")
        elif was.status is not call.status:
            parts.append(f"{call_id} {was.status} -> {call.status}")
    if after.epoch != before.epoch:
        parts.append(f"epoch {after.epoch}")
    return ", ".join(parts)
