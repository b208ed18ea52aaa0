"""Folding a log: total, pure, the same in pieces as in whole, and linear."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from perdure.domain.content import InlineContent
from perdure.domain.events import EVENTS, Event, RunStarted
from perdure.domain.evolution import _CHANGES, evolve, fold
from perdure.domain.messages import Message, UserMessage
from perdure.domain.moves import Limits
from perdure.domain.run import AgentRun
from perdure.domain.state import RunState, RunStatus
from perdure.domain.transcript import Transcript
from perdure.testing import RunLog, a_run, asks, says

from .random_events import FIELDS, any_event, any_log
from .situations import RERUN, TOOLS, started

LATER = datetime(9999, 12, 31, tzinfo=UTC)


@settings(deadline=None, max_examples=200)
@for_all(any_log)
def test_never_raises(log: list[Event]) -> None:
    """Any events in any order fold, and what comes of it can be looked at and gone on with."""
    state = fold("run-1", log)
    assert state.messages() is not None
    assert state.in_doubt is not None
    assert state.version == (log[-1].seq if log else 0)
    AgentRun(state).advance(LATER, TOOLS, Limits())


@settings(deadline=None, max_examples=100)
@for_all(any_log, st.integers(0, 12))
def test_pieces(log: list[Event], cut: int) -> None:
    """A log folds to the same state in one go, in two, and event by event."""
    whole = fold("run-1", log)
    assert fold("run-1", log[cut:], fold("run-1", log[:cut])) == whole
    assert replace(AgentRun.from_events("run-1", log).state) == whole


@settings(deadline=None, max_examples=100)
@for_all(any_log, any_event)
def test_pure(log: list[Event], more: Event) -> None:
    """An event changes no state that was there before, and the same event gives the same state."""
    state = fold("run-1", log)
    before = (repr(state), repr(state.messages()))
    assert evolve(state, more) == evolve(state, more)
    assert (repr(state), repr(state.messages())) == before


def test_every_event_has_a_change() -> None:
    """No event type is forgotten, here or in the tests."""
    assert set(_CHANGES) == set(EVENTS) == set(FIELDS)


def test_unknown_event() -> None:
    """An event that means nothing to a run moves its version and its time alone."""

    class SomethingElse(Event):
        pass

    state = started(RERUN).state
    moved = evolve(state, SomethingElse(run_id="run-1", seq=99, at=LATER))
    assert moved == replace(state, version=99, at=LATER)


def test_without_start() -> None:
    """A log whose start is missing is a run that is not known, and rests."""
    log = started(RERUN)
    state = fold("run-1", log[1:])
    assert (state.status, state.is_resting) == (RunStatus.UNKNOWN, True)


def test_state_is_frozen() -> None:
    """A state cannot be changed by who holds it."""
    state = started(RERUN).state
    with pytest.raises(FrozenInstanceError):
        state.status = RunStatus.FAILED  # type: ignore[misc]
    with pytest.raises(TypeError):
        state.calls["x"] = next(iter(state.calls.values()))  # type: ignore[index]
    with pytest.raises(TypeError):
        state.labels["x"] = "y"  # type: ignore[index]


# -- transcripts -----------------------------------------------------------------------------------


def said(*texts: str) -> list[Message]:
    return [UserMessage(text=text) for text in texts]


def test_transcript() -> None:
    """A transcript is a sequence that grows by making new ones; older ones never change."""
    one = Transcript(said("a"))
    two = one.append(*said("b", "c"))
    branch = one.append(*said("x"))
    assert (list(one), list(two), list(branch)) == (said("a"), said("a", "b", "c"), said("a", "x"))
    assert (two[0], two[-1], two[1:]) == (said("a")[0], said("c")[0], said("b", "c"))
    assert (len(one), one == Transcript(said("a")), one == two, one == said("a")) == (1, True, False, False)
    assert repr(one) == f"Transcript({said('a')!r})"
    with pytest.raises(IndexError):
        one[1]


@for_all(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 3)), max_size=30))
def test_transcripts_never_change(growth: list[tuple[int, int]]) -> None:
    """Whichever transcripts are appended to, in whatever order, none of the others shows it."""
    all_of_them: list[tuple[Transcript, list[Message]]] = [(Transcript(), [])]
    for number, (which, count) in enumerate(growth):
        transcript, expected = all_of_them[which % len(all_of_them)]
        new = said(*(f"{number}.{i}" for i in range(count)))
        all_of_them.append((transcript.append(*new), expected + new))
    for transcript, expected in all_of_them:
        assert list(transcript) == expected


# -- cost ------------------------------------------------------------------------------------------


def long_log(steps: int) -> RunLog:
    events = list(a_run().claimed())
    run = AgentRun.from_events("run-1", events)
    for _ in range(steps):
        run.respond(asks("read", {"n": 1}), seen=run.version, now=LATER)
        run.advance(LATER, TOOLS, Limits())
        run.call_succeeded(next(iter(run.state.calls)), InlineContent(text="x"), LATER)
    return RunLog("run-1", [*events, *run.pending], LATER)


def states(log: RunLog) -> Iterator[RunState]:
    state = RunState("run-1")
    for each in log:
        state = evolve(state, each)
        yield state


def test_history_is_never_copied() -> None:
    """All states of a run share one list of messages; each holds only how much of it is its own."""
    every = list(states(long_log(50)))
    assert len({id(state.history._shared) for state in every[1:]}) == 1
    assert len(every[-1].history._shared) == len(every[-1].history) == 1 + 2 * 49


def test_operations_are_linear() -> None:
    """Folding twice the log takes twice the function calls, and never more."""

    def calls_to_fold(log: RunLog) -> int:
        count = 0

        def tick(*_: Any) -> None:
            nonlocal count
            count += 1

        sys.setprofile(tick)
        try:
            fold("run-1", log)
        finally:
            sys.setprofile(None)
        return count

    short, long = long_log(40), long_log(80)
    assert calls_to_fold(long) < 2.1 * calls_to_fold(short)


def test_messages_once() -> None:
    """A log holds the words of each message once, however many steps come after it."""
    word = "unmistakable"
    log = a_run(word).claimed()
    for _ in range(5):
        log = log.responded(asks("read")).call_started().call_succeeded()
    log = log.responded(says("Done."))
    assert sum(each.model_dump_json().count(word) for each in log) == 1
    assert isinstance(log[0], RunStarted)
    assert log.after(timedelta(1)).now > log.now
