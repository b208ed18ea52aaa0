"""Results of all kinds are stored; what has no stored form does not undo the call."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from perdure import RunStatus, ToolRegistry

from .calling import called, result_of


class Parcel(BaseModel):
    number: int
    to: str


@dataclass
class Point:
    x: float
    y: float


class Colour(enum.Enum):
    RED = "red"


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def circular() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


STORED: dict[str, tuple[object, object]] = {
    "text": ("plain", "plain"),
    "empty text": ("", ""),
    "nothing": (None, None),
    "a model": (Parcel(number=1, to="Ann"), {"number": 1, "to": "Ann"}),
    "models in a list": ([Parcel(number=1, to="Ann")], [{"number": 1, "to": "Ann"}]),
    "a dataclass": (Point(1, 2.5), {"x": 1, "y": 2.5}),
    "bytes": (b"abc", "abc"),
    "a huge number": (10**400, 10**400),
    "not a number": (float("nan"), "NaN"),
    "infinity": ({"x": float("-inf")}, {"x": "-Infinity"}),
    "a tuple": ((1, "a"), [1, "a"]),
    "a set": ({1}, [1]),
    "an enum": (Colour.RED, "red"),
    "a decimal": (Decimal("1.10"), "1.10"),
    "a time": (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
    "a date": (date(2026, 1, 1), "2026-01-01"),
    "a duration": (timedelta(minutes=1), "PT1M"),
    "a UUID": (UUID(int=1), str(UUID(int=1))),
    "a path": (Path("/a"), "/a"),
    "keys that are numbers": ({1: "a"}, {"1": "a"}),
    "a lone surrogate in a list": (["a\ud800"], ["a\ud800"]),
    "escapes": ('{"a": "\x00"}', '{"a": "\x00"}'),
}


@pytest.mark.parametrize(("result", "stored"), STORED.values(), ids=STORED.keys())
def test_results_of_all_kinds_are_stored(result: object, stored: object) -> None:
    """What has a JSON form is stored as that; text is stored as it is."""
    tools = ToolRegistry()

    @tools.tool
    def give() -> Any:
        return result

    with called(tools, "give") as runs:
        content = result_of(runs)

    assert content.value() == stored
    assert content.media_type == ("text/plain" if isinstance(result, str) else "application/json")


def test_text_without_a_utf_8_form_is_stored_with_its_escapes() -> None:
    """A lone surrogate in text is written out, so that it can be stored and shown."""
    tools = ToolRegistry()

    @tools.tool
    def give() -> str:
        return "a\ud800b"

    with called(tools, "give") as runs:
        assert result_of(runs).text == "a\\ud800b"


UNSTORABLE: dict[str, Callable[[], object]] = {
    "an object": object,
    "a function": lambda: print,
    "ten thousand deep": lambda: deep(10_000),
    "circular": circular,
    "bytes that are no text": lambda: b"\xff\xfe",
    "an exception": lambda: ValueError("x"),
    "a mapping with odd keys": lambda: {(1, 2): 3, object(): 4},
    "a generator that breaks": lambda: (1 / 0 for _ in range(1)),
}


@pytest.mark.parametrize("make", UNSTORABLE.values(), ids=UNSTORABLE.keys())
def test_a_result_that_cannot_be_stored_does_not_undo_the_call(make: Callable[[], object]) -> None:
    """The call happened and succeeded; its content says what was lost, and the run goes on."""
    tools, calls = ToolRegistry(), []

    @tools.tool
    def give() -> Any:
        calls.append(1)
        return make()

    with called(tools, "give") as runs:
        content = result_of(runs)
        state = runs.state("r")

    assert calls == [1]
    assert state.status is RunStatus.COMPLETED
    assert content.text


def test_deep_results_up_to_what_parsers_read_are_stored() -> None:
    """Nesting that JSON parsers can read is kept."""
    tools = ToolRegistry()

    @tools.tool
    def give() -> Any:
        return deep(90)

    with called(tools, "give") as runs:
        assert result_of(runs).value() == deep(90)
