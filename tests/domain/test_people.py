"""What people tell a run: input, more budget, to stop."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure.domain.budget import Budget
from perdure.domain.content import InlineContent
from perdure.domain.errors import InvalidInput, RunFinished, RunNotRunnable
from perdure.domain.events import (
    BudgetExtended,
    CancelRequested,
    InputAdded,
    RunCancelled,
    ToolCallInDoubt,
    ToolCallStarted,
    ToolCallSucceeded,
)
from perdure.domain.messages import UserMessage
from perdure.domain.moves import Act, AskModel, Rest
from perdure.domain.run import AgentRun
from perdure.domain.state import RunStatus
from perdure.testing import RunLog, a_run, asks, event, given

from .situations import PERSON, RERUN, VERIFY, advance, asked, in_doubt, started

MORE = UserMessage(text="And order 78.")
HOUR = timedelta(hours=1)
FINISHED = [a_run().claimed().responded("x").completed(), a_run().run_failed(), a_run().cancelled()]


def cancel(log: RunLog, *, owned: bool) -> object:
    return lambda run: run.request_cancel(log.now, by="ann", reason="duplicate", owned=owned)


# -- input ---------------------------------------------------------------------------------------------


def test_input() -> None:
    """Input is shown to the model at its next call."""
    log = a_run("Refund order 77.").claimed()
    outcome = given(log).when(lambda run: run.add_input(MORE, log.now, by="ann"))
    outcome.then(event(InputAdded, message=MORE, by="ann"))
    assert outcome.state.messages() == [UserMessage(text="Refund order 77."), MORE]


def test_input_while_completing() -> None:
    """Input that the model had not seen when it answered keeps the run going."""
    log = a_run().claimed().input_added("And 78.").responded("Done.", seen=2)
    outcome = given(log).when(advance(log.now)).then_nothing().then_returns(AskModel(2))
    assert [message.kind for message in outcome.state.messages()] == ["user", "assistant", "user"]
    late = a_run().claimed().responded("Done.").input_added("And 78.")
    given(late).when(advance(late.now)).then_nothing().then_returns(AskModel(2))


def test_input_while_tools_run() -> None:
    """Input during a tool call comes behind the results, and the call's result is taken all the same."""
    log = started(PERSON).input_added("And 78.")
    assert [message.kind for message in log.state.messages()] == ["user", "assistant", "tool_results", "user"]
    given(log).when(lambda run: run.call_succeeded(log.call_id(1), InlineContent(text="ok"), log.now)).then(
        ToolCallSucceeded
    ).when(advance(log.now)).then_nothing().then_returns(AskModel(2))


def test_unseen_input_stays_behind_results() -> None:
    """Input that came after the model was asked stands behind the step that it had no part in, for good."""
    log = a_run("go").claimed().input_added("unseen").responded(asks("read"), seen=2)
    log = log.call_started(1, policy=RERUN).call_succeeded()
    kinds = ["user", "assistant", "tool_results", "user"]
    assert [message.kind for message in log.state.messages()] == kinds
    after = log.responded("Done.").state.messages()
    assert after[:4] == log.state.messages()
    assert [message.kind for message in after] == [*kinds, "assistant"]


def test_input_order() -> None:
    """Several inputs stand in the order in which they came, each behind the step that had not seen it."""
    log = a_run("1").claimed().input_added("2").responded(asks("read")).input_added("3")
    log = log.call_started().input_added("4").call_succeeded().responded("so", seen=5).input_added("5")
    texts = [message.text for message in log.state.messages() if isinstance(message, UserMessage)]
    assert texts == ["1", "2", "3", "4", "5"]
    kinds = [message.kind for message in log.state.messages()]
    assert kinds == ["user", "user", "assistant", "tool_results", "user", "assistant", "user", "user"]


def test_input_to_an_escalated_run() -> None:
    """Input to a run that waits for a decision is kept, and decides nothing."""
    log = in_doubt(PERSON).escalated("calls_in_doubt", 1)
    outcome = given(log).when(lambda run: run.add_input(MORE, log.now)).then(InputAdded)
    assert outcome.state.status is RunStatus.ESCALATED


