"""A run for people: header, conversation, calls, and what is asked of a person."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from perdure.application.ports.leases import LeaseRow
from perdure.domain.calls import CallStatus, ToolCall, idempotency_key_for
from perdure.domain.messages import AssistantMessage, Message, ToolResultsMessage, UserMessage
from perdure.domain.state import Escalation, RunState, RunStatus
from perdure.infrastructure.cli.harmless import harmless, indented, one_line, shortened
from perdure.infrastructure.cli.output import cell, moment, table
from perdure.infrastructure.cli.timeline import said

_NEWEST_MESSAGES = 20
_OUTCOMES = {
    CallStatus.REQUESTED: "not run",
    CallStatus.STARTED: "started",
    CallStatus.IN_DOUBT: "in doubt",
    CallStatus.CLEARED: "to rerun",
    CallStatus.SUCCEEDED: "result",
    CallStatus.FAILED: "failed",
}


def run_view(
    state: RunState, lease: LeaseRow | None = None, *, options: Sequence[str] | None = None
) -> RenderableType:
    """Return everything about a run at one version.

    Args:
        state: The run.
        lease: Who holds it.
        options: What suggested commands need beside their own, such as `--schema demo`; None suggests none.
    """
    parts: list[RenderableType] = [_header(state, lease), Text()]
    parts += [Text("Conversation", style="bold"), *_conversation(state), Text()]
    if state.calls:
        parts += [*_calls(state), Text()]
    if state.in_doubt:
        ids = ", ".join(call.call_id for call in state.in_doubt)
        parts += [Text(f"In doubt: {ids}", style="yellow"), Text()]
    if state.status is RunStatus.ESCALATED and state.escalation is not None:
        parts += [*_asked(state, state.escalation, options), Text()]
    return Group(*parts[:-1])


def _header(state: RunState, lease: LeaseRow | None) -> Table:
    budget = state.budget
    deadline = moment(state.deadline) if state.deadline is not None else None
    rows: dict[str, str | None] = {
        "run": state.run_id,
        "status": _status(state),
        "version": f"{state.version}, {moment(state.at)}" if state.at else "0",
        "agent": f"{state.agent}, prompt {state.pins.prompt_version}, model {state.pins.model}",
        "tools": ", ".join(tool.name for tool in state.pins.tools) or None,
        "tenant": state.tenant,
        "parent": state.parent,
        "labels": ", ".join(f"{key}={value}" for key, value in state.labels.items()) or None,
        "steps": _against(state.steps, budget.steps),
        "tokens": _against(state.tokens, budget.tokens),
        "deadline": f"{deadline} ({budget.wall_clock} allowed)"
        if deadline and budget.wall_clock
        else deadline,
        "epoch": f"{state.epoch}, claimed by {state.worker}" if state.epoch else None,
        "lease": _lease(lease),
        "model": _model_trouble(state),
    }
    shown = table("", "", show_header=False)
    for name, value in rows.items():
        if value is not None:
            shown.add_row(Text(name, style="dim"), cell(value))
    return shown


def _status(state: RunState) -> str:
    if state.answer is not None:
        return f"completed: {state.answer}"
    if state.failure is not None:
        return f"failed ({state.failure[0]}): {state.failure[1]}"
    cancellation = state.cancellation
    if cancellation is not None:
        what = "cancelled" if state.status is RunStatus.CANCELLED else f"{state.status}, asked to stop"
        return f"{what} by {cancellation.by}: {cancellation.reason}"
    if state.escalation is not None:
        return f"escalated ({state.escalation.why}) since {moment(state.escalation.at)}"
    return state.status.value


def _against(used: int, limit: int | None) -> str:
    return f"{used} of {limit}" if limit is not None else f"{used} (no limit)"


def _lease(lease: LeaseRow | None) -> str | None:
    if lease is None or lease.owner is None:
        return None
    return f"{lease.owner}, {'until' if lease.is_live else 'expired at'} {moment(lease.expires_at)}"


def _model_trouble(state: RunState) -> str | None:
    trouble = state.trouble
    if trouble is None:
        return None
    again = f", again at {moment(trouble.retry_at)}" if trouble.retry_at is not None else ""
    return f"failed {trouble.attempt} times: {trouble.message}{again}"


def _conversation(state: RunState) -> list[Text]:
    messages = state.messages()
    shown = messages[-_NEWEST_MESSAGES:]
    lines = [Text(f"  ({len(messages) - len(shown)} earlier messages)")] if len(shown) < len(messages) else []
    for message in shown:
        lines += _message(message, state.calls)
    return lines


def _message(message: Message, pending: Mapping[str, ToolCall]) -> list[Text]:
    if isinstance(message, UserMessage):
        return [_line("user", shortened(message.text, 400))]
    if isinstance(message, AssistantMessage):
        return [_line("assistant", said(message))]
    return _results(message, pending)


def _results(message: ToolResultsMessage, pending: Mapping[str, ToolCall]) -> list[Text]:
    lines: list[Text] = []
    for result in message.results:
        call = pending.get(result.call_id)
        # The model can only be told "ok" or not; a person is told when it may have happened.
        outcome = _OUTCOMES[call.status] if call is not None else "result" if result.ok else "failed"
        lines.append(_line(outcome, f"{one_line(result.name)}: {shortened(result.content, 160)}"))
    return lines


def _line(who: str, text: str) -> Text:
    return Text(f"  {who:<9}  {text}")


def _calls(state: RunState) -> list[Text]:
    lines = [Text(f"Calls of step {state.steps}", style="bold")]
    for call in state.calls.values():
        asked = f"{one_line(call.name)}({shortened(call.arguments, 400)})"
        lines.append(Text(f"  {call.call_id}  {call.status.value:<9}  {asked}"))
        lines += [Text(f"      {one_line(detail)}") for detail in _details(state.run_id, call)]
    return lines


def _details(run_id: str, call: ToolCall) -> list[str]:
    details: list[str] = []
    if call.attempt and call.started_at is not None:
        started = f"attempt {call.attempt}, policy {call.policy.value}, started {moment(call.started_at)}"
        details += [started, f"idempotency key {idempotency_key_for(run_id, call.call_id)}"]
    if call.doubt is not None and call.status is CallStatus.IN_DOUBT:
        details.append(f"in doubt: {call.doubt}{f' ({call.doubt_detail})' if call.doubt_detail else ''}")
    if call.verifications:
        details.append(f"verified {call.verifications} times{f': {call.evidence}' if call.evidence else ''}")
    if call.cleared_by is not None:
        details.append(f"to be run again, by word of {call.cleared_by}")
    if call.content is not None:
        details.append(f"result, {call.known_by}: {shortened(call.content.for_model, 400)}")
    if call.error is not None:
        details.append(f"failed, {call.known_by}: {shortened(call.error, 400)}")
    return details


def _asked(state: RunState, asked: Escalation, options: Sequence[str] | None) -> list[RenderableType]:
    parts: list[RenderableType] = [
        Text("A person is asked", style="bold yellow"),
        Text(f"  {indented(asked.message, 2)}"),
        Text(f"  {indented(asked.ask, 2)}"),
    ]
    if options is None:
        return parts
    tail = " ".join(["--reason WHY", *options])
    run_id = shlex.quote(state.run_id)
    commands = [
        f"{run_id} {call_id} {decision}"
        for call_id in asked.calls
        for decision in ("--succeeded RESULT", "--failed WHY", "--rerun")
    ]
    if not asked.calls and asked.why not in ("budget", "deadline"):
        commands.append(f"{run_id} --resume")
    commands.append(f"{run_id} --abandon")
    return [*parts, *(Text(f"  perdure resolve {harmless(command)} {tail}") for command in commands)]
