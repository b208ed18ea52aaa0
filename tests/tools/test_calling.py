"""How tools are called: context, threads, timeouts, cancellation."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from datetime import timedelta
from typing import Any

import pytest

from perdure import Agent, AgentRuns, Budget, Policy, RunStatus, ToolContext, ToolRegistry
from perdure.domain.events import ToolCallFailed, ToolCallInDoubt, ToolCallStarted
from perdure.testing import ScriptedModel, asks, says
from tests.support.waiting import eventually

from .calling import called, result_of


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
