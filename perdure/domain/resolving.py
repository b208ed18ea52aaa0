"""When a person may decide about a call, or about a run."""

from __future__ import annotations

from perdure.domain.calls import CallStatus, ToolCall
from perdure.domain.errors import CallAlreadyResolved, CallNotFound, RunFinished, RunNotRunnable
from perdure.domain.state import RunState, RunStatus
from perdure.domain.tools import Resolution


def call_of(state: RunState, call_id: str) -> ToolCall:
    """Return a call of the pending step.

    Raises:
        CallNotFound: When the pending step has no such call.
    """
    call = state.calls.get(call_id)
    if call is None:
        known = ", ".join(state.calls) or "none"
        raise CallNotFound(
            f"run {state.run_id!r} has no call {call_id!r} in its pending step (there: {known})"
        )
    return call


def require_resolvable(state: RunState, call_id: str | None, resolution: Resolution) -> None:
    """Refuse a resolution that does not fit.

    Raises:
        CallNotFound: The run has no such call in its pending step.
        CallAlreadyResolved: The call has an outcome, or a decision.
        RunNotRunnable: The resolution is not one for this call, or for this run, as it stands.
    """
    if call_id is None:
        _require_run_resolvable(state, resolution)
    else:
        if call_id not in state.calls and call_id in state.decisions:
            raise CallAlreadyResolved(
                f"call {call_id!r} is resolved already, in an earlier step: {_decided(state, call_id)}"
            )
        _require_call_resolvable(state, call_of(state, call_id), resolution)


def _require_run_resolvable(state: RunState, resolution: Resolution) -> None:
    escalation = state.escalation
    if state.status is not RunStatus.ESCALATED or escalation is None:
        raise RunNotRunnable(f"run {state.run_id!r} is {state.status}, not escalated: nothing to resolve")
    if resolution.outcome == "abandon":
        return
    if escalation.calls:
        raise RunNotRunnable(
            f"run {state.run_id!r} waits for a decision about each of its calls: "
            + ", ".join(escalation.calls)
        )
    if resolution.outcome != "resume":
        raise RunNotRunnable(f"{resolution.outcome!r} is for a call; a run itself is resumed or abandoned")


def _require_call_resolvable(state: RunState, call: ToolCall, resolution: Resolution) -> None:
    if call.is_settled or call.status is CallStatus.CLEARED:
        raise CallAlreadyResolved(f"call {call.call_id!r} is resolved already: {_how(state, call)}")
    undecided = {CallStatus.IN_DOUBT, CallStatus.STARTED} if state.is_finished else {CallStatus.IN_DOUBT}
    if call.status not in undecided:
        raise RunNotRunnable(
            f"call {call.call_id!r} is {call.status}, not in doubt: there is nothing to decide yet"
        )
    if resolution.outcome == "resume":
        raise RunNotRunnable("'resume' is for a run; for a call say succeeded, failed or rerun")
    if state.is_finished and resolution.outcome in ("rerun", "abandon"):
        raise RunFinished(
            f"run {state.run_id!r} is {state.status}: its calls can only be put on record "
            "as succeeded or failed"
        )
    if resolution.outcome == "abandon" and state.status is not RunStatus.ESCALATED:
        raise RunNotRunnable(f"run {state.run_id!r} is not escalated; cancel it instead")


def _how(state: RunState, call: ToolCall) -> str:
    if call.call_id not in state.decisions:
        return f"it is {call.status}, known by {call.known_by or call.cleared_by}"
    return _decided(state, call.call_id)


def _decided(state: RunState, call_id: str) -> str:
    decision = state.decisions[call_id]
    return (
        f"{decision.by} decided {decision.resolution!r} at {decision.at:%Y-%m-%d %H:%M:%SZ} "
        f"({decision.reason})"
    )
