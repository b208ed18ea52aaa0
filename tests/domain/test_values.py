"""Values and events: frozen, closed, and the same after being stored and read."""

from __future__ import annotations

import inspect
import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from perdure.domain import budget, content, errors, events, messages, moves, pins, tools, upcasts
from perdure.domain.content import InlineContent, StoredContent
from perdure.domain.events import EVENTS, Event, RunCancelled, ToolCallStarted
from perdure.domain.messages import OpaquePart, ToolRequest, UserMessage
from perdure.domain.tools import Policy, Resolution, ToolContract, Verdict
from perdure.domain.value import DEEPEST_JSON, Value
from perdure.testing import a_run, asks

from .random_events import FIELDS, any_event

NOW = datetime(2026, 1, 1, tzinfo=UTC)
VALUES = [
    member
    for module in (budget, content, events, messages, moves, pins, tools)
    for member in vars(module).values()
    if inspect.isclass(member) and issubclass(member, BaseModel) and member.__module__ == module.__name__
]


def nested(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(levels - 1):
        inner = {"a": inner}
    return inner


# -- storing -------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=300)
@for_all(any_event)
def test_round_trip(event: Event) -> None:
    """Every event is the same after being written as JSON and read again, without its empty fields too."""
    for text in (event.model_dump_json(), event.model_dump_json(exclude_none=True)):
        text.encode("utf-8")
        assert type(event).model_validate_json(text) == event


def test_lone_surrogates() -> None:
    """Half a character is written out, so that it can be stored and shown; whole ones stay as they are."""
    assert UserMessage(text="a\ud800b").text == "a\\ud800b"
    for text in ("", "plain", "é \U0001f600 \0", "\\ud800"):
        assert UserMessage(text=text).text == text
    again = UserMessage(text=UserMessage(text="\udfff").text)
    assert again.text == "\\udfff"


def test_lone_surrogates_in_json() -> None:
    """What a provider wants back is made storable at every level, its keys included."""
    part = OpaquePart(opaque={"\ud800": ["\ud800", {"a": "\udc00"}]})
    assert part.opaque == {"\\ud800": ["\\ud800", {"a": "\\udc00"}]}


@settings(deadline=None, max_examples=200)
@for_all(any_event)
def test_every_text_is_storable(event: Event) -> None:
    """Half a character in whatever field of an event does not keep the event from the store."""
    made_by_us = {"call_id", "idempotency_key"}
    for name in FIELDS[type(event)].keys() - made_by_us:
        if isinstance(getattr(event, name), str):
            form = {field: getattr(event, field) for field in type(event).model_fields} | {name: "\ud800"}
            try:
                changed = type(event).model_validate(form)
            except ValidationError:
                continue  # one of a few words, and this is none of them
            assert getattr(changed, name) == "\\ud800"


def test_deep_json() -> None:
    """JSON that could be written and not be read again is refused when it comes in."""
    event = a_run().claimed()
    deepest = OpaquePart(opaque=nested(DEEPEST_JSON))
    reply = messages.Reply(parts=(deepest,))
    stored = event.responded(reply)[-1]
    assert type(stored).model_validate_json(stored.model_dump_json()) == stored
    for levels in (DEEPEST_JSON + 2, 10_000):
        with pytest.raises(ValidationError, match="deeper than 100 levels"):
            OpaquePart(opaque=nested(levels))
        with pytest.raises(ValidationError, match="deeper than 100 levels"):
            tools.ToolSpec(name="t", description="", parameters=nested(levels))


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_has_not(number: float) -> None:
    """A number that JSON has no form for is refused: it would come back as nothing."""
    with pytest.raises(ValidationError, match="no number in JSON"):
        OpaquePart(opaque={"a": [number]})
    started = a_run().claimed().responded(asks("t")).call_started()[-1]
    for field in ("timeout", "settle"):
        with pytest.raises(ValidationError):
            ToolContract.model_validate({field: number})
        with pytest.raises(ValidationError):
            ToolCallStarted.model_validate(started.model_dump() | {field: number})


@for_all(st.text(st.characters(), max_size=20))
def test_arguments_are_kept_verbatim(text: str) -> None:
    """Arguments are kept as the model wrote them, whatever they are, but for half characters."""
    kept = ToolRequest(name="t", arguments=text).arguments
    assert kept == text or re.search(r"[\ud800-\udfff]", text)


# -- frozen and closed ---------------------------------------------------------------------------------


@pytest.mark.parametrize("value_type", VALUES)
def test_closed_and_frozen(value_type: type[BaseModel]) -> None:
    """Every value of the domain is frozen, and refuses fields that it does not know."""
    assert issubclass(value_type, Value)
    assert (value_type.model_config.get("frozen"), value_type.model_config.get("extra")) == (True, "forbid")


@settings(deadline=None, max_examples=50)
@for_all(any_event)
def test_events_are_closed_and_frozen(event: Event) -> None:
    """An event cannot be changed, and one with a field more is refused."""
    for name in type(event).model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(event, name, None)
    form = json.loads(event.model_dump_json()) | {"added_later": 1}
    with pytest.raises(ValidationError, match="added_later"):
        type(event).model_validate(form)


def test_topics() -> None:
    """Every event has a topic of its own, and a version."""
    topics = [event_type.TOPIC for event_type in EVENTS]
    assert len(set(topics)) == len(topics)
    assert all(re.fullmatch(r"perdure(\.[a-z]+(-[a-z]+)*)+", topic) for topic in topics)
    assert all(event_type.VERSION >= 1 for event_type in EVENTS)
    defined = {each for each in vars(events).values() if inspect.isclass(each) and issubclass(each, Event)}
    assert defined - {Event} == set(EVENTS)


def test_event_fields_refused() -> None:
    """An event without a place in the log, or without a time zone, is none."""
    good: dict[str, Any] = {"run_id": "r", "seq": 1, "at": NOW, "by": "a", "reason": "b"}
    assert RunCancelled(**good)
    for bad in ({"seq": 0}, {"at": NOW.replace(tzinfo=None)}, {"by": None}, {"run_id": None}):
        with pytest.raises(ValidationError):
            RunCancelled(**{**good, **bad})


# -- the rest ------------------------------------------------------------------------------------------


def test_content() -> None:
    """Content is text, what JSON text stands for, or a summary of what lies elsewhere."""
    assert InlineContent(text="[1").value() == "[1"
    assert InlineContent(text='{"a": 1}', media_type="application/json").value() == {"a": 1}
    stored = StoredContent(size=9, sha256="0" * 64, summary="9 bytes")
    assert (InlineContent(text="x").for_model, stored.for_model) == ("x", "9 bytes")
    for bad in ({"size": -1}, {"sha256": "0" * 63}, {"sha256": "G" * 64}):
        with pytest.raises(ValidationError):
            StoredContent(**{"size": 9, "sha256": "0" * 64, "summary": "", **bad})


@pytest.mark.parametrize("one", Policy)
@pytest.mark.parametrize("other", Policy)
def test_stricter(one: Policy, other: Policy) -> None:
    """Of two policies the one that does less by itself is the stricter, whichever is named first."""
    order = [
        Policy.RERUN,
        Policy.RERUN_WITH_IDEMPOTENCY_KEY,
        Policy.VERIFY_THEN_DECIDE,
        Policy.ESCALATE_IF_UNKNOWN,
    ]
    assert Policy.stricter(one, other) is order[max(order.index(one), order.index(other))]


def test_default_policy() -> None:
    """A tool that names no policy is left to a person."""
    assert ToolContract().policy is Policy.ESCALATE_IF_UNKNOWN


@pytest.mark.parametrize(
    "terms",
    [
        {"timeout": 0},
        {"settle": -1},
        {"max_attempts": 0},
        {"max_verifications": 0},
        {"key_ttl": "PT0S"},
        {"policy": "never"},
        {"retries": 1},
    ],
)
def test_contract_refused(terms: dict[str, Any]) -> None:
    """A contract that means nothing is refused."""
    with pytest.raises(ValidationError):
        ToolContract(**terms)


def test_verdicts_and_resolutions() -> None:
    """Verdicts and resolutions are made by name."""
    assert Verdict.landed(7, evidence="e") == Verdict(outcome="landed", result=7, evidence="e")
    assert Verdict.not_landed().outcome == "not_landed"
    assert Verdict.unknown().outcome == "unknown"
    assert Resolution.succeeded(7) == Resolution(outcome="succeeded", result=7)
    made = [Resolution.failed("x"), Resolution.rerun(), Resolution.resume(), Resolution.abandon()]
    assert [each.outcome for each in made] == ["failed", "rerun", "resume", "abandon"]


def test_upcasting() -> None:
    """A stored form goes through every version between its own and the present one."""
    steps = {("t", 1): lambda form: {**form, "b": 2}, ("t", 2): lambda form: {**form, "c": form["b"]}}
    brought_up = upcasts.upcast({"a": 1}, "t", stored=1, current=3, upcasts=steps)
    assert brought_up == {"a": 1, "b": 2, "c": 2}
    assert upcasts.upcast({"a": 1}, "t", stored=3, current=3, upcasts=steps) == {"a": 1}
    with pytest.raises(LookupError):
        upcasts.upcast({}, "t", stored=1, current=4, upcasts=steps)


def test_every_version_can_be_brought_up() -> None:
    """No version between the first and the present one of an event lacks its way up."""
    needed = {(each.TOPIC, version) for each in EVENTS for version in range(1, each.VERSION)}
    assert set(upcasts.UPCASTS) == needed


# -- errors --------------------------------------------------------------------------------------------


def tree_in_docstring() -> dict[str, str]:
    """Return error -> its base, as the docstring draws them."""
    drawn = re.findall(r"^([│├└─ ]*)([A-Z]\w+)", (errors.__doc__ or "").split("```")[1], re.MULTILINE)
    bases: dict[str, str] = {}
    path: list[str] = []
    for lead, name in drawn:
        depth = len(lead) // 4
        path[depth:] = [name]
        bases[name] = path[depth - 1] if depth else "Exception"
    return bases


def test_error_tree() -> None:
    """The tree of errors in the documentation is the tree of errors."""
    classes = {
        name: member.__bases__[0].__name__
        for name, member in vars(errors).items()
        if inspect.isclass(member) and issubclass(member, BaseException)
    }
    assert tree_in_docstring() == classes


def test_model_error() -> None:
    """A model error is transient unless it says that it is for good."""
    assert (errors.ModelError("x").kind, errors.ModelError("x").retry_after) == ("transient", None)
    assert errors.ModelError("x", kind="permanent", retry_after=3).retry_after == 3
    with pytest.raises(ValueError):
        errors.ModelError("x", kind="odd")
