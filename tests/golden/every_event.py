"""Every event type with every field in use: what the golden log holds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from perdure import Budget, Policy
from perdure.domain.content import InlineContent, StoredContent
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
from perdure.domain.messages import (
    AssistantMessage,
    OpaquePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    Usage,
    UserMessage,
)
from perdure.domain.pins import Pins, ToolPin

RUN = "golden:run-1"
BEGAN = datetime(2026, 10, 9, 8, 0, 0, 123456, tzinfo=UTC)
CALL = "call_1_1_0a1b2c3d"
OPAQUE: dict[str, Any] = {"signature": "c2ln", "nested": [1, 2.5, True, None, {"\u00e9": "\u65e5"}]}

PINS = Pins(
    model="openai:gpt-5",
    prompt_version="v14",
    prompt="You help. Gr\u00fc\u00dfe.",
    tools=(
        ToolPin(
            name="issue_refund",
            description="Refund an order.",
            parameters={
                "type": "object",
                "properties": {"order": {"type": "string"}, "cents": {"type": "integer"}},
                "required": ["order", "cents"],
                "additionalProperties": False,
            },
            policy=Policy.ESCALATE_IF_UNKNOWN,
            source="shop",
        ),
        ToolPin(name="now", description="", parameters={"type": "object"}, policy=Policy.RERUN),
    ),
)

FACTS: list[tuple[type[Event], dict[str, Any]]] = [
    (
        RunStarted,
        {
            "agent": "support",
            "input": (
                UserMessage(text="Refund order 77 \U0001f600 \x00"),
                AssistantMessage(parts=(TextPart(text="Which one?", opaque=OPAQUE),)),
                UserMessage(text="The blue one."),
            ),
            "pins": PINS,
            "budget": Budget(steps=40, tokens=200_000, wall_clock=timedelta(hours=1, milliseconds=5)),
            "tenant": "acme",
            "deadline": BEGAN + timedelta(hours=1, milliseconds=5),
            "labels": {"team": "billing", "\u00e9": "\u65e5\u672c"},
            "parent": "run_0",
        },
    ),
    (RunClaimed, {"worker": "host:1:abcd", "epoch": 1, "left": "new"}),
    (
        ModelCallFailed,
        {"step": 1, "attempt": 1, "failure": "transient", "message": "overloaded", "retry_at": BEGAN},
    ),
    (ModelCallFailed, {"step": 1, "attempt": 2, "failure": "permanent", "message": "bad key"}),
    (
        ModelResponded,
        {
            "step": 1,
            "seen": 4,
            "message": AssistantMessage(
                parts=(
                    ThinkingPart(text="Hm.", opaque=OPAQUE),
                    TextPart(text="Let me see.", opaque=OPAQUE),
                    ToolCallPart(
                        provider_call_id="toolu_1",
                        name="issue_refund",
                        arguments='{"order": "77", "cents": 500}',
                        opaque=OPAQUE,
                        call_id=CALL,
                    ),
                    ToolCallPart(name="now", arguments="", call_id="call_1_2_0a1b2c3d"),
                    OpaquePart(opaque=OPAQUE),
                )
            ),
            "usage": Usage(input_tokens=1200, output_tokens=80, cache_read_tokens=1000, cache_write_tokens=7),
            "finish_reason": "tool_calls",
            "model": "gpt-5-2026-09-01",
        },
    ),
    *(
        (
            ToolCallStarted,
            {
                "call_id": CALL,
                "attempt": attempt,
                "policy": policy,
                "idempotency_key": f"perdure:{RUN}:{CALL}",
                "timeout": 30.5,
                "settle": 2.25,
            },
        )
        for attempt, policy in enumerate(Policy, start=1)
    ),
    *(
        (ToolCallInDoubt, {"call_id": CALL, "attempt": 4, "why": why, "detail": f"{why}: \\ud800"})
        for why in ("crash", "timeout", "lost_connection", "cancelled", "exception")
    ),
    *(
        (ToolCallVerified, {"call_id": CALL, "attempt": 4, "verdict": verdict, "evidence": "looked"})
        for verdict in ("unknown", "not_landed", "landed")
    ),
    *(
        (
            RunEscalated,
            {
                "why": why,
                "calls": (CALL,) if why == "calls_in_doubt" else (),
                "message": "Why.",
                "ask": "Decide.",
            },
        )
        for why in ("calls_in_doubt", "budget", "deadline", "model", "pins", "quarantine")
    ),
    *(
        (
            EscalationResolved,
            {
                "call_id": None if resolution == "resume" else CALL,
                "resolution": resolution,
                "by": "ann@acme",
                "reason": "seen in ledger",
            },
        )
        for resolution in ("rerun", "failed", "succeeded", "resume", "abandon")
    ),
    *(
        (
            ToolCallSucceeded,
            {
                "call_id": CALL,
                "content": InlineContent(media_type="application/json", text='{"id":"RF-1"}'),
                "known_by": known_by,
            },
        )
        for known_by in ("ran", "verified", "person")
    ),
    (
        ToolCallSucceeded,
        {
            "call_id": CALL,
            "content": StoredContent(
                media_type="text/plain", size=2_000_000, sha256="0" * 64, summary="Two megabytes."
            ),
            "known_by": "ran",
        },
    ),
    *(
        (ToolCallFailed, {"call_id": CALL, "error": "no such order", "known_by": known_by})
        for known_by in ("ran", "refused", "verified", "person")
    ),
    (InputAdded, {"message": UserMessage(text="Hurry."), "by": "bob"}),
    (
        BudgetExtended,
        {
            "more": Budget(steps=5, tokens=1000, wall_clock=timedelta(minutes=10)),
            "deadline": BEGAN + timedelta(hours=2),
            "by": "ann@acme",
            "reason": "nearly there",
        },
    ),
    (CancelRequested, {"by": "ann@acme", "reason": "duplicate"}),
    (RunCompleted, {"answer": "Done. \U0001f600"}),
    (RunFailed, {"code": "abandoned", "message": "gave up", "by": "ann@acme"}),
    (RunCancelled, {"by": "ann@acme", "reason": "duplicate"}),
]


def every_event() -> Sequence[Event]:
    """Return them in the order of the golden log: a list of facts rather than a run that could be."""
    return [
        event_type.model_validate(
            {"run_id": RUN, "seq": seq, "at": BEGAN + timedelta(seconds=seq, microseconds=seq), **facts}
        )
        for seq, (event_type, facts) in enumerate(FACTS, start=1)
    ]
