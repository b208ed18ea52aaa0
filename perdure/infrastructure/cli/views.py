"""A run as data, for `--json`: the shapes that programs may rely on.

Keys are added, never removed or given another meaning. Times are ISO 8601 in UTC (`2026-01-31T12:00:00Z`),
durations ISO 8601 (`PT1H`). What is not there is `null`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.application.ports.leases import LeaseRow
from perdure.domain.calls import ToolCall, idempotency_key_for
from perdure.domain.events import Event
from perdure.domain.state import RunState


def event_data(event: Event) -> dict[str, Any]:
    """Return an event: its type, and its fields as they are stored."""
    return {"type": type(event).__name__, **event.model_dump(mode="json", exclude_none=True)}


def call_data(run_id: str, call: ToolCall) -> dict[str, Any]:
    """Return a call of the pending step; `arguments` is JSON text as the model wrote it."""
    has_started = call.attempt > 0
    return {
        "call_id": call.call_id,
        "tool": call.name,
        "arguments": call.arguments,
        "status": call.status.value,
        "attempt": call.attempt,
        "policy": call.policy.value if has_started else None,
        "idempotency_key": idempotency_key_for(run_id, call.call_id) if has_started else None,
        "started_at": call.started_at,
        "in_doubt_because": call.doubt,
        "detail": call.doubt_detail,
        "in_doubt_since": call.doubted_at,
        "verifications": call.verifications,
        "evidence": call.evidence,
        "cleared_by": call.cleared_by,
        "result": call.content.for_model if call.content is not None else None,
        "error": call.error,
        "known_by": call.known_by,
    }


def summary_data(state: RunState, lease: LeaseRow | None = None) -> dict[str, Any]:
    """Return a run at one version, without its conversation and its calls."""
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
        "in_doubt": [call.call_id for call in state.in_doubt],
        "escalation": _escalation(state),
        "model_trouble": _model_trouble(state),
        "answer": state.answer,
        "failure": {"code": state.failure[0], "message": state.failure[1]} if state.failure else None,
        "cancellation": {"by": state.cancellation.by, "reason": state.cancellation.reason}
        if state.cancellation
        else None,
    }


def run_data(state: RunState, lease: LeaseRow | None = None) -> dict[str, Any]:
    """Return everything about a run at one version."""
    return {
        **summary_data(state, lease),
        "calls": [call_data(state.run_id, call) for call in state.calls.values()],
        "decisions": {
            call_id: {
                "resolution": decision.resolution,
                "by": decision.by,
                "reason": decision.reason,
                "at": decision.at,
            }
            for call_id, decision in state.decisions.items()
        },
        "messages": [message.model_dump(mode="json", exclude_none=True) for message in state.messages()],
    }


def _lease(lease: LeaseRow | None) -> Mapping[str, Any] | None:
    if lease is None or lease.owner is None:
        return None
    return {"owner": lease.owner, "expires_at": lease.expires_at, "live": lease.is_live}


def _escalation(state: RunState) -> Mapping[str, Any] | None:
    asked = state.escalation
    if asked is None:
        return None
    return {
        "why": asked.why,
        "calls": list(asked.calls),
        "message": asked.message,
        "ask": asked.ask,
        "at": asked.at,
    }


def _model_trouble(state: RunState) -> Mapping[str, Any] | None:
    trouble = state.trouble
    if trouble is None:
        return None
    return {"attempt": trouble.attempt, "message": trouble.message, "retry_at": trouble.retry_at}
