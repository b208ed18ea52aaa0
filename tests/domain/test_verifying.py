"""What `verify` finds, and when it is believed."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from perdure.domain.calls import CallStatus
from perdure.domain.content import InlineContent
from perdure.domain.errors import CallNotFound
from perdure.domain.events import (
    RunEscalated,
    ToolCallFailed,
    ToolCallStarted,
    ToolCallSucceeded,
    ToolCallVerified,
)
from perdure.domain.moves import Act, AskModel, Limits
from perdure.domain.tools import Verdict
from perdure.testing import RunLog, event, given

from .situations import RERUN, VERIFY, advance, in_doubt, started, with_contract

RESULT = InlineContent(text="mail-7")


def test_landed() -> None:
    """A call that `verify` found has succeeded, with the result that was found."""
    log = in_doubt(VERIFY)
    found = Verdict.landed("mail-7", evidence="in the outbox")
    given(log).when(lambda run: run.call_verified(log.call_id(1), found, log.now, RESULT)).then(
        event(ToolCallVerified, attempt=1, verdict="landed", evidence="in the outbox"),
        event(ToolCallSucceeded, call_id=log.call_id(1), content=RESULT, known_by="verified"),
    ).when(advance(log.now)).then_nothing().then_returns(AskModel(2))


def test_landed_without_result() -> None:
    """A call that landed and brought back nothing has succeeded all the same."""
    log = in_doubt(VERIFY)
    given(log).when(lambda run: run.call_verified(log.call_id(1), Verdict.landed(), log.now)).then(
        ToolCallVerified, event(ToolCallSucceeded, content=InlineContent(text="null"))
    )


def test_not_landed_runs_again() -> None:
    """A call that did not land runs again, once that can be believed."""
    log = in_doubt(VERIFY, timeout=30, settle=10).after(40)
    given(log).when(lambda run: run.call_verified(log.call_id(1), Verdict.not_landed(), log.now)).then(
        event(ToolCallVerified, verdict="not_landed")
    ).when(advance(log.now)).then(event(ToolCallStarted, attempt=2))


@pytest.mark.parametrize("passed", [0.0, 30.0, 39.999])
def test_not_landed_too_early(passed: float) -> None:
    """A verdict of not landed counts as unknown until timeout and settle time of the attempt have passed."""
    log = in_doubt(VERIFY, timeout=30, settle=10).after(passed)
    not_landed = Verdict.not_landed(evidence="no such mail")
    outcome = given(log).when(lambda run: run.call_verified(log.call_id(1), not_landed, log.now))
    outcome.then(
        event(ToolCallVerified, verdict="unknown", evidence=re.compile("may still act: no such mail"))
    )
    assert outcome.state.calls[log.call_id(1)].status is CallStatus.IN_DOUBT
    outcome.when(advance(log.now)).then_nothing().then_returns(Act(wake_at=log.now + timedelta(seconds=1)))


def test_settle_counts_from_the_last_start() -> None:
    """Each attempt has its own time to settle."""
    log = in_doubt(VERIFY, timeout=30).after(30).call_verified(1, "not_landed")
    log = log.call_started(1, policy=VERIFY, timeout=30).crashed().call_in_doubt().after(29)
    given(log).when(lambda run: run.call_verified(log.call_id(1), Verdict.not_landed(), log.now)).then(
        event(ToolCallVerified, attempt=2, verdict="unknown")
    )


def test_settle_is_on_record() -> None:
    """The settle time of an attempt is the one it was started with, whatever its policy was then."""
    for policy in (VERIFY, RERUN):
        log = started(policy)[:-1]
        tools = with_contract(policy, settle=60.0, timeout=30.0)
        given(log).when(advance(log[-1].at, tools)).then(event(ToolCallStarted, timeout=30.0, settle=60.0))


def test_unknown_is_asked_again() -> None:
    """When `verify` cannot tell, it is asked again, with growing pauses."""
    log = in_doubt(VERIFY)
    limits = Limits(first_delay=1, longest_delay=3)
    for pause in (1, 2, 3, 3):
        log = log.call_verified(1, "unknown")
        waits = Act(wake_at=log.now + timedelta(seconds=pause))
        given(log).when(advance(log.now, limits=limits)).then_nothing().then_returns(waits)
        log = log.after(pause)
        asks_again = Act(verify=(log.call_id(1),))
        given(log).when(advance(log.now, limits=limits)).then_nothing().then_returns(asks_again)


def test_asked_again_after_a_restart() -> None:
    """The pauses between questions go on where they were after a restart."""
    log = in_doubt(VERIFY).call_verified().call_verified().crashed()
    waits = Act(wake_at=log.now + timedelta(seconds=2))
    given(log).when(advance(log.now)).then_nothing().then_returns(waits)


def test_verify_gives_up() -> None:
    """A person is asked when `verify` could not tell as often as it may be asked."""
    tools = with_contract(VERIFY, max_verifications=2, timeout=30)
    log = in_doubt(VERIFY, timeout=30).after(30).call_verified().after(99)
    given(log).when(advance(log.now, tools)).then_returns(Act(verify=(log.call_id(1),)))
    log = log.call_verified()
    given(log).when(advance(log.now, tools)).then(
        event(RunEscalated, why="calls_in_doubt", message=re.compile("verify was asked 2 times"))
    )


def test_early_questions_do_not_count() -> None:
    """Questions asked before "not landed" could be believed do not use up the number of questions."""
    tools = with_contract(VERIFY, max_verifications=1)
    log = in_doubt(VERIFY, timeout=30).call_verified().after(10).call_verified().after(19)
    given(log).when(advance(log.now, tools)).then_nothing().then_returns(Act(verify=(log.call_id(1),)))


def test_verified_attempts_end() -> None:
    """A call that never lands, however often it is run, has failed; no person need be asked."""
    log = in_doubt(VERIFY, timeout=30).after(30).call_verified(1, "not_landed")
    log = log.call_started(1, policy=VERIFY, timeout=30).crashed().call_in_doubt().after(30)
    log = log.call_verified(1, "not_landed")
    given(log).when(advance(log.now, with_contract(VERIFY, max_attempts=2))).then(
        event(ToolCallFailed, known_by="verified", error=re.compile("2 attempts"))
    ).then_returns(AskModel(2))


DECIDED = in_doubt(VERIFY).resolved(1, "succeeded").call_succeeded(1, known_by="person")


@pytest.mark.parametrize(
    "log",
    [
        DECIDED,
        in_doubt(VERIFY).resolved(1, "rerun"),
        in_doubt(VERIFY).resolved(1, "rerun").call_started(1, policy=VERIFY),
    ],
    ids=["succeeded", "cleared", "started again"],
)
def test_verdict_that_comes_too_late(log: RunLog) -> None:
    """A verdict about a call that was decided meanwhile changes nothing."""
    given(log).when(lambda run: run.call_verified(log.call_id(1), Verdict.landed(), log.now)).then_nothing()


def test_verdict_about_no_call() -> None:
    """A verdict about a call that the run has not is refused."""
    log = in_doubt(VERIFY)
    given(log).when(lambda run: run.call_verified("call_9", Verdict.landed(), log.now)).then_raises(
        CallNotFound, match=f"no call 'call_9' .*there: {log.call_id(1)}"
    )


def test_cut_between_verdict_and_result() -> None:
    """A log that ends with the verdict "landed" asks `verify` again; it does not run the call."""
    log = in_doubt(VERIFY).call_verified(1, "landed").after(60).crashed()
    given(log).when(advance(log.now)).then_nothing().then_returns(Act(verify=(log.call_id(1),)))