@pytest.mark.parametrize("log", FINISHED)
def test_finished(log: RunLog) -> None:
    """A run that has ended takes no input, no budget, and is not cancelled."""
    given(log).when(lambda run: run.add_input(MORE, log.now)).then_raises(RunFinished)
    given(log).when(cancel(log, owned=False)).then_raises(RunFinished)
    given(log).when(lambda run: run.extend_budget(Budget(steps=1), log.now, by="a", reason="b")).then_raises(
        RunFinished
    )


def test_not_started() -> None:
    """A run that was not started takes no input."""
    now = a_run().now
    given().when(lambda run: run.add_input(MORE, now)).then_raises(RunNotRunnable)


# -- budget --------------------------------------------------------------------------------------------


def extend(log: RunLog, more: Budget) -> object:
    return lambda run: run.extend_budget(more, log.now, by="ann", reason="worth it")


def test_more_steps() -> None:
    """More steps let a run go on whose budget was spent."""
    log = a_run(budget=Budget(steps=1)).claimed().responded(asks("read")).call_started().call_succeeded()
    log = log.escalated("budget")
    outcome = given(log).when(extend(log, Budget(steps=2)))
    outcome.then(event(BudgetExtended, more=Budget(steps=2), deadline=None, by="ann", reason="worth it"))
    assert (outcome.state.status, outcome.state.budget.steps) == (RunStatus.RUNNING, 3)
    outcome.when(advance(log.now)).then_nothing().then_returns(AskModel(2))


def test_more_of_the_wrong_thing() -> None:
    """More tokens do not help a run that is out of steps: it asks again."""
    log = a_run(budget=Budget(steps=1, tokens=9)).claimed().responded(asks("read")).call_started()
    log = log.call_succeeded().escalated("budget").budget_extended(Budget(tokens=9)).claimed()
    assert given(log).when(advance(log.now)).state.status is RunStatus.ESCALATED


def test_more_time() -> None:
    """More time counts from the deadline, or from now once that has passed."""
    log = a_run(budget=Budget(wall_clock=HOUR)).claimed()
    given(log).when(extend(log, Budget(wall_clock=HOUR))).then(
        event(BudgetExtended, deadline=log.now + 2 * HOUR)
    )
    late = log.after(5 * HOUR).escalated("deadline")
    outcome = given(late).when(extend(late, Budget(wall_clock=HOUR)))
    outcome.then(event(BudgetExtended, deadline=late.now + HOUR))
    assert outcome.state.deadline == late.now + HOUR
    outcome.when(advance(late.now)).then_nothing().then_returns(AskModel(1))


def test_budget_decides_no_call() -> None:
    """More budget does not answer for a call in doubt."""
    log = (
        asked("refund", budget=Budget(steps=1)).call_started().call_in_doubt().escalated("calls_in_doubt", 1)
    )
    outcome = given(log).when(extend(log, Budget(steps=1))).then(BudgetExtended)
    assert outcome.state.status is RunStatus.ESCALATED


@pytest.mark.parametrize("more", [Budget(), Budget(steps=1), Budget(wall_clock=HOUR)])
def test_extension_refused(more: Budget) -> None:
    """Nothing is added to a limit that the run has not, and an extension by nothing is a mistake."""
    log = a_run(budget=Budget(tokens=100))
    given(log).when(extend(log, more)).then_raises(InvalidInput)


# -- cancellation --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "log",
    [
        a_run(),
        asked("read"),
        in_doubt(PERSON).escalated("calls_in_doubt", 1),
        started(RERUN).call_succeeded(),
        a_run().model_failed(),
    ],
    ids=["new", "call not started", "escalated", "between steps", "model trouble"],
)
def test_cancel_at_once(log: RunLog) -> None:
    """With no owner and nothing in flight a run stops at once."""
    given(log).when(cancel(log, owned=False)).then(
        event(CancelRequested, by="ann", reason="duplicate"),
        event(RunCancelled, by="ann", reason="duplicate"),
    )


