"""Appends of many runs from one event loop: together when they come together, and only as durable as told."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import psycopg
import pytest

from perdure import LogUnavailable
from perdure.application.ports.event_store import EventWriter
from perdure.domain.events import Event
from perdure.infrastructure.event_store.group_commit import GroupCommit
from perdure.infrastructure.event_store.run_log import RunLog
from perdure.infrastructure.event_store.store import EventSourcedStore
from perdure.infrastructure.postgres.wire import Wire
from perdure.testing.logs import a_run
from tests.support.waiting import eventually


@pytest.fixture
def store(database_url: str) -> Iterator[EventSourcedStore]:
    log = RunLog(database_url)
    store = EventSourcedStore(log)
    yield store
    store.close()
    log.close()


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of bytes of each statement that was sent."""
    sent: list[int] = []
    run = Wire.run

    def counting(self: Wire, parameters: Any, answer: Any) -> None:
        sent.append(sum(map(len, parameters)))
        run(self, parameters, answer)

    monkeypatch.setattr(Wire, "run", counting)
    return sent


def started(number: int) -> list[Event]:
    return list(a_run(run_id=f"run-{number}").claimed())


def writing(store: EventSourcedStore, *appends: list[Event]) -> list[BaseException | None]:
    async def write() -> list[BaseException | None]:
        async with store.writing() as writer:
            return await asyncio.gather(
                *(writer.append(events) for events in appends), return_exceptions=True
            )

    return asyncio.run(write())


def test_what_comes_together_is_committed_together(store: EventSourcedStore, statements: list[int]) -> None:
    """Sixty-four appends take two statements: what was there when the wire was, and nothing waits longer."""
    assert writing(store, *(started(number) for number in range(64))) == [None] * 64
    assert len(statements) <= 2
    assert len(store.run_ids()) == 64


def test_one_append_is_one_statement(store: EventSourcedStore, statements: list[int]) -> None:
    """Nothing waits for company."""
    for number in range(3):
        writing(store, started(number))
    assert len(statements) == 3


def test_a_group_with_a_conflict_is_sent_again_one_by_one(
    store: EventSourcedStore, statements: list[int]
) -> None:
    """The others of the group pay one more statement each, and are written."""
    store.append(list(a_run(run_id="run-1").claimed("rival")))
    outcomes = writing(store, *(started(number) for number in range(3)))
    assert [type(outcome).__name__ for outcome in outcomes] == ["NoneType", "LogConflict", "NoneType"]
    assert len(statements) == 4


def test_a_large_append_is_sent_in_pieces(store: EventSourcedStore) -> None:
    """More than a socket takes at once; the events come back as they were."""
    big = list(a_run(run_id="run-0").claimed().responded("x" * 20_000_000))
    assert writing(store, big) == [None]
    assert list(store.read("run-0")) == big


def test_after_a_lost_connection_the_next_append_makes_a_new_one(
    store: EventSourcedStore, database_url: str
) -> None:
    """What was under way may or may not be written, and says so; offering it again settles it."""

    async def write() -> None:
        async with store.writing() as writer:
            await writer.append(started(0))
            kill_writers(database_url)
            with pytest.raises(LogUnavailable):
                await writer.append(started(1))
            await writer.append(started(1))

    asyncio.run(write())
    assert len(store.run_ids()) == 2


def test_a_connection_that_is_seen_to_break_while_idle_keeps_nobody_waiting(
    store: EventSourcedStore, database_url: str
) -> None:
    """The event loop hears of it before anybody appends: the next append says so, the one after it writes."""

    async def write() -> None:
        async with store.writing() as writer:
            await writer.append(started(0))
            wire = writer._group._wire  # type: ignore[attr-defined]
            kill_writers(database_url)
            while wire.is_usable:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
            with pytest.raises(LogUnavailable):
                await asyncio.wait_for(writer.append(started(1)), 10)
            await asyncio.wait_for(writer.append(started(1)), 10)

    asyncio.run(write())
    assert len(store.run_ids()) == 2


def test_an_idle_connection_that_was_closed_is_not_used_again(
    store: EventSourcedStore, database_url: str
) -> None:
    """The server was restarted between two drives: the second one does not find out by failing."""
    assert writing(store, started(0)) == [None]
    kill_writers(database_url)
    assert writing(store, started(1)) == [None]


def test_who_does_not_wait_any_more_is_left_out(store: EventSourcedStore) -> None:
    """An append that was cancelled before it was sent is not sent."""

    async def write() -> None:
        async with store.writing() as writer:
            tasks = [asyncio.create_task(appended(writer, number)) for number in range(3)]
            await asyncio.sleep(0)
            tasks[1].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(write())
    assert list(store.run_ids()) == ["run-0", "run-2"]


def test_a_store_that_cannot_be_reached_fails_all_that_wait(
    store: EventSourcedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for ever for a connection that cannot be made."""

    def refuse(*_: object) -> Wire:
        raise psycopg.OperationalError("no route")

    monkeypatch.setattr(EventSourcedStore, "_wire", refuse)
    outcomes = writing(store, started(0), started(1))
    assert [type(outcome) for outcome in outcomes] == [LogUnavailable, LogUnavailable]


def test_nothing_is_told_as_written_before_its_commit(store: EventSourcedStore, database_url: str) -> None:
    """While the commit is held up nobody is told anything; the log and the answer come together."""

    async def write() -> None:
        with psycopg.connect(database_url) as other:
            other.execute("LOCK TABLE perdure.perdure_events IN EXCLUSIVE MODE")
            async with store.writing() as writer:
                append = asyncio.create_task(appended(writer, 0))
                await asyncio.to_thread(someone_waits_for_the_lock, database_url)
                assert not append.done()
                other.rollback()
                await append
        assert list(store.run_ids()) == ["run-0"]

    asyncio.run(write())


def appended(writer: EventWriter, number: int) -> Coroutine[Any, Any, None]:
    return writer.append(started(number))


def kill_writers(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        killed = connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%events_append%'"
        )
        assert killed.fetchall() == [(True,)]


def someone_waits_for_the_lock(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        waiting = "SELECT FROM pg_locks WHERE NOT granted AND relation = 'perdure.perdure_events'::regclass"
        eventually(lambda: connection.execute(waiting).rowcount == 1)


def test_an_answer_before_the_commit_is_noticed(
    store: EventSourcedStore, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken on purpose: whoever appends is told that it is written as soon as it is sent."""
    waits = GroupCommit.append

    async def does_not_wait(self: GroupCommit, events: Any) -> None:
        task = asyncio.create_task(waits(self, events))
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        await asyncio.sleep(0)

    monkeypatch.setattr(GroupCommit, "append", does_not_wait)
    with pytest.raises(AssertionError):
        test_nothing_is_told_as_written_before_its_commit(store, database_url)
