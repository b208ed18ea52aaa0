"""Events as no run would record them: any type, in any order, about any call."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args

from hypothesis import strategies as st

from perdure.domain import events as facts
from perdure.domain.budget import Budget
from perdure.domain.content import InlineContent, StoredContent
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
from perdure.domain.tools import Policy

ODD = ["", "a", "\0", "\ud800", "é", "e\u0301", "\U0001f600", "x" * 50]
texts = st.one_of(st.sampled_from(ODD), st.text(st.characters(), max_size=5))
START, END = datetime(2000, 1, 2), datetime(9000, 1, 1)  # noqa: DTZ001 - hypothesis adds the zone
times = st.datetimes(START, END, timezones=st.just(UTC))
counts = st.integers(0, 10**30)
numbers = st.integers(1, 4)
ids = st.sampled_from(["call_1_1_4e65d3fb", "call_1_2_4e65d3fb", "call_2_1_4e65d3fb", "x", ""])
seconds = st.floats(0, allow_nan=False, allow_infinity=False)
json = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(texts, inner, max_size=2)),
    max_leaves=4,
)
opaque = st.none() | st.dictionaries(texts, json, max_size=2)
budgets = st.builds(
    Budget,
    steps=st.none() | st.integers(1, 10**30),
    tokens=st.none() | st.integers(1, 10**30),
    wall_clock=st.none() | st.timedeltas(timedelta(microseconds=1), timedelta(days=36_525)),
)
contents = st.one_of(
    st.builds(InlineContent, text=texts, media_type=st.sampled_from(["text/plain", "application/json"])),
    st.builds(StoredContent, size=counts, sha256=st.just("0" * 64), summary=texts),
)
calls = st.builds(
    ToolCallPart, provider_call_id=st.none() | texts, name=texts, arguments=texts, call_id=ids, opaque=opaque
)
parts = st.one_of(
    st.builds(TextPart, text=texts, opaque=opaque),
    st.builds(ThinkingPart, text=texts, opaque=opaque),
    st.builds(OpaquePart, opaque=st.dictionaries(texts, json, max_size=2)),
    calls,
)
responses = st.builds(AssistantMessage, parts=st.lists(parts, max_size=4).map(tuple))
questions = st.builds(UserMessage, text=texts)
pins = st.builds(
    Pins,
    model=texts,
    prompt_version=texts,
    prompt=texts,
    tools=st.lists(
        st.builds(
            ToolPin,
            name=texts,
            description=texts,
            parameters=st.dictionaries(texts, json, max_size=2),
            policy=st.sampled_from(Policy),
            source=st.none() | texts,
        ),
        max_size=2,
    ).map(tuple),
)
usages = st.builds(Usage, input_tokens=counts, output_tokens=counts, cache_read_tokens=st.none() | counts)
doubts = st.sampled_from(get_args(facts.DoubtReason))
whys = st.sampled_from(get_args(facts.EscalationReason))

FIELDS: dict[type[facts.Event], dict[str, st.SearchStrategy[object]]] = {
    facts.RunStarted: {
        "agent": texts,
        "input": st.lists(questions | responses, max_size=2).map(tuple),
        "pins": pins,
        "budget": budgets,
        "tenant": st.none() | texts,
        "deadline": st.none() | times,
        "labels": st.none() | st.dictionaries(texts, texts, max_size=2),
        "parent": st.none() | texts,
    },
    facts.RunClaimed: {
        "worker": texts,
        "epoch": numbers,
        "left": st.sampled_from(["new", "released", "expired"]),
    },
    facts.ModelResponded: {
        "step": numbers,
        "seen": st.integers(0, 30),
        "message": responses,
        "usage": usages,
        "finish_reason": st.none() | texts,
        "model": st.none() | texts,
    },
    facts.ModelCallFailed: {
        "step": numbers,
        "attempt": numbers,
        "failure": st.sampled_from(["transient", "permanent"]),
        "message": texts,
        "retry_at": st.none() | times,
    },
    facts.ToolCallStarted: {
        "call_id": ids,
        "attempt": numbers,
        "policy": st.sampled_from(Policy),
        "idempotency_key": st.just("key"),
        "timeout": seconds,
        "settle": st.none() | seconds,
    },
    facts.ToolCallSucceeded: {
        "call_id": ids,
        "content": contents,
        "known_by": st.sampled_from(["ran", "verified", "person"]),
    },
    facts.ToolCallFailed: {
        "call_id": ids,
        "error": texts,
        "known_by": st.sampled_from(["ran", "refused", "verified", "person"]),
    },
    facts.ToolCallInDoubt: {"call_id": ids, "attempt": numbers, "why": doubts, "detail": st.none() | texts},
    facts.ToolCallVerified: {
        "call_id": ids,
        "attempt": numbers,
        "verdict": st.sampled_from(["landed", "not_landed", "unknown"]),
        "evidence": st.none() | texts,
    },
    facts.RunEscalated: {
        "why": whys,
        "calls": st.lists(ids, max_size=2).map(tuple),
        "message": texts,
        "ask": texts,
    },
    facts.EscalationResolved: {
        "call_id": st.none() | ids,
        "resolution": st.sampled_from(["succeeded", "failed", "rerun", "resume", "abandon"]),
        "by": texts,
        "reason": texts,
    },
    facts.InputAdded: {"message": questions, "by": st.none() | texts},
    facts.BudgetExtended: {"more": budgets, "deadline": st.none() | times, "by": texts, "reason": texts},
    facts.CancelRequested: {"by": texts, "reason": texts},
    facts.RunCompleted: {"answer": texts},
    facts.RunFailed: {"code": texts, "message": texts, "by": st.none() | texts},
    facts.RunCancelled: {"by": texts, "reason": texts},
}


def events_of(event_type: type[facts.Event]) -> st.SearchStrategy[facts.Event]:
    """Return random events of one type."""
    return st.builds(
        event_type, run_id=st.just("run-1"), seq=st.integers(1, 30), at=times, **FIELDS[event_type]
    )


any_event = st.sampled_from(facts.EVENTS).flatmap(events_of)
any_log = st.lists(any_event, max_size=12)

__all__ = ["FIELDS", "any_event", "any_log", "events_of"]
