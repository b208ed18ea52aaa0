"""Model calls that fail: tried again with growing pauses, and left to a person in the end."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from perdure import Agent, AgentRuns, Limits, ModelError, Resolution, RunState, RunStatus
from perdure.domain.events import ModelCallFailed, ModelResponded
from perdure.domain.messages import Reply
from perdure.testing import ScriptedModel, fails, says
from perdure.testing.scripted_model import Answer
from tests.support.waiting import eventually

LIMITS = Limits(model_attempts=3, first_delay=0.001, longest_delay=0.002)


def advanced(*script: Answer, **changes: Any) -> tuple[AgentRuns, RunState]:
    agent = Agent("a", changes.pop("model", ScriptedModel(script)), "v1", limits=LIMITS, **changes)
    runs = AgentRuns.in_memory(agents=[agent])
    return runs, runs.advance(runs.start("a", "Go.", run_id="r"))


def failures(runs: AgentRuns) -> list[ModelCallFailed]:
    return [event for event in runs.events("r") if isinstance(event, ModelCallFailed)]


def test_a_transient_failure_is_tried_again() -> None:
    """Each failure is on record with the time of the next attempt; then the answer comes."""
    runs, state = advanced(fails("overloaded", times=2, then="Yes."))
    with runs:
        recorded = failures(runs)

    assert state.answer == "Yes."
    assert [(event.attempt, event.failure) for event in recorded] == [(1, "transient"), (2, "transient")]
    assert all(event.retry_at is not None and event.retry_at >= event.at for event in recorded)


def test_after_some_attempts_a_person_is_asked_and_the_run_goes_on_when_told() -> None:
    """The last failure has no next attempt; resuming begins to count anew."""
    runs, state = advanced(fails("overloaded", times=4, then="Yes."))
    with runs:
        assert state.escalation is not None
        assert state.escalation.why == "model"
        assert "overloaded" in state.escalation.message
        assert [event.retry_at is None for event in failures(runs)] == [False, False, True]
        runs.resolve("r", None, Resolution.resume(), by="ann", reason="the provider is back")
        assert runs.advance("r").answer == "Yes."


def test_a_permanent_failure_is_not_tried_again() -> None:
    """A bad key stays bad: a person is asked at once."""
    runs, state = advanced(ModelError("bad key", kind="permanent"))
    with runs:
        assert [event.failure for event in failures(runs)] == ["permanent"]
    assert state.status is RunStatus.ESCALATED


@pytest.mark.parametrize("error", [ValueError("odd"), TimeoutError(), ConnectionError(), KeyError("x")])
def test_any_other_exception_counts_as_transient(error: Exception) -> None:
    """Whatever a model raises, the run goes on."""
    runs, state = advanced(fails(error, then="Yes."))
    with runs:
        (failure,) = failures(runs)

    assert state.answer == "Yes."
    assert type(error).__name__ in failure.message


def test_the_wait_that_a_provider_asks_for_is_kept() -> None:
    """`retry_after` is not undercut by our own pauses."""
    runs, _ = advanced(fails(ModelError("slow down", retry_after=0.3), then="Yes."))
    with runs:
        (failure,) = failures(runs)
        (answer,) = [event for event in runs.events("r") if isinstance(event, ModelResponded)]

    assert failure.retry_at is not None
    assert (failure.retry_at - failure.at).total_seconds() > 0.25
    assert answer.at >= failure.retry_at


@pytest.mark.parametrize("asked", [float("nan"), -5.0, 0.0])
def test_a_senseless_wait_is_no_wait(asked: float) -> None:
    """What a provider sends in its headers does not stop a run."""
    runs, state = advanced(fails(ModelError("slow down", retry_after=asked), then="Yes."))
    runs.close()

    assert state.answer == "Yes."


@pytest.mark.parametrize("asked", [1e18, float("inf")])
def test_an_endless_wait_ends_after_a_day(asked: float) -> None:
    """A run waits a day at most, and can be cancelled meanwhile."""
    agent = Agent("a", ScriptedModel([fails(ModelError("later", retry_after=asked), then="Yes.")]), "v1")
    with AgentRuns.in_memory(agents=[agent]) as runs, ThreadPoolExecutor(1) as pool:
        driving = pool.submit(runs.advance, runs.start("a", "Go.", run_id="r"))
        (failure,) = eventually(lambda: failures(runs))
        runs.cancel("r", by="ann", reason="too long")

        assert driving.result(timeout=20).status is RunStatus.CANCELLED
    assert failure.retry_at is not None
    assert (failure.retry_at - failure.at).total_seconds() < 86_401


class Odd:
    """A model of a user's that does not keep to the port."""

    name = "odd"

    def __init__(self, answer: object) -> None:
        self._answer = answer
        self.times = 0

    async def respond(self, request: object) -> Any:
        self.times += 1
        return self._answer


@pytest.mark.parametrize("answer", [None, "text", {"parts": []}, Reply])
def test_a_model_that_answers_nonsense_is_left_to_a_person(answer: object) -> None:
    """What is no reply is a failure that a program has to be mended for: it is not asked for ever."""
    model = Odd(answer)
    runs, state = advanced(model=model)
    with runs:
        (failure,) = failures(runs)

    assert state.status is RunStatus.ESCALATED
    assert model.times == 1
    assert "Reply" in failure.message


def test_a_model_that_hangs_is_given_up() -> None:
    """Past the agent's timeout the call has failed, as if the provider had said so."""

    class Hanging:
        name = "hanging"

        async def respond(self, request: object) -> Reply:
            await asyncio.Event().wait()
            raise AssertionError

    runs, state = advanced(model=Hanging(), model_timeout=0.02)
    with runs:
        assert len(failures(runs)) == LIMITS.model_attempts
    assert state.status is RunStatus.ESCALATED


def test_failures_of_a_step_are_counted_over_processes() -> None:
    """A process that takes over goes on counting: a restart is no new set of attempts."""
    model = ScriptedModel([fails("overloaded", times=9, then="Yes.")])
    runs, state = advanced(model=model)
    with runs:
        assert len(failures(runs)) == 3
        assert runs.advance("r").status is state.status is RunStatus.ESCALATED
        assert len(failures(runs)) == 3


def test_an_answer_ends_the_trouble() -> None:
    """Failures of the next step count from one again."""
    runs, state = advanced(model=ScriptedModel([fails("a", then=says("One."))]))
    with runs:
        assert state.trouble is None
