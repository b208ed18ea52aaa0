"""Work of users that does not behave: it holds up nothing else, and is not taken for more than was seen."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from perdure import (
    Agent,
    AgentRuns,
    Limits,
    OwnershipLost,
    Policy,
    RunState,
    RunStatus,
    ToolRegistry,
    Verdict,
)
from perdure.application.attempts import goes_on
from perdure.application.ports.model import ModelRequest
from perdure.domain.errors import ToolError
from perdure.domain.events import ModelCallFailed, ToolCallStarted, ToolCallSucceeded, ToolCallVerified
from perdure.domain.messages import Reply
from perdure.testing import ScriptedModel, asks, says, together
from tests.support.waiting import eventually

FAST = Limits(first_delay=0.01, longest_delay=0.02, model_attempts=3)


class Unspeakable(BaseException):
    """Beyond Exception, and unable to say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Mute(ToolError):
    """A refusal that cannot say why."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


ODD = [KeyboardInterrupt, SystemExit, Unspeakable, asyncio.CancelledError, lambda: OwnershipLost("elsewhere")]


def raising(error: Callable[[], BaseException]) -> object:
    raise error()


def driven(tools: ToolRegistry, *script: object) -> tuple[AgentRuns, RunState]:
    model = ScriptedModel([*script, says("Done.")])  # type: ignore[list-item]
    runs = AgentRuns.in_memory(agents=[Agent("a", model, "v1", tools=tools, limits=FAST)])
    return runs, runs.advance(runs.start("a", "Go.", run_id="r"))


@pytest.mark.parametrize("error", [*ODD, Mute])
def test_whatever_a_tool_raises_its_neighbour_keeps_its_result(error: Callable[[], BaseException]) -> None:
    """Two calls of one step end together: what one raises does not take the other's result along."""
    tools, both = ToolRegistry(), threading.Barrier(2)

    @tools.tool
    def good() -> str:
        both.wait(10)
        return "fine"

    @tools.tool
    def bad() -> str:
        both.wait(10)
        return str(raising(error))

    runs, state = driven(tools, together(asks("good"), asks("bad")))
    succeeded = [event for event in runs.events("r") if isinstance(event, ToolCallSucceeded)]
    assert len(succeeded) == 1
    assert state.status is (RunStatus.COMPLETED if error is Mute else RunStatus.ESCALATED)


@pytest.mark.parametrize("error", ODD)
def test_whatever_verify_raises_means_unknown(error: Callable[[], BaseException]) -> None:
    """It is asked again until the attempt's time is long up, and then a person is asked."""
    tools = ToolRegistry()

    async def landed() -> Verdict:
        raising(error)
        return Verdict.not_landed()

    @tools.tool(policy=Policy.VERIFY_THEN_DECIDE, verify=landed, timeout=0.05, max_verifications=2)
    async def pay() -> str:
        raise RuntimeError("502")

    runs, state = driven(tools, asks("pay"))
    verified = [event for event in runs.events("r") if isinstance(event, ToolCallVerified)]
    assert {event.verdict for event in verified} == {"unknown"}
    assert state.status is RunStatus.ESCALATED


@pytest.mark.parametrize("error", ODD)
def test_whatever_a_model_raises_is_a_failed_model_call(error: Callable[[], BaseException]) -> None:
    """It is tried again with a pause, so many times, and then a person is asked."""

    class Broken:
        name = "broken"

        async def respond(self, request: ModelRequest) -> Reply:
            raise error()

    runs = AgentRuns.in_memory(agents=[Agent("a", Broken(), "v1", limits=FAST)])
    state = runs.advance(runs.start("a", "Go.", run_id="r"))
    failures = [event for event in runs.events("r") if isinstance(event, ModelCallFailed)]
    assert len(failures) == 3
    assert state.status is RunStatus.ESCALATED


def test_a_tool_that_swallows_its_cancellation_is_left_alone() -> None:
    """Its time is up, and the run goes on without it."""
    tools, leave = ToolRegistry(), threading.Event()

    @tools.tool(timeout=0.05)
    async def stubborn() -> str:
        while not leave.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue
        return "late"

    _, state = driven(tools, asks("stubborn"))
    leave.set()
    assert [call.doubt for call in state.in_doubt] == ["timeout"]


def test_nothing_is_repeated_while_an_earlier_attempt_still_runs_here() -> None:
    """`verify` finds nothing yet, since the thread that nobody waits for has not come to the effect."""
    tools, leave, effects = ToolRegistry(), threading.Event(), []

    def landed() -> Verdict:
        return Verdict.landed("paid") if effects else Verdict.not_landed()

    @tools.tool(policy=Policy.VERIFY_THEN_DECIDE, verify=landed, timeout=0.05, max_verifications=2)
    def pay() -> str:
        leave.wait(20)
        effects.append(1)
        return "paid"

    runs, state = driven(tools, asks("pay"))
    assert state.status is RunStatus.ESCALATED
    (verified, _) = (event for event in runs.events("r") if isinstance(event, ToolCallVerified))
    assert "still runs in this process" in str(verified.evidence)
    started = [event for event in runs.events("r") if isinstance(event, ToolCallStarted)]
    assert len(started) == 1
    leave.set()
    eventually(lambda: not goes_on(f"r {started[0].call_id}"))
    assert effects == [1]


def test_a_blocked_loop_keeps_its_lease_whatever_the_limits() -> None:
    """The time limit of the tool vouches for the run, and what was vouched for is not taken back."""
    tools = ToolRegistry()

    @tools.tool(timeout=60)
    async def block() -> str:
        threading.Event().wait(1.0)
        return "done"

    model = ScriptedModel([asks("block"), says("Done.")])
    agent = Agent("a", model, "v1", tools=tools, limits=FAST)
    with AgentRuns.in_memory(agents=[agent], lease_seconds=0.2) as runs:
        state = runs.advance(runs.start("a", "Go.", run_id="r"))
    assert (state.status, state.epoch) == (RunStatus.COMPLETED, 1)


def test_a_drive_inside_a_running_loop_ends_as_one_outside() -> None:
    """A caller that has a loop of its own gets the result, and what was raised."""
    runs = AgentRuns.in_memory(agents=[Agent("a", ScriptedModel([says("Done.")]), "v1")])

    async def caller() -> RunState:
        return runs.advance(runs.start("a", "Go."))

    assert asyncio.run(caller()).answer == "Done."
