"""Calling tools: arguments are checked, the context is filled in, results of all kinds are stored."""

from __future__ import annotations

import asyncio
import contextvars
import enum
import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from perdure import Agent, AgentRuns, Budget, Limits, Policy, RunStatus, ToolContext, ToolRegistry
from perdure.domain.content import InlineContent
from perdure.domain.events import ToolCallFailed, ToolCallInDoubt, ToolCallStarted, ToolCallSucceeded
from perdure.testing import ScriptedModel, asks, says
from tests.support.waiting import eventually


def called(tools: ToolRegistry, tool: str, arguments: object = None, **changes: Any) -> AgentRuns:
    """Drive a run that makes one call."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    model = ScriptedModel([asks(tool, text), says("Done.")])
    agent = Agent("a", model, "v1", tools=tools, limits=Limits(first_delay=0.001), **changes)
    runs = AgentRuns.in_memory(agents=[agent])
    runs.advance(runs.start("a", "Go.", run_id="r", tenant="acme"))
    return runs


def result_of(runs: AgentRuns) -> InlineContent:
    (content,) = [event.content for event in runs.events("r") if isinstance(event, ToolCallSucceeded)]
    assert isinstance(content, InlineContent)
    return content


# -- arguments -----------------------------------------------------------------------------------------

REFUSED = {
    "missing": ("{}", "n: Missing required"),
    "another type": ('{"n": "many"}', "n: Input should be a valid integer"),
    "one too many": ('{"n": 1, "m": 2}', "m: Unexpected"),
    "a list": ("[1]", "arguments"),
    "no JSON": ("{n: 1}", "Invalid JSON"),
    "cut off": ('{"n": 1', "Invalid JSON"),
    "nothing but text": ("hello", "Invalid JSON"),
    "NaN": ('{"n": NaN}', "n: "),
    "ten thousand deep": ('{"n": ' + "[" * 10_000 + "]" * 10_000 + "}", ""),
    "a lone surrogate": ('{"n": "\\ud800"}', ""),
}


@pytest.mark.parametrize(("text", "says_why"), REFUSED.values(), ids=REFUSED.keys())
def test_arguments_that_do_not_fit_are_refused_before_anything_ran(text: str, says_why: str) -> None:
    """The call fails without a start; the model reads why, and the log is readable afterwards."""
    tools, calls = ToolRegistry(), []

    @tools.tool
    def add(n: int) -> int:
        calls.append(n)
        return n

    with called(tools, "add", text) as runs:
        events = runs.events("r")
        state = runs.state("r")

    failed = [event for event in events if isinstance(event, ToolCallFailed)]
    assert calls == []
    assert not [event for event in events if isinstance(event, ToolCallStarted)]
    assert [event.known_by for event in failed] == ["refused"]
    assert says_why in failed[0].error
    assert len(failed[0].error) < 2000
    assert state.status is RunStatus.COMPLETED


def test_a_refusal_does_not_repeat_secrets() -> None:
    """The error names the argument, not its value."""
    tools = ToolRegistry()
    tools.tool(name="add")(lambda_typed)
    with called(tools, "add", {"n": "hunter2"}) as runs:
        (failed,) = [event for event in runs.events("r") if isinstance(event, ToolCallFailed)]

    assert "hunter2" not in failed.error


def lambda_typed(n: int) -> int:
    return n


def test_no_arguments_may_be_written_as_nothing() -> None:
    """Some models send an empty text for a tool without arguments."""
    tools = ToolRegistry()

    @tools.tool
    def now() -> str:
        return "noon"

    for text in ("", "  ", "{}"):
        with called(tools, "now", text) as runs:
            assert result_of(runs).text == "noon"


def test_a_tool_that_is_not_there_is_a_result_that_the_model_reads() -> None:
    """The model is told which tools there are."""
    tools = ToolRegistry()
    tools.tool(name="add")(lambda_typed)
    with called(tools, "subtract") as runs:
        (failed,) = [event for event in runs.events("r") if isinstance(event, ToolCallFailed)]

    assert failed.error == "There is no tool 'subtract'. The tools are: add."


TEXTS = [
    "Grüße",
    "日本語",
    "\U0001f600",
    "nul \x00 nul",
    "e\u0301",
    "\u202eltr",
    "\x7f\x1b[31m",
    "'; DROP TABLE--",
]


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_goes_through_unchanged(text: str, database_url: str) -> None:
    """Arguments and results with all kinds of characters come back from PostgreSQL as they were."""
    tools, seen = ToolRegistry(), []

    @tools.tool
    def echo(text: str) -> str:
        seen.append(text)
        return text

    model = ScriptedModel([asks("echo", {"text": text}), says(text)])
    with AgentRuns.connect(database_url, agents=[Agent("a", model, "v1", tools=tools)]) as runs:
        runs.advance(runs.start("a", text, run_id="r", tenant="t", labels={"k": "Grüße"}))
        state = runs.state("r")
        told = [result.content for message in state.messages() for result in getattr(message, "results", ())]

    assert seen == [text]
    assert told == [text]
    assert state.answer == text


# -- results -------------------------------------------------------------------------------------------


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


# -- the call itself -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_the_context_says_which_call_it_is(is_async: bool) -> None:
    """Run, call, attempt, key, tenant and deadline are filled in, whatever the parameter is called."""
    tools, seen = ToolRegistry(), []

    def sync(n: int, about: ToolContext) -> str:
        seen.append(about)
        about.ensure_owned()
        return "ok"

    async def not_sync(n: int, about: ToolContext) -> str:
        return sync(n, about)

    tools.tool(name="act")(not_sync if is_async else sync)
    with called(tools, "act", {"n": 1}, budget=Budget(wall_clock=timedelta(hours=1))) as runs:
        state = runs.state("r")

    (context,) = seen
    assert context.run_id == "r"
    assert context.call_id in {
        event.call_id for event in runs.events("r") if isinstance(event, ToolCallStarted)
    }
    assert (context.attempt, context.tenant, context.deadline) == (1, "acme", state.deadline)
    assert context.idempotency_key == f"perdure:r:{context.call_id}"


def test_a_model_cannot_fill_in_the_context() -> None:
    """An argument of the context's name is one too many."""
    tools = ToolRegistry()

    @tools.tool
    def act(n: int, ctx: ToolContext) -> str:
        return ctx.run_id

    with called(tools, "act", {"n": 1, "ctx": {"run_id": "other"}}) as runs:
        assert [event.known_by for event in runs.events("r") if isinstance(event, ToolCallFailed)] == [
            "refused"
        ]


