"""What a person may decide about a call in doubt, or about a run, and when."""

from __future__ import annotations

import pytest

from perdure.domain.content import InlineContent
from perdure.domain.errors import (
    CallAlreadyResolved,
    CallNotFound,
    RunFinished,
    RunNotRunnable,
)
from perdure.domain.events import (
    EscalationResolved,
    RunFailed,
    ToolCallFailed,
    ToolCallStarted,
    ToolCallSucceeded,
)
from perdure.domain.moves import AskModel, Rest
from perdure.domain.state import RunStatus
from perdure.domain.tools import Resolution
from perdure.testing import RunLog, a_run, asks, event, given

from .situations import PERSON, RERUN, VERIFY, advance, asked, in_doubt, started

SUCCEEDED, FAILED = Resolution.succeeded("RF-1"), Resolution.failed("not in the ledger")
RERUN_IT, RESUME, ABANDON = Resolution.rerun(), Resolution.resume(), Resolution.abandon()
RESULT = InlineContent(text="RF-1")

ONE = in_doubt(PERSON).escalated("calls_in_doubt", 1)
CALL = ONE.call_id(1)
TWO = (
    asked("refund", "refund")
    .call_started(1)
    .call_started(2)
    .crashed()
    .call_in_doubt(1)
    .call_in_doubt(2)
    .escalated("calls_in_doubt", 1, 2)
)


def decide(log: RunLog, call_id: str | None, resolution: Resolution) -> object:
    return lambda run: run.resolve(
        call_id, resolution, log.now, by="ann", reason="seen in ledger", content=RESULT
    )


DECIDED = event(EscalationResolved, call_id=CALL, by="ann", reason="seen in ledger")


def test_succeeded() -> None:
    """A call that a person found done has the result that the person gave, and the run goes on."""
    given(ONE).when(decide(ONE, CALL, SUCCEEDED)).then(
        DECIDED, event(ToolCallSucceeded, call_id=CALL, content=RESULT, known_by="person")
    ).when(advance(ONE.now)).then_nothing().then_returns(AskModel(2))


def test_succeeded_without_result() -> None:
    """A call may be found done and have brought back nothing."""
    given(ONE).when(
        lambda run: run.resolve(CALL, Resolution.succeeded(), ONE.now, by="ann", reason="seen")
    ).then(EscalationResolved, event(ToolCallSucceeded, content=InlineContent(text="null")))


def test_failed() -> None:
    """A call that a person found not done has failed, and the model reads why."""
    outcome = (
        given(ONE)
        .when(decide(ONE, CALL, FAILED))
        .then(DECIDED, event(ToolCallFailed, call_id=CALL, error="not in the ledger", known_by="person"))
    )
    results = outcome.state.messages()[-1]
    assert results.kind == "tool_results"
    assert (results.results[0].ok, results.results[0].content) == (False, "not in the ledger")


def test_rerun() -> None:
    """A call that a person said to run again is started once more."""
    given(ONE).when(decide(ONE, CALL, RERUN_IT)).then(DECIDED).when(advance(ONE.now)).then(
        event(ToolCallStarted, call_id=CALL, attempt=2)
    )


@pytest.mark.parametrize("about", [None, CALL])
def test_abandon(about: str | None) -> None:
    """A run can be given up from any of its calls; those in doubt stay on the list."""
    outcome = (
        given(ONE)
        .when(decide(ONE, about, ABANDON))
        .then(
            event(EscalationResolved, call_id=about, resolution="abandon"),
            event(RunFailed, code="abandoned", message="seen in ledger", by="ann"),
        )
    )
    assert [call.call_id for call in outcome.state.in_doubt] == [CALL]
    outcome.when(advance(ONE.now)).then_nothing().then_returns(Rest())


def test_each_call_is_decided() -> None:
    """A run goes on when every call that a person was asked about is decided, and not before."""
    first, second = TWO.call_id(1), TWO.call_id(2)
    outcome = given(TWO).when(decide(TWO, second, SUCCEEDED))
    assert outcome.state.escalation is not None
    assert outcome.state.escalation.calls == (first,)
    outcome.when(advance(TWO.now)).then_nothing().then_returns(Rest()).when(
        decide(TWO, first, RERUN_IT)
    ).when(advance(TWO.now)).then(event(ToolCallStarted, call_id=first, attempt=2))


@pytest.mark.parametrize("again", [SUCCEEDED, FAILED, RERUN_IT, ABANDON])
@pytest.mark.parametrize("first", ["succeeded", "failed", "rerun"])
def test_once_only(first: str, again: Resolution) -> None:
    """A call is decided once; a second decision is refused and shows the first."""
    log = TWO.resolved(1, first, by="bob", reason="called the bank")  # type: ignore[arg-type]
    log = {"succeeded": log.call_succeeded, "failed": log.call_failed}.get(first, lambda _: log)(1)
    given(log).when(decide(log, log.call_id(1), again)).then_raises(
        CallAlreadyResolved,
        match=rf"bob decided '{first}' at 2026-01-01 00:00:00Z \(called the bank\)",
    )


def test_once_only_after_the_run_went_on() -> None:
    """A second decision shows the first also when the run is steps further by then."""
    log = ONE.resolved(1, "succeeded", by="bob").call_succeeded(1, known_by="person").claimed()
    for _ in range(2):
        log = log.responded(asks("read")).call_started().call_succeeded()
    given(log).when(decide(log, CALL, FAILED)).then_raises(
        CallAlreadyResolved, match="in an earlier step: bob decided 'succeeded'"
    )


