"""Budgets, deadlines, model trouble and quarantine: where a run stops by itself."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from perdure.domain.budget import Budget
from perdure.domain.errors import InvalidInput
from perdure.domain.events import (
    RunCompleted,
    RunEscalated,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallStarted,
)
from perdure.domain.messages import Usage
from perdure.domain.moves import Act, AskModel, Limits, Rest
from perdure.domain.tools import Policy
from perdure.testing import RunLog, a_run, asks, event, given, says

from .situations import KEY, RERUN, TOOL_OF, VERIFY, advance, asked

HOUR = Budget(wall_clock=timedelta(hours=1))
AN_HOUR = timedelta(hours=1)


def spent(log: RunLog, message: str) -> None:
    """Hold that the run rests because its budget is spent."""
    given(log).when(advance(log.now)).then(
        event(RunEscalated, why="budget", calls=(), message=re.compile(message), ask=re.compile("Extend"))
    ).then_returns(Rest())


def test_last_step_runs_its_tools() -> None:
    """The step that spends the last of the budget runs its tools; the next model call is refused."""
    log = asked("read", budget=Budget(steps=1))
    given(log).when(advance(log.now)).then(ToolCallStarted).then_returns(Act())
    spent(log.call_started().call_succeeded(), "1 of 1 steps")


def test_steps_survive_a_restart() -> None:
    """Steps that another process took count: a run stops at the whole of its budget, not beyond."""
    log = a_run(budget=Budget(steps=3)).claimed()
    for _ in range(3):
        given(log).when(advance(log.now)).then_returns(AskModel)
        log = log.responded(asks("read")).call_started().call_succeeded().crashed()
    spent(log, "3 of 3 steps")


@pytest.mark.parametrize(("used", "goes_on"), [(99, True), (100, False), (190, False)])
def test_tokens(used: int, goes_on: bool) -> None:
    """Tokens are counted over all calls; the call that crosses the limit is used, the next is refused."""
    step = asks("read", usage=Usage(input_tokens=used - 50, output_tokens=50))
    log = a_run(budget=Budget(tokens=100)).claimed().responded(step).call_started().call_succeeded().crashed()
    if goes_on:
        given(log).when(advance(log.now)).then_nothing().then_returns(AskModel(2))
    else:
        spent(log, f"{used} of 100 tokens")


def test_answer_within_the_last_step() -> None:
    """A run that answers in its last step completes; a spent budget takes no answer away."""
    log = a_run(budget=Budget(steps=1, tokens=1)).claimed()
    log = log.responded(says("Done.", usage=Usage(output_tokens=9)))
    given(log).when(advance(log.now)).then(RunCompleted)


def test_answer_after_the_deadline() -> None:
    """An answer that came in time counts, however late it is looked at."""
    log = a_run(budget=HOUR).claimed().responded("Done.").after(AN_HOUR)
    given(log).when(advance(log.now)).then(RunCompleted)


def test_deadline_stops_model_calls() -> None:
    """From the deadline on the model is not asked, and a person is told so."""
    log = a_run(budget=HOUR).claimed().after(3599)
    given(log).when(advance(log.now)).then_returns(AskModel(1))
    log = log.after(1)
    given(log).when(advance(log.now)).then(
        event(RunEscalated, why="deadline", message=re.compile(r"2026-01-01 01:00:00Z.*no new model calls"))
    ).then_returns(Rest())


def test_deadline_stops_first_starts() -> None:
    """From the deadline on no call starts that had not."""
    log = asked("read", budget=HOUR).after(AN_HOUR)
    given(log).when(advance(log.now)).then(
        event(RunEscalated, why="deadline", message=re.compile("no new tool calls"))
    )


@pytest.mark.parametrize("policy", [RERUN, KEY])
def test_deadline_stops_repeats(policy: Policy) -> None:
    """From the deadline on no call is repeated; it stays in doubt until there is time again."""
    log = asked(TOOL_OF[policy], budget=HOUR).call_started(1, policy=policy).after(AN_HOUR).crashed()
    outcome = given(log).when(advance(log.now)).then(ToolCallInDoubt, event(RunEscalated, why="deadline"))
    assert [call.call_id for call in outcome.state.in_doubt] == [log.call_id(1)]
    more = log.also(*outcome.events).budget_extended(HOUR, deadline=log.now + AN_HOUR).claimed()
    given(more).when(advance(more.now)).then(event(ToolCallStarted, attempt=2))


def test_deadline_lets_calls_end() -> None:
    """Calls that are under way at the deadline are waited for."""
    log = asked("read", budget=HOUR).call_started().after(AN_HOUR)
    given(log).when(advance(log.now)).then_nothing().then_returns(Act())


def test_deadline_lets_verify_be_asked() -> None:
    """Calls in doubt are still verified after the deadline; what did not land is not run again."""
    log = asked("send", budget=HOUR).call_started(1, policy=VERIFY).after(AN_HOUR).crashed()
    given(log).when(advance(log.now)).then(ToolCallInDoubt).then_returns(Act((log.call_id(1),)))
    log = log.call_in_doubt().call_verified(1, "not_landed")
    given(log).when(advance(log.now)).then(event(RunEscalated, why="deadline"))


def test_deadline_and_refusals() -> None:
    """A call that would be refused anyway is refused after the deadline, too."""
    log = asked("nonsense", budget=HOUR).after(AN_HOUR)
    given(log).when(advance(log.now)).then(ToolCallFailed, event(RunEscalated, why="deadline"))


def test_model_retry() -> None:
    """A model call that failed for now is made again at its time, by whoever has the run then."""
    log = a_run().claimed().model_failed(retry_in=5).crashed()
    waits = Act(wake_at=log.now + timedelta(seconds=5))
    given(log).when(advance(log.now)).then_nothing().then_returns(waits)
    log = log.after(5)
    given(log).when(advance(log.now)).then_nothing().then_returns(AskModel(1))


def test_model_gives_up() -> None:
    """A model call that failed for good is left to a person, who may have it made again."""
    log = a_run().claimed().model_failed(retry_in=1).model_failed("bad key", failure="permanent")
    given(log).when(advance(log.now)).then(
        event(RunEscalated, why="model", message=re.compile("step 1 failed 2 times: bad key"))
    ).then_returns(Rest())
    resumed = log.escalated("model").resolved(None, "resume").claimed()
    given(resumed).when(advance(resumed.now)).then_nothing().then_returns(AskModel(1))


def test_quarantine() -> None:
    """A run that loses worker after worker without one new fact is left to a person, with their names."""
    log = a_run().claimed("w1").crashed("w2").crashed("w3")
    limits = Limits(barren_claims=3)
    given(log).when(advance(log.now, limits=limits)).then_returns(AskModel)
    log = log.crashed("w4")
    names = re.compile(r"3 workers .*: w1 \(epoch 1\), w2 \(epoch 2\), w3 \(epoch 3\)")
    given(log).when(advance(log.now, limits=limits)).then(
        event(RunEscalated, why="quarantine", message=names)
    ).then_returns(Rest())


def test_quarantine_leaves_calls_in_doubt() -> None:
    """A call that was under way when the last worker was lost is in doubt, also in quarantine."""
    log = asked("refund").call_started().crashed().crashed()
    outcome = given(log).when(advance(log.now, limits=Limits(barren_claims=2)))
    outcome.then(event(ToolCallInDoubt, why="crash"), event(RunEscalated, why="quarantine"))
    assert [call.call_id for call in outcome.state.in_doubt] == [log.call_id(1)]


RELEASED_BETWEEN = a_run().claimed().crashed().claimed(left="released").crashed()


@pytest.mark.parametrize(
    "log",
    [
        RELEASED_BETWEEN,
        asked("read").call_started().crashed().call_in_doubt().call_started().call_succeeded().crashed(),
        asked("read").call_started().crashed().call_failed().crashed(),
        a_run().claimed().crashed().responded(asks("read")).crashed(),
        a_run().claimed().crashed().model_failed(retry_in=1).crashed(),
        a_run().claimed().crashed().crashed().escalated("quarantine").resolved(None, "resume").crashed(),
    ],
    ids=["released", "succeeded", "failed", "responded", "model failed", "resumed"],
)
def test_no_quarantine(log: RunLog) -> None:
    """Claims count only in a row: a new fact, an orderly release or a person's word begins anew."""
    outcome = given(log).when(advance(log.now, limits=Limits(barren_claims=2)))
    assert not [e for e in outcome.events if isinstance(e, RunEscalated)]


