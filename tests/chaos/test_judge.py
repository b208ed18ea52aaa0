"""The judge notices each kind of harm: a run in order is tampered with, and given to it once more."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from perdure import AgentRuns
from perdure.domain.events import (
    Event,
    ModelResponded,
    RunClaimed,
    RunCompleted,
    RunEscalated,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallSucceeded,
)
from tests.chaos.judge import Verdicts, left_connections, left_leases
from tests.chaos.program import agent_for, plan_of
from tests.chaos.server import OFFICE
from tests.chaos.world import Effect, World

RUN = next(f"run-{number}" for number in range(1000) if plan_of(f"run-{number}")[0] == ["refund"])
"""A run whose first step is one refund."""
US = f"worker {os.getpid()}"


@dataclass
class Given:
    """A run as the judge sees it."""

    events: list[Event]
    effects: list[Effect]
    writers: dict[tuple[str, int], str]

    def verdicts(self) -> Verdicts:
        found = Verdicts()
        found.count(self.events, self.effects, self.writers)
        return found

    def refunds(self) -> list[Effect]:
        return [effect for effect in self.effects if effect.tool == "refund"]

    def insert(self, before: type[Event], event_type: type[Event], **facts: object) -> None:
        """Put an event before the first one of a type."""
        place = next(at for at, event in enumerate(self.events) if isinstance(event, before))
        at = self.events[place].at
        self.events.insert(place, event_type(run_id=RUN, seq=1, at=at, **facts))  # type: ignore[arg-type]
        self._number()

    def exchange(self, old: type[Event], new: Callable[[Event], Event]) -> None:
        """Exchange the first event of a type."""
        place = next(at for at, event in enumerate(self.events) if isinstance(event, old))
        self.events[place] = new(self.events[place])

    def cut(self, before: type[Event]) -> None:
        """Leave out the first event of a type, and all that follow."""
        place = next(at for at, event in enumerate(self.events) if isinstance(event, before))
        del self.events[place:]

    def _number(self) -> None:
        for seq, event in enumerate(self.events, start=1):
            self.events[seq - 1] = event.model_copy(update={"seq": seq})
            self.writers.setdefault((RUN, seq), US)


@pytest.fixture
def given(tmp_path: Path) -> Given:
    """What an undisturbed run leaves."""
    world = World(tmp_path / "effects")
    with AgentRuns.in_memory(agents=[agent_for(world, 0.0, 1.0)]) as runs:
        runs.start("chaos", "go", run_id=RUN)
        runs.advance(RUN)
        events = list(runs.events(RUN))
    writers = {(RUN, event.seq): US if event.seq > 1 else OFFICE for event in events}
    return Given(events, world.effects(), writers)


def an_effect_happened_twice(given: Given) -> None:
    given.effects.append(given.refunds()[0])


def a_success_without_an_effect(given: Given) -> None:
    given.effects.remove(given.refunds()[0])


def an_effect_that_nobody_asked_for(given: Given) -> None:
    given.effects.append(replace(given.refunds()[0], call_id="call_9_9_x"))


def an_effect_of_an_attempt_that_is_not_on_record(given: Given) -> None:
    given.effects[0] = replace(given.effects[0], attempt=2)


def an_effect_in_another_process(given: Given) -> None:
    given.effects[0] = replace(given.effects[0], pid=1)


def an_effect_reported_as_failed(given: Given) -> None:
    def failed(event: Event) -> Event:
        assert isinstance(event, ToolCallSucceeded)
        return ToolCallFailed(
            run_id=RUN, seq=event.seq, at=event.at, call_id=event.call_id, error="no", known_by="ran"
        )

    given.exchange(ToolCallSucceeded, failed)


def another_answer(given: Given) -> None:
    given.exchange(RunCompleted, lambda event: event.model_copy(update={"answer": "another"}))


def a_step_too_many(given: Given) -> None:
    given.exchange(ModelResponded, lambda event: event.model_copy(update={"usage": _double(event)}))


def a_run_that_has_not_ended(given: Given) -> None:
    given.cut(RunCompleted)


def a_call_left_as_started(given: Given) -> None:
    given.cut(ToolCallSucceeded)


def another_writer_in_the_epoch(given: Given) -> None:
    given.writers[RUN, given.events[-1].seq] = "worker 1"


def a_claim_that_does_not_raise_the_epoch(given: Given) -> None:
    given.insert(RunCompleted, RunClaimed, worker=f"host:{os.getpid()}:x", epoch=1, left="released")


def a_crash_of_a_worker_that_is_there(given: Given) -> None:
    given.insert(ToolCallSucceeded, ToolCallInDoubt, call_id=_first(given), attempt=1, why="crash")


def a_doubt_about_what_has_ended(given: Given) -> None:
    given.insert(RunCompleted, ToolCallInDoubt, call_id=_first(given), attempt=1, why="timeout")


def a_question_about_what_is_known(given: Given) -> None:
    _escalated(given, "calls_in_doubt", calls=(_first(given),))


def set_aside_without_losses(given: Given) -> None:
    _escalated(given, "quarantine")


def escalated_for_something_else(given: Given) -> None:
    _escalated(given, "budget")


def _double(event: Event) -> object:
    assert isinstance(event, ModelResponded)
    return event.usage.model_copy(update={"input_tokens": 2 * event.usage.input_tokens})


def _first(given: Given) -> str:
    return given.refunds()[0].call_id


def _escalated(given: Given, why: str, calls: tuple[str, ...] = ()) -> None:
    given.insert(RunCompleted, RunEscalated, why=why, message="so", ask="what?", calls=calls)


TAMPERED: list[tuple[Callable[[Given], None], str]] = [
    (an_effect_happened_twice, "happened 2 times"),
    (a_success_without_an_effect, "never happened, and on record it succeeded"),
    (an_effect_that_nobody_asked_for, "was not asked for"),
    (an_effect_of_an_attempt_that_is_not_on_record, "without a start on record"),
    (an_effect_in_another_process, "acted in 1"),
    (an_effect_reported_as_failed, "happened, and on record it is failed"),
    (another_answer, "it answered otherwise"),
    (a_step_too_many, "tokens"),
    (a_run_that_has_not_ended, "neither completed nor escalated"),
    (a_call_left_as_started, "is left like that"),
    (another_writer_in_the_epoch, "is by worker 1"),
    (a_claim_that_does_not_raise_the_epoch, "was claimed after epoch 1"),
    (a_crash_of_a_worker_that_is_there, "and its worker is there"),
    (a_doubt_about_what_has_ended, "was not under way"),
    (a_question_about_what_is_known, "which are not in doubt"),
    (set_aside_without_losses, "set aside after 0 lost workers"),
    (escalated_for_something_else, "escalated for budget"),
]


@pytest.mark.parametrize(("tamper", "words"), TAMPERED, ids=lambda given: getattr(given, "__name__", ""))
def test_what_is_out_of_order_is_noticed(given: Given, tamper: Callable[[Given], None], words: str) -> None:
    """A run in order has no faults; once it was tampered with, the judge says so."""
    assert given.verdicts().faults == []
    tamper(given)
    assert [fault for fault in given.verdicts().faults if words in fault], given.verdicts().faults


def test_a_lease_that_is_held_is_noticed() -> None:
    """Somebody holds a run when all workers should be gone."""
    with AgentRuns.in_memory() as runs:
        assert left_leases(runs, 0.1) == []
        runs.ports.leases.claim("run", "host:1:x", ttl=60, above=0)
        assert len(left_leases(runs, 0.1)) == 1


def test_a_worker_that_is_still_connected_is_noticed(database_url: str) -> None:
    """A process that should be gone holds a connection."""
    assert left_connections(database_url) == []
    with psycopg.connect(make_conninfo(database_url, application_name="worker 1")):
        assert len(left_connections(database_url, within=0.1)) == 1
