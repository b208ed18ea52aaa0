"""A run as data, for `--json`: the shapes that programs may rely on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.application.ports.leases import LeaseRow
from perdure.domain.calls import ToolCall
from perdure.domain.events import Event
from perdure.domain.state import RunState


def event_data(event: Event) -> dict[str, Any]:
    """Return an event: its type, and its fields as they are stored."""
    return {"type": type(event).__name__, **event.model_dump(mode="json", exclude_none=True)}


def call_data(call: ToolCall) -> dict[str, Any]:
    """Return a call of the pending step."""
    return {
        "call_id": call.call_id,
        "tool": call.name,
        "arguments": call.arguments,
        "status": call.status.value,
        "attempt": call.attempt,
        "policy": call.policy.value if call.attempt else None,
        "in_doubt_because": call.doubt,
        "detail": call.doubt_detail,
        "verifications": call.verifications,
        "evidence": call.evidence,
        "result": call.content.for_model if call.content is not None else None,
        "error": call.error,
        "known_by": call.known_by,
    }


def run_data(state: RunState, lease: LeaseRow | None = None) -> dict[str, Any]:
    """Return a run at one version."""
    return {
        "run_id": state.run_id,
        "version": state.version,
        "at": state.at,
        "status": state.status.value,
        "agent": state.agent,
        "tenant": state.tenant,
        "parent": state.parent,
        "labels": dict(state.labels),
        "pins": {
            "model": state.pins.model,
            "prompt_version": state.pins.prompt_version,
            "tools": [tool.name for tool in state.pins.tools],
        },
        "started_at": state.started_at,
        "steps": state.steps,
        "input_tokens": state.input_tokens,
        "output_tokens": state.output_tokens,
        "budget": state.budget.model_dump(mode="json"),
        "deadline": state.deadline,
        "epoch": state.epoch,
        "worker": state.worker,
        "lease": _lease(lease),
        "calls": [call_data(call) for call in state.calls.values()],
        "in_doubt": [call.call_id for call in state.in_doubt],
        "escalation": _escalation(state),
        "messages": [message.model_dump(mode="json", exclude_none=True) for message in state.messages()],
        "answer": state.answer,
        "failure": {"code": state.failure[0], "message": state.failure[1]} if state.failure else None,
        "cancellation": {"by": state.cancellation.by, "reason": state.cancellation.reason}
        if state.cancellation
        else None,
    }


def _lease(lease: LeaseRow | None) -> Mapping[str, Any] | None:
    if lease is None or lease.owner is None:
        return None
    return {"owner": lease.owner, "expires_at": lease.expires_at, "live": lease.is_live}


def _escalation(state: RunState) -> Mapping[str, Any] | None:
    asked = state.escalation
    if asked is None:
        return None
    return {"why": asked.why, "calls": list(asked.calls), "message": asked.message, "ask": asked.ask}
