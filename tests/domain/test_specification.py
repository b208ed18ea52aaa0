"""Given, when and then for users: what it holds, and what it says when that does not hold."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

import perdure.testing
from perdure.domain.budget import Budget
from perdure.domain.errors import ConfigurationError, RunFinished, RunNotRunnable
from perdure.domain.events import EVENTS, CancelRequested, RunCancelled, RunClaimed, ToolCallStarted
from perdure.domain.moves import AskModel, Rest
from perdure.domain.run import AgentRun
from perdure.domain.tools import Policy, Toolbox, ToolContract
from perdure.testing import RunLog, a_run, asks, event, given, toolbox

from .situations import advance, asked

LOG = a_run("Refund order 77").claimed()


def cancel(run: AgentRun) -> None:
    run.request_cancel(LOG.now, by="ann", reason="duplicate", owned=False)


def failure(claim: object) -> str:
    with pytest.raises(AssertionError) as caught:
        claim()  # type: ignore[operator]
    return str(caught.value)


def test_exact_partial_and_type() -> None:
    """An event is expected exactly, by some of its fields, or by its type alone."""
    exact = LOG.record(CancelRequested, by="ann", reason="duplicate")[-1]
    given(LOG).when(cancel).then(exact, event(RunCancelled, by="ann", reason=re.compile("dupl")))
    given(*LOG).when(cancel).then(CancelRequested, RunCancelled)


def test_failure_says_what_differs() -> None:
    """A failure shows all events that came, and the fields that are not as expected."""
    said = failure(lambda: given(LOG).when(cancel).then(CancelRequested, event(RunCancelled, by="bob")))
    assert said.splitlines() == [
        "Expected events: 2. Events that came: 2.",
        "  1. CancelRequested(by='ann', reason='duplicate')  (as expected)",
        "  2. RunCancelled(by='ann', reason='duplicate')",
        "       by: expected 'bob', was 'ann'",
    ]


def test_failure_says_what_is_missing_or_too_much() -> None:
    """A failure tells events that did not come from those that nobody expected."""
    said = failure(
        lambda: given(LOG).when(cancel).then(CancelRequested, RunCancelled, event(RunClaimed, epoch=2))
    )
    assert said.splitlines()[-2:] == ["  3. RunClaimed(epoch=2)", "       expected, and did not come"]
    assert "not expected" in failure(lambda: given(LOG).when(cancel).then(CancelRequested))
    assert "not expected" in failure(lambda: given(LOG).when(cancel).then_nothing())
    wrong = failure(lambda: given(LOG).when(cancel).then(RunCancelled, RunCancelled))
    assert "expected RunCancelled(), was CancelRequested(by='ann'" in wrong
    exact = LOG.record(CancelRequested, by="ann", reason="duplicate")[-1]
    assert "seq: expected 3, was 4" in failure(
        lambda: given(LOG.input_added()).when(cancel).then(exact, RunCancelled)
    )


def test_slips_in_fields() -> None:
    """A field that the event has not is a mistake of the specification, found at once."""
    with pytest.raises(ConfigurationError, match="RunCancelled has no field reasn"):
        event(RunCancelled, reasn="x")


def test_errors() -> None:
    """An error is expected by its type or a base of it, and by its message."""
    refused = given(LOG.completed()).when(cancel)
    refused.then_raises(RunFinished, match="completed").then_raises(RunNotRunnable)
    assert "does not match 'odd'" in failure(lambda: refused.then_raises(RunFinished, match="odd"))
    assert "ValueError was expected, RunFinished" in failure(lambda: refused.then_raises(ValueError))
    accepted = given(LOG).when(cancel)
    assert "nothing was raised" in failure(lambda: accepted.then_raises(RunFinished))
    for claim in (refused.then_nothing, lambda: refused.then_returns(None), lambda: refused.when(cancel)):
        assert "The command raised RunFinished" in failure(claim)


def test_error_after_events() -> None:
    """A command that was refused half-way has left events, and that is a failure."""

    def half_way(run: AgentRun) -> None:
        cancel(run)
        raise RunFinished("too late")

    said = failure(lambda: given(LOG).when(half_way).then_raises(RunFinished))
    assert said.startswith("The command was refused, but events came of it:\n  1. CancelRequested(")


def test_returned() -> None:
    """What a command returned is expected as a value or by its type."""
    outcome = given(LOG).when(advance(LOG.now)).then_nothing()
    outcome.then_returns(AskModel(1)).then_returns(AskModel)
    assert "AskModel(step=2) was expected" in failure(lambda: outcome.then_returns(AskModel(2)))
    assert "Rest was expected" in failure(lambda: outcome.then_returns(Rest))


def test_several_commands() -> None:
    """What came of one command is given for the next."""
    given(LOG).when(lambda run: run.respond(asks("read"), seen=2, now=LOG.now)).when(advance(LOG.now)).then(
        event(ToolCallStarted, seq=4)
    ).when(cancel).then(CancelRequested)


def test_new_run() -> None:
    """A run that is started is specified from nothing."""
    given(run_id="order-77").when(lambda run: run.add_input).then_nothing()
    outcome = given().when(lambda _: AgentRun.from_events("other", LOG))
    assert outcome.run.id == "other"


def test_log_builder() -> None:
    """A log tells a run from its start, with numbers, times, ids and attempts filled in."""
    log = asked("read", "refund").after(5).call_started(2, policy=Policy.RERUN).call_in_doubt(2, "timeout")
    log = log.call_started(2).call_succeeded(2, "RF-1")
    assert [each.seq for each in log] == list(range(1, 8))
    assert {each.run_id for each in log} == {"run-1"}
    assert log[3].at - log[2].at == timedelta(seconds=5)
    assert [each.attempt for each in log if isinstance(each, ToolCallStarted)] == [1, 2]
    assert log[-1].call_id == log.call_id(2) == log.call_id(2, step=1)  # type: ignore[attr-defined]
    assert log.call_id("as-is") == "as-is"
    assert (log.state, log.run.version, len(log[2:4])) == (log.run.state, 7, 2)


def test_log_is_immutable() -> None:
    """A log that was built on is as it was, so that tests can share it."""
    before = list(LOG)
    one, other = LOG.responded("one"), LOG.responded("other")
    assert (list(LOG), one[:2], other[:2]) == (before, LOG[:], LOG[:])
    assert one.state.messages() != other.state.messages()


def test_log_of_everything() -> None:
    """Every type of event can be told."""
    log = (
        a_run(
            "go", run_id="r", agent="a", budget=Budget(steps=1), tenant="acme", labels={"a": "b"}, parent="p"
        )
        .claimed("w1")
        .crashed("w2")
        .model_failed(retry_in=3)
        .responded(asks("send"))
        .call_started()
        .call_in_doubt()
        .call_verified()
        .escalated("calls_in_doubt", 1)
        .resolved(1, "failed")
        .call_failed(1, known_by="person")
        .claimed()
        .call_succeeded()
        .input_added()
        .budget_extended(Budget(steps=1))
        .cancel_requested()
        .completed()
        .run_failed()
        .cancelled()
    )
    assert {type(each) for each in log} == set(EVENTS)
    claims = [(each.worker, each.epoch, each.left) for each in log if isinstance(each, RunClaimed)]
    assert claims == [("w1", 1, "new"), ("w2", 2, "expired"), ("worker", 3, "released")]
    assert a_run(at=datetime(2030, 1, 1, tzinfo=UTC))[0].at.year == 2030


def test_toolbox() -> None:
    """Tools can be said to exist by contract or policy alone, and to refuse."""
    tools: Toolbox = toolbox(read=Policy.RERUN, send=ToolContract(timeout=5)).refusing("send", "no address")
    assert tools.contract("read") == ToolContract(policy=Policy.RERUN)
    assert tools.contract("other") is None
    assert (tools.refusal("read", "{}"), tools.refusal("send", "{}")) == (None, "no address")
    assert tools.refusal("other", "{}") == "There is no tool 'other'."


def test_exports() -> None:
    """What users import is listed, and is there."""
    assert perdure.testing.__all__ == sorted(perdure.testing.__all__)
    assert all(hasattr(perdure.testing, name) for name in perdure.testing.__all__)
    assert isinstance(LOG, RunLog)