@pytest.mark.parametrize("owned", [True, False])
def test_cancel_with_a_call_in_flight(owned: bool) -> None:
    """A call in flight is settled first, by the owner or by who claims the run next."""
    log = started(RERUN)
    given(log).when(cancel(log, owned=owned)).then(CancelRequested).when(
        advance(log.now)
    ).then_nothing().then_returns(Act()).when(
        lambda run: run.call_succeeded(log.call_id(1), InlineContent(text="x"), log.now)
    ).then(ToolCallSucceeded).when(advance(log.now)).then(
        event(RunCancelled, by="ann", reason="duplicate")
    ).then_returns(Rest())


def test_cancel_owned() -> None:
    """A run that somebody owns is stopped by its owner, with whoever asked on record."""
    log = a_run().claimed()
    given(log).when(cancel(log, owned=True)).then(CancelRequested).when(advance(log.now)).then(
        event(RunCancelled, by="ann", reason="duplicate")
    ).then_returns(Rest())


def test_cancel_stops_starts() -> None:
    """A run that is to stop starts nothing more, repeats nothing, and asks no model."""
    for log in (
        asked("read", "refund"),
        asked("read").call_started(1, policy=RERUN).call_in_doubt(1, "timeout"),
    ):
        stopping = log.cancel_requested()
        given(stopping).when(advance(stopping.now)).then(RunCancelled).then_returns(Rest())


def test_cancel_after_a_crash() -> None:
    """A call of a crashed worker is put in doubt before the run is cancelled, and stays on the list."""
    log = started(RERUN).cancel_requested().crashed()
    outcome = given(log).when(advance(log.now)).then(ToolCallInDoubt, RunCancelled)
    assert [call.call_id for call in outcome.state.in_doubt] == [log.call_id(1)]


def test_cancel_after_a_crash_waits() -> None:
    """A run that is to stop waits for what is still under way beside the call that was lost."""
    log = asked("refund", "read").call_started(1).cancel_requested().crashed().call_in_doubt(1)
    log = log.call_started(2, policy=RERUN)
    given(log).when(advance(log.now)).then_nothing().then_returns(Act())


def test_cancel_and_verify() -> None:
    """A call that can be verified is verified before the run is cancelled, and not run again."""
    log = started(VERIFY).cancel_requested().crashed()
    given(log).when(advance(log.now)).then(ToolCallInDoubt).then_returns(Act((log.call_id(1),)))
    landed = log.call_in_doubt().call_verified(1, "landed").call_succeeded(1, known_by="verified")
    given(landed).when(advance(landed.now)).then(RunCancelled)
    not_landed = log.call_in_doubt().after(300).call_verified(1, "not_landed")
    outcome = given(not_landed).when(advance(not_landed.now)).then(RunCancelled)
    assert outcome.state.in_doubt == ()


def test_cancel_and_a_person() -> None:
    """A run that is to stop asks nobody about its calls: it stops, and they stay on the list."""
    log = started(PERSON).cancel_requested().call_in_doubt(1, "timeout")
    outcome = given(log).when(advance(log.now)).then(RunCancelled)
    assert [call.call_id for call in outcome.state.in_doubt] == [log.call_id(1)]


def test_cancel_twice() -> None:
    """A second request changes nothing while the first is being seen to."""
    log = started(PERSON).cancel_requested(by="bob")
    given(log).when(cancel(log, owned=True)).then_nothing()
    given(log).when(cancel(log, owned=False)).then_nothing()


def test_cancel_of_a_run_that_nobody_can_serve() -> None:
    """A run whose pins are gone can be cancelled, also when a call was in flight and it was asked before."""

    def leave(run: AgentRun) -> None:
        run.escalate("pins", "tool gone", "deploy it", run.state.at or log.now)

    log = started(PERSON).cancel_requested(by="bob").crashed()
    outcome = given(log).when(leave).when(cancel(log, owned=False)).then(RunCancelled)
    assert [call.call_id for call in outcome.state.in_doubt] == [log.call_id(1)]


def test_response_of_a_run_that_is_to_stop() -> None:
    """An answer that comes while the run is to stop is recorded, and none of its calls start."""
    log = a_run().claimed().cancel_requested().responded(asks("read"))
    outcome = given(log).when(advance(log.now)).then(RunCancelled)
    assert ToolCallStarted not in map(type, outcome.events)
