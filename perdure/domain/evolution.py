"""How each event changes the state of a run.

`evolve` is total: it never raises, reads no clock and makes no ids. Whether an event was allowed is
decided in `run.py`, before it exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from perdure.domain.calls import CallStatus, ToolCall
from perdure.domain.events import (
    BudgetExtended,
    CancelRequested,
    EscalationResolved,
    Event,
    InputAdded,
    ModelCallFailed,
    ModelResponded,
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunEscalated,
    RunFailed,
    RunStarted,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallStarted,
    ToolCallSucceeded,
    ToolCallVerified,
)
from perdure.domain.state import (
    Cancellation,
    Decision,
    Escalation,
    ModelTrouble,
    RunState,
    RunStatus,
    Step,
)
from perdure.domain.transcript import Transcript


def evolve(state: RunState, event: Event) -> RunState:
    """Return the state after an event. Never raises: what makes no sense changes only the version."""
    moved = state.changed(version=event.seq, at=event.at)
    change = _CHANGES.get(type(event))
    return change(moved, event) if change is not None else moved


def fold(run_id: str, events: Iterable[Event], onto: RunState | None = None) -> RunState:
    """Return the state after all the events, starting from nothing or from an earlier state."""
    state = onto if onto is not None else RunState(run_id)
    for event in events:
        state = evolve(state, event)
    return state


def _run_started(state: RunState, event: RunStarted) -> RunState:
    return state.changed(
        status=RunStatus.RUNNING,
        agent=event.agent,
        tenant=event.tenant,
        parent=event.parent,
        labels=MappingProxyType(dict(event.labels or {})),
        pins=event.pins,
        started_at=event.at,
        budget=event.budget,
        deadline=event.deadline,
        history=Transcript(list(event.input)),
    )


def _run_claimed(state: RunState, event: RunClaimed) -> RunState:
    # A worker may be lost after it took the lease and before it wrote that down.
    who = state.worker if event.epoch == state.epoch + 1 else "a worker that wrote nothing"
    lost = f"{who} (epoch {event.epoch - 1})"
    barren = (*state.barren_claims, lost) if event.left == "expired" else ()
    return state.changed(epoch=event.epoch, worker=event.worker, barren_claims=barren)


def _model_responded(state: RunState, event: ModelResponded) -> RunState:
    shown = tuple(message for version, message in state.inbox if version <= event.seen)
    before = state.step.messages() if state.step is not None else ()
    calls = {
        part.call_id: ToolCall(
            call_id=part.call_id,
            name=part.name,
            arguments=part.arguments,
            step=event.step,
            position=position,
        )
        for position, part in enumerate(event.message.tool_calls, start=1)
    }
    return state.changed(
        history=state.history.append(*before, *shown),
        inbox=tuple(entry for entry in state.inbox if entry[0] > event.seen),
        step=Step(event.step, event.message, MappingProxyType(calls)),
        steps=state.steps + 1,
        input_tokens=state.input_tokens + event.usage.input_tokens,
        output_tokens=state.output_tokens + event.usage.output_tokens,
        trouble=None,
        barren_claims=(),
    )


def _model_call_failed(state: RunState, event: ModelCallFailed) -> RunState:
    trouble = ModelTrouble(event.attempt, event.message, event.retry_at)
    return state.changed(trouble=trouble, barren_claims=())


def _with_call(state: RunState, call_id: str, **changes: Any) -> RunState:
    call = state.calls.get(call_id)
    if state.step is None or call is None:
        return state
    calls = {**state.step.calls, call_id: call.changed(**changes)}
    return state.changed(step=state.step.changed(calls=MappingProxyType(calls)))


def _call_started(state: RunState, event: ToolCallStarted) -> RunState:
    call = state.calls.get(event.call_id)
    first = call.first_started_at if call is not None else None
    return _with_call(
        state,
        event.call_id,
        status=CallStatus.STARTED,
        attempt=event.attempt,
        epoch=state.epoch,
        policy=event.policy,
        timeout=event.timeout,
        settle=event.settle or 0.0,
        first_started_at=first or event.at,
        started_at=event.at,
        doubt=None,
        doubt_detail=None,
        doubted_at=None,
        verifications=0,
        conclusive=0,
        verified_at=None,
        evidence=None,
        cleared_by=None,
    )


def _call_succeeded(state: RunState, event: ToolCallSucceeded) -> RunState:
    known = {"content": event.content, "known_by": event.known_by}
    return _with_call(state, event.call_id, status=CallStatus.SUCCEEDED, **known).changed(barren_claims=())


def _call_failed(state: RunState, event: ToolCallFailed) -> RunState:
    known = {"error": event.error, "known_by": event.known_by}
    return _with_call(state, event.call_id, status=CallStatus.FAILED, **known).changed(barren_claims=())


def _call_in_doubt(state: RunState, event: ToolCallInDoubt) -> RunState:
    return _with_call(
        state,
        event.call_id,
        status=CallStatus.IN_DOUBT,
        doubt=event.why,
        doubt_detail=event.detail,
        doubted_at=event.at,
    )


def _call_verified(state: RunState, event: ToolCallVerified) -> RunState:
    call = state.calls.get(event.call_id)
    if call is None:
        return state
    state = _with_call(
        state,
        event.call_id,
        verifications=call.verifications + 1,
        conclusive=call.conclusive + call.believes_not_landed(event.at),
        verified_at=event.at,
        evidence=event.evidence,
    )
    if event.verdict == "not_landed":
        return _with_call(state, event.call_id, status=CallStatus.CLEARED, cleared_by="verify")
    return state


def _escalated(state: RunState, event: RunEscalated) -> RunState:
    escalation = Escalation(event.why, event.calls, event.message, event.ask, event.at)
    return state.changed(status=RunStatus.ESCALATED, escalation=escalation)


def _resolved(state: RunState, event: EscalationResolved) -> RunState:
    state = state.changed(barren_claims=())
    if event.call_id is None:
        return _released(state).changed(trouble=None)
    decision = Decision(event.resolution, event.by, event.reason, event.at)
    decisions = {**state.decisions, event.call_id: decision}
    state = state.changed(decisions=MappingProxyType(decisions))
    if event.resolution == "rerun":
        state = _with_call(state, event.call_id, status=CallStatus.CLEARED, cleared_by="person")
    if state.escalation is None or not state.escalation.calls:
        return state
    left = tuple(call for call in state.escalation.calls if call != event.call_id)
    if left:
        return state.changed(escalation=state.escalation.changed(calls=left))
    return _released(state)


def _released(state: RunState) -> RunState:
    if state.status is not RunStatus.ESCALATED:
        return state
    return state.changed(status=RunStatus.RUNNING, escalation=None)


def _input_added(state: RunState, event: InputAdded) -> RunState:
    return state.changed(inbox=(*state.inbox, (event.seq, event.message)))


def _budget_extended(state: RunState, event: BudgetExtended) -> RunState:
    state = state.changed(
        budget=state.budget.extended(event.more),
        deadline=event.deadline or state.deadline,
    )
    if state.escalation is not None and state.escalation.why in ("budget", "deadline"):
        return _released(state)
    return state


def _cancel_requested(state: RunState, event: CancelRequested) -> RunState:
    return _released(state).changed(cancellation=Cancellation(event.by, event.reason))


def _completed(state: RunState, event: RunCompleted) -> RunState:
    return state.changed(status=RunStatus.COMPLETED, answer=event.answer)


def _failed(state: RunState, event: RunFailed) -> RunState:
    return state.changed(status=RunStatus.FAILED, failure=(event.code, event.message), escalation=None)


def _cancelled(state: RunState, event: RunCancelled) -> RunState:
    return state.changed(
        status=RunStatus.CANCELLED,
        escalation=None,
        cancellation=Cancellation(event.by, event.reason),
    )


_CHANGES: Mapping[type[Event], Callable[[RunState, Any], RunState]] = {
    RunStarted: _run_started,
    RunClaimed: _run_claimed,
    ModelResponded: _model_responded,
    ModelCallFailed: _model_call_failed,
    ToolCallStarted: _call_started,
    ToolCallSucceeded: _call_succeeded,
    ToolCallFailed: _call_failed,
    ToolCallInDoubt: _call_in_doubt,
    ToolCallVerified: _call_verified,
    RunEscalated: _escalated,
    EscalationResolved: _resolved,
    InputAdded: _input_added,
    BudgetExtended: _budget_extended,
    CancelRequested: _cancel_requested,
    RunCompleted: _completed,
    RunFailed: _failed,
    RunCancelled: _cancelled,
}
