"""The demo's comparison finds nothing in a run that kept its promises, and each promise that was broken."""

from __future__ import annotations

import pytest

from perdure.domain.events import ToolCallStarted
from perdure.infrastructure.cli.demo.kill import KillPoint
from perdure.testing import asks
from perdure.testing.logs import RunLog
from tests.demo.killed_runs import ANSWER, answered, compared, refund, rescued, started


def test_a_run_that_kept_its_promises_has_no_faults() -> None:
    """Killed, doubted, resolved and finished: nothing is found, and it is said who settled the call."""
    scenario = compared()
    assert scenario.faults == []
    assert scenario.ok
    assert (scenario.effects_seen, scenario.effects_expected) == (1, 1)
    assert scenario.answer_equal
    assert scenario.budget_equal
    assert scenario.settled == "a person: succeeded"
    assert scenario.attempts == 1


def test_an_effect_that_happened_twice_is_a_fault() -> None:
    """The world saw two refunds of one call."""
    scenario = compared(effects=[refund(), refund(attempt=1)])
    assert not scenario.ok
    assert scenario.effects_seen == 2
    assert any("2 times" in fault for fault in scenario.faults)


def test_an_effect_that_never_happened_is_a_fault() -> None:
    """The log says that it succeeded, and the world knows nothing of it."""
    scenario = compared(effects=[])
    assert not scenario.ok
    assert scenario.effects_seen == 0


def test_an_effect_with_other_content_is_a_fault() -> None:
    """One refund as expected, but of another amount."""
    assert not compared(effects=[refund(cents=1)]).ok


def test_an_effect_that_the_log_has_no_start_of_is_a_fault() -> None:
    """A second attempt acted, and only the first is on record."""
    faults = compared(effects=[refund(attempt=2)]).faults
    assert any("no start of it is on record" in fault for fault in faults)


def test_an_effect_that_is_neither_recorded_nor_doubted_is_a_fault() -> None:
    """The run ended as if the started call had never been."""
    faults = compared(started().crashed("second").completed(ANSWER)).faults
    assert any("neither says so nor doubts" in fault for fault in faults)


def test_an_effect_that_is_reported_as_failed_is_a_fault() -> None:
    """It happened, and the model was told that it had not."""
    log = answered(started().crashed("second").call_in_doubt(2).call_failed(2, known_by="person"))
    assert any("reported as failed" in fault for fault in compared(log).faults)


def test_another_answer_is_a_fault() -> None:
    """The run ended, and said something else than the one that nobody disturbed."""
    scenario = compared(RunLog(rescued()[0].run_id, rescued()[:-1], rescued().now).completed("Sorry."))
    assert not scenario.answer_equal
    assert not scenario.ok


def test_a_run_that_did_not_finish_is_a_fault() -> None:
    """Nobody resolved the call: the run still waits for a person."""
    log = started().crashed("second").call_in_doubt(2).escalated("calls_in_doubt", 2)
    scenario = compared(log)
    assert not scenario.answer_equal
    assert any("escalated" in fault for fault in scenario.faults)
    assert any("left in doubt" in fault for fault in scenario.faults)


def test_more_steps_than_undisturbed_are_a_fault() -> None:
    """The restart cost a step: the model was asked once more than it would have been."""
    log = started().crashed("second").call_in_doubt(2).call_succeeded(2, "RF-1", known_by="person")
    scenario = compared(answered(log.responded(asks("look_up_order")).call_started(1).call_succeeded(1)))
    assert scenario.answer_equal
    assert not scenario.budget_equal
    assert not scenario.ok


@pytest.mark.parametrize("point", [KillPoint.DECISION_STORED, KillPoint.RESULT_STORED])
def test_a_death_at_another_place_is_a_fault(point: KillPoint) -> None:
    """A table that names places where nobody died would prove nothing."""
    assert any(point.value in fault for fault in compared(point=point).faults)


def test_a_worker_that_was_not_killed_is_a_fault() -> None:
    """It ended in another way than by SIGKILL."""
    assert not compared(trouble="the worker ended with 0").ok


def test_a_log_with_a_gap_is_a_fault() -> None:
    """An event is missing from the middle: what is left does not fold to the same run."""
    whole = rescued()
    without_start = [event for event in whole if not isinstance(event, ToolCallStarted)]
    assert not compared(RunLog(whole[0].run_id, without_start, whole.now)).ok