def test_doubt_of_a_later_attempt() -> None:
    """A call that was run again on somebody's word, and whose end was missed again, is decided again."""
    log = ONE.resolved(1, "rerun", by="bob").claimed().call_started().crashed().call_in_doubt()
    log = log.escalated("calls_in_doubt", 1)
    given(log).when(decide(log, CALL, SUCCEEDED)).then(EscalationResolved, ToolCallSucceeded)


@pytest.mark.parametrize(
    ("log", "known"),
    [
        (started(PERSON).call_succeeded(), "succeeded, known by ran"),
        (started(PERSON).call_failed(), "failed, known by ran"),
        (in_doubt(VERIFY).call_verified(1, "not_landed"), "cleared, known by verify"),
    ],
)
def test_known_without_a_person(log: RunLog, known: str) -> None:
    """A call whose outcome is known leaves nothing to decide, and the error says how it is known."""
    given(log).when(decide(log, CALL, SUCCEEDED)).then_raises(CallAlreadyResolved, match=known)


UNDER_WAY = started(PERSON)


@pytest.mark.parametrize("log", [asked("refund"), UNDER_WAY, UNDER_WAY.crashed()])
def test_too_early(log: RunLog) -> None:
    """A call that may still come to its end is not decided by a person."""
    given(log).when(decide(log, CALL, SUCCEEDED)).then_raises(RunNotRunnable, match="not in doubt")


def test_before_anybody_is_asked() -> None:
    """A person who knows may decide a call in doubt before being asked."""
    log = in_doubt(VERIFY).call_verified()
    given(log).when(decide(log, CALL, SUCCEEDED)).then(EscalationResolved, ToolCallSucceeded)
    given(log).when(decide(log, CALL, ABANDON)).then_raises(RunNotRunnable, match="cancel it instead")


def test_no_such_call() -> None:
    """A decision about a call that the run has not is refused, and the error names those it has."""
    given(ONE).when(decide(ONE, "call_9", SUCCEEDED)).then_raises(CallNotFound, match=CALL)
    given().when(decide(ONE, CALL, SUCCEEDED)).then_raises(CallNotFound, match="there: none")


def test_resume() -> None:
    """A run that was stopped by something else than a call is resumed as a whole."""
    log = a_run().claimed().escalated("quarantine")
    outcome = given(log).when(decide(log, None, RESUME))
    outcome.then(event(EscalationResolved, call_id=None, resolution="resume"))
    outcome.when(advance(log.now)).then_nothing().then_returns(AskModel(1))


def test_resume_applies_policies() -> None:
    """A run that is resumed deals with its calls in doubt by their policies."""
    log = in_doubt(RERUN).escalated("quarantine").resolved(None, "resume").claimed()
    given(log).when(advance(log.now)).then(event(ToolCallStarted, attempt=2))


@pytest.mark.parametrize(
    ("log", "about", "resolution", "match"),
    [
        (ONE, CALL, RESUME, "'resume' is for a run"),
        (ONE, None, RESUME, f"decision about each of its calls: {CALL}"),
        (ONE, None, SUCCEEDED, "decision about each"),
        (a_run().escalated("model"), None, SUCCEEDED, "'succeeded' is for a call"),
        (a_run().escalated("model"), None, RERUN_IT, "'rerun' is for a call"),
        (a_run(), None, RESUME, "running, not escalated"),
        (a_run(), None, ABANDON, "running, not escalated"),
        (a_run().cancelled(), None, RESUME, "cancelled, not escalated"),
    ],
)
def test_does_not_fit(log: RunLog, about: str | None, resolution: Resolution, match: str) -> None:
    """A decision that does not fit is refused, and the error says what does."""
    given(log).when(decide(log, about, resolution)).then_raises(RunNotRunnable, match=match)


FINISHED = [
    ONE.resolved(1, "abandon").run_failed(),
    in_doubt(PERSON).cancel_requested().cancelled(),
    started(PERSON).cancelled(),
]


@pytest.mark.parametrize("log", FINISHED, ids=["abandoned", "cancelled", "cut off"])
@pytest.mark.parametrize("resolution", [SUCCEEDED, FAILED])
def test_for_the_record(log: RunLog, resolution: Resolution) -> None:
    """A call that a finished run left in doubt is decided for the record; the run stays as it is."""
    assert [call.call_id for call in log.state.in_doubt] == [CALL]
    outcome = given(log).when(decide(log, CALL, resolution))
    assert outcome.state.in_doubt == ()
    assert outcome.state.status is log.state.status
    outcome.when(decide(log, CALL, resolution)).then_raises(CallAlreadyResolved, match="ann decided")


@pytest.mark.parametrize("log", FINISHED)
@pytest.mark.parametrize("resolution", [RERUN_IT, ABANDON])
def test_only_for_the_record(log: RunLog, resolution: Resolution) -> None:
    """A finished run does not come back to life by a decision about a call."""
    given(log).when(decide(log, CALL, resolution)).then_raises(RunFinished, match="on record")


def test_finished_run_keeps_its_status() -> None:
    """A completed run has no call to decide."""
    log = a_run().claimed().responded("x").completed()
    assert log.state.status is RunStatus.COMPLETED
    given(log).when(decide(log, CALL, SUCCEEDED)).then_raises(CallNotFound)