def test_sync_tools_run_beside_the_loop_and_see_its_context_variables() -> None:
    """A sync tool gets a thread of its own, with the context of the caller."""
    trace: contextvars.ContextVar[str] = contextvars.ContextVar("trace", default="none")
    tools, seen = ToolRegistry(), []

    @tools.tool
    def act() -> str:
        seen.append((threading.current_thread().name, trace.get()))
        return "ok"

    trace.set("abc")
    with called(tools, "act"):
        pass

    ((name, value),) = seen
    assert name.startswith("perdure r call_1_1_")
    assert value == "abc"


@pytest.mark.parametrize("policy", Policy)
def test_an_async_tool_past_its_timeout_goes_by_its_policy(policy: Policy) -> None:
    """It is cancelled, and whether it happened is not known, except for a tool that only reads."""
    tools, ended = ToolRegistry(), []

    async def hang() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return ""

    def nothing_found() -> Any:
        raise ConnectionError("no answer")

    verify = nothing_found if policy is Policy.VERIFY_THEN_DECIDE else None
    tools.tool(policy=policy, verify=verify, timeout=0.02, max_attempts=2, max_verifications=1)(hang)
    with called(tools, "hang") as runs:
        events, state = runs.events("r"), runs.state("r")

    attempts = 2 if policy is Policy.RERUN_WITH_IDEMPOTENCY_KEY else 1
    assert ended == ["cancelled"] * attempts
    if policy is Policy.RERUN:
        assert [event.known_by for event in events if isinstance(event, ToolCallFailed)] == ["ran"]
        return
    doubts = [event for event in events if isinstance(event, ToolCallInDoubt)]
    assert [doubt.why for doubt in doubts] == ["timeout"] * attempts
    assert "no end within 0.02 s" in str(doubts[0].detail)
    assert state.status is RunStatus.ESCALATED


def test_a_sync_tool_that_outlives_its_timeout_is_left_to_end(caplog: pytest.LogCaptureFixture) -> None:
    """Its thread goes on: the call is in doubt, and what it brings later is logged and dropped."""
    tools, go_on = ToolRegistry(), threading.Event()

    @tools.tool(timeout=0.05)
    def slow() -> str:
        go_on.wait(20)
        return "late"

    model = ScriptedModel([asks("slow"), says("Done.")])
    with AgentRuns.in_memory(agents=[Agent("a", model, "v1", tools=tools)]) as runs:
        state = runs.advance(runs.start("a", "Go.", run_id="r"))
        before = runs.events("r")
        with caplog.at_level(logging.WARNING, "perdure"):
            go_on.set()
            eventually(lambda: any("dropped" in line for line in caplog.messages))

        assert state.status is RunStatus.ESCALATED
        assert runs.events("r") == before
    assert any("r call_1_1_" in line for line in caplog.messages)


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_a_tool_that_cancels_itself_is_in_doubt(is_async: bool) -> None:
    """A cancellation from inside is no order to stop the run."""
    tools = ToolRegistry()

    def stop() -> str:
        raise asyncio.CancelledError

    async def stop_async() -> str:
        raise asyncio.CancelledError

    tools.tool(name="stop")(stop_async if is_async else stop)
    with called(tools, "stop") as runs:
        (doubt,) = [event for event in runs.events("r") if isinstance(event, ToolCallInDoubt)]

    assert doubt.why == "cancelled"
    assert runs.state("r").status is RunStatus.ESCALATED


def test_a_sync_function_that_returns_a_coroutine_is_awaited() -> None:
    """A wrapper around an async function is a tool like any other."""
    tools = ToolRegistry()

    async def later() -> str:
        await asyncio.sleep(0)
        return "later"

    @tools.tool
    def wrapped() -> Any:
        return later()

    with called(tools, "wrapped") as runs:
        assert result_of(runs).text == "later"