@pytest.mark.parametrize(
    "log",
    [
        asked("read").call_started(1, policy=RERUN).crashed().call_in_doubt().call_started(1, policy=RERUN),
        asked("send").call_started(1, policy=VERIFY).crashed().call_in_doubt().call_verified(),
        a_run().claimed().crashed().input_added(),
    ],
    ids=["started again", "asked verify", "input"],
)
def test_quarantine_in_spite_of(log: RunLog) -> None:
    """Trying the same once more is no new fact."""
    log = log.crashed()
    outcome = given(log).when(advance(log.now, limits=Limits(barren_claims=2)))
    assert isinstance(outcome.events[-1], RunEscalated)
    assert outcome.events[-1].why == "quarantine"


def test_budget_sums() -> None:
    """More budget is added to each limit; what has no limit stays without; sums stay within a century."""
    budget = Budget(steps=3, wall_clock=timedelta(days=36_525)).extended(Budget(steps=2, tokens=5))
    assert budget == Budget(steps=5, wall_clock=timedelta(days=36_525))
    assert budget.extended(budget) == Budget(steps=10, wall_clock=timedelta(days=36_525))


@pytest.mark.parametrize("budget", [{"steps": 0}, {"tokens": -1}, {"wall_clock": timedelta(0)}, {"hours": 1}])
def test_budget_refused(budget: dict[str, object]) -> None:
    """A budget of nothing is refused, with an error of ours that names the limit."""
    with pytest.raises(InvalidInput, match=next(iter(budget))):
        Budget(**budget)  # type: ignore[arg-type]


def test_delays() -> None:
    """Pauses double up to the longest, however often something was repeated."""
    limits = Limits(first_delay=0.5, longest_delay=3)
    assert [limits.delay(n).total_seconds() for n in (0, 1, 2, 3, 4, 10**9)] == [0.5, 0.5, 1, 2, 3, 3]
