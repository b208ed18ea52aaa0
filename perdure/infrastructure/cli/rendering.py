"""A run for people: header, conversation, calls, what is asked of a person, events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from perdure.application.ports.leases import LeaseRow
from perdure.domain.events import Event
from perdure.domain.messages import AssistantMessage, Message, ToolResultsMessage, UserMessage
from perdure.domain.state import RunState, RunStatus
from perdure.infrastructure.cli.output import harmless, plain, shortened

_SKIPPED = {"run_id", "seq", "at", "pins", "input", "budget", "usage", "message", "content"}


def run_view(state: RunState, lease: LeaseRow | None = None, *, commands: str = "") -> RenderableType:
    """Return everything about a run at one version.

    Args:
        state: The run.
        lease: Who holds it.
        commands: What to put behind suggested commands, such as `--schema demo`.
    """
    parts: list[RenderableType] = [_header(state, lease), Text()]
    parts += [Text("Conversation", style="bold"), *_conversation(state.messages()), Text()]
    if state.calls:
        parts += [_calls(state), Text()]
    if state.status is RunStatus.ESCALATED and state.escalation is not None:
        parts += _asked(state, commands)
    elif state.in_doubt:
        ids = ", ".join(call.call_id for call in state.in_doubt)
        parts.append(Text(f"In doubt: {ids}", style="yellow"))
    return Group(*parts)


def events_view(events: Sequence[Event]) -> Table:
    """Return events as a timeline."""
    table = Table(box=None, pad_edge=False)
    table.add_column("seq", justify="right")
    table.add_column("at (UTC)", no_wrap=True)
    table.add_column("event", no_wrap=True)
    table.add_column("what", overflow="fold")
    for event in events:
        at = f"{event.at:%Y-%m-%d %H:%M:%S}"
        table.add_row(str(event.seq), at, type(event).__name__, plain(what_happened(event)))
    return table


def what_happened(event: Event) -> str:
    """Say in one line what an event carries, long things left out."""
    facts = event.model_dump(mode="json", exclude_none=True, exclude=_SKIPPED)
    parts = [f"{name}={shortened(str(value), 80)}" for name, value in facts.items() if value not in ([], {})]
    message = getattr(event, "message", None)
    if isinstance(message, AssistantMessage):
        parts.append(_said(message))
    elif isinstance(message, UserMessage):
        parts.append(shortened(message.text, 80))
    elif isinstance(message, str):
        parts.append(f"message={shortened(message, 160)}")
    content = getattr(event, "content", None)
    if content is not None:
        parts.append(f"content={shortened(content.for_model, 80)}")
    return " ".join(parts)


def _header(state: RunState, lease: LeaseRow | None) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    budget = state.budget
    rows: Iterable[tuple[str, str | None]] = (
        ("run", state.run_id),
        ("status", _status(state)),
        ("version", f"{state.version}, {state.at:%Y-%m-%d %H:%M:%S} UTC" if state.at else "0"),
        ("agent", f"{state.agent}, prompt {state.pins.prompt_version}, model {state.pins.model}"),
        ("tenant", state.tenant),
        ("parent", state.parent),
        ("labels", ", ".join(f"{key}={value}" for key, value in state.labels.items()) or None),
        ("steps", _against(state.steps, budget.steps)),
        ("tokens", _against(state.tokens, budget.tokens)),
        ("deadline", f"{state.deadline:%Y-%m-%d %H:%M:%S} UTC" if state.deadline else None),
        ("epoch", f"{state.epoch}, claimed by {state.worker}" if state.epoch else None),
        ("lease", _lease(lease)),
    )
    for name, value in rows:
        if value is not None:
            table.add_row(name, plain(value))
    return table


def _status(state: RunState) -> str:
    if state.answer is not None:
        return f"completed: {state.answer}"
    if state.failure is not None:
        return f"failed ({state.failure[0]}): {state.failure[1]}"
    if state.status is RunStatus.CANCELLED and state.cancellation is not None:
        return f"cancelled by {state.cancellation.by}: {state.cancellation.reason}"
    if state.escalation is not None:
        return f"escalated ({state.escalation.why})"
    return state.status.value


def _against(used: int, limit: int | None) -> str:
    return f"{used} of {limit}" if limit is not None else f"{used} (no limit)"


def _lease(lease: LeaseRow | None) -> str | None:
    if lease is None or lease.owner is None:
        return None
    return f"{lease.owner} {'until' if lease.is_live else 'expired at'} {lease.expires_at:%H:%M:%S} UTC"


def _conversation(messages: Sequence[Message]) -> list[Text]:
    lines: list[Text] = []
    for message in messages:
        if isinstance(message, UserMessage):
            lines.append(Text(f"  user       {harmless(message.text)}"))
        elif isinstance(message, AssistantMessage):
            lines.append(Text(f"  assistant  {_said(message)}"))
        else:
            lines += _results(message)
    return lines


def _results(message: ToolResultsMessage) -> list[Text]:
    return [
        Text(f"  {'result' if result.ok else 'failed':<9}  {result.name}: {shortened(result.content, 160)}")
        for result in message.results
    ]


def _said(message: AssistantMessage) -> str:
    calls = [f"{call.name}({shortened(call.arguments, 80)}) [{call.call_id}]" for call in message.tool_calls]
    return " ".join(filter(None, [shortened(message.text, 160), *calls]))


def _calls(state: RunState) -> Table:
    table = Table(title=f"Calls of step {state.steps}", title_justify="left", box=None, pad_edge=False)
    for name in ("call", "tool", "status", "attempt", "policy"):
        table.add_column(name, no_wrap=True)
    table.add_column("known", overflow="fold")
    for call in state.calls.values():
        known = call.known_by or " ".join(filter(None, [call.doubt, call.doubt_detail, call.evidence]))
        policy = call.policy.value if call.attempt else ""
        table.add_row(
            call.call_id, plain(call.name), call.status.value, str(call.attempt), policy, plain(known)
        )
    return table


def _asked(state: RunState, commands: str) -> list[RenderableType]:
    asked = state.escalation
    if asked is None:
        return []
    parts: list[RenderableType] = [
        Text("A person is asked", style="bold yellow"),
        Text(f"  {harmless(asked.message)}"),
        Text(f"  {harmless(asked.ask)}"),
    ]
    tail = f'--reason "..."{f" {commands}" if commands else ""}'
    run_id = state.run_id
    for call_id in asked.calls:
        parts.append(Text(f"  perdure resolve {run_id} {call_id} --succeeded RESULT {tail}"))
        parts.append(Text(f"  perdure resolve {run_id} {call_id} --failed WHY {tail}"))
        parts.append(Text(f"  perdure resolve {run_id} {call_id} --rerun {tail}"))
    if not asked.calls and asked.why not in ("budget", "deadline"):
        parts.append(Text(f"  perdure resolve {run_id} --resume {tail}"))
    parts.append(Text(f"  perdure resolve {run_id} --abandon {tail}"))
    return parts
