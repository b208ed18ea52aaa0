"""Events for people: one line each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from perdure.domain.events import Event
from perdure.domain.evolution import evolve
from perdure.domain.messages import AssistantMessage, UserMessage
from perdure.domain.state import RunState
from perdure.infrastructure.cli.harmless import shortened
from perdure.infrastructure.cli.output import cell, moment, table

_SKIPPED = {"run_id", "seq", "at", "pins", "input", "budget", "usage", "message", "content"}


def events_view(events: Sequence[Event]) -> Table:
    """Return events as a timeline."""
    rows = table("seq", "at", "event", "what")
    for event in events:
        rows.add_row(str(event.seq), moment(event.at), type(event).__name__, cell(what_happened(event)))
    return rows


def versions(run_id: str, log: Sequence[Event]) -> list[tuple[Event, RunState, RunState]]:
    """Return each event with the states before and after it."""
    found: list[tuple[Event, RunState, RunState]] = []
    before = RunState(run_id)
    for event in log:
        after = evolve(before, event)
        found.append((event, before, after))
        before = after
    return found


def versions_view(steps: Sequence[tuple[Event, RunState, RunState]]) -> Table:
    """Return what each version changed."""
    rows = table("at", "event", "status", "changed")
    for event, before, after in steps:
        changed = " | ".join(filter(None, [what_changed(before, after), what_happened(event)]))
        rows.add_row(str(event.seq), type(event).__name__, after.status.value, cell(changed))
    return rows


def what_happened(event: Event) -> str:
    """Say in one line what an event carries, long things left out."""
    facts = event.model_dump(mode="json", exclude_none=True, exclude=_SKIPPED)
    parts = [f"{name}={shortened(value, 80)}" for name, value in facts.items() if value not in ([], {})]
    message = getattr(event, "message", None)
    if isinstance(message, AssistantMessage):
        parts.append(said(message))
    elif isinstance(message, UserMessage):
        parts.append(shortened(message.text, 80))
    elif isinstance(message, str):
        parts.append(f"message={shortened(message, 160)}")
    content = getattr(event, "content", None)
    if content is not None:
        parts.append(f"content={shortened(content.for_model, 80)}")
    return " ".join(parts)


def what_changed(before: RunState, after: RunState) -> str:
    """Say in one line how two states in a row differ."""
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
    if after.deadline != before.deadline and after.deadline is not None:
        parts.append(f"deadline {moment(after.deadline)}")
    return ", ".join(parts)


def said(message: AssistantMessage) -> str:
    """Say in one line what the model answered."""
    calls = [f"{call.name}({shortened(call.arguments, 80)}) [{call.call_id}]" for call in message.tool_calls]
    return " ".join(filter(None, [shortened(message.text, 160), *calls]))
