"""What an event store must do."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from perdure.application.ports.event_store import EventStore, Told
from perdure.domain.errors import LogConflict
from perdure.testing.contracts.expectations import equal, holds, raises
from perdure.testing.logs import RunLog, a_run
from perdure.testing.scripted_model import asks

RUN = "run-1"


def _told(run_id: str = RUN) -> RunLog:
    return a_run("Gr\u00fc\u00dfe \U0001f600", run_id=run_id).claimed().responded(asks("pay", {"n": 1}))


class EventStoreContract:
    """The port `EventStore`. Give it a fixture `store` with a fresh, empty one."""

    def test_what_is_written_is_read(self, store: EventStore) -> None:
        """Events come back equal and in order."""
        told = _told()
        store.append(told[:1])
        store.append(told[1:])

        equal(list(store.read(RUN)), list(told), "the log")

    def test_parts_are_read(self, store: EventStore) -> None:
        """A part of a log is what stands behind one version and up to another."""
        told = _told()
        store.append(list(told))

        equal(list(store.read(RUN, after=1)), list(told[1:]), "behind 1")
        equal(list(store.read(RUN, upto=2)), list(told[:2]), "up to 2")
        equal(list(store.read(RUN, after=1, upto=2)), list(told[1:2]), "behind 1, up to 2")
        equal(list(store.read(RUN, after=3)), [], "behind the end")

    def test_a_run_that_is_not_there_has_no_events(self, store: EventStore) -> None:
        """Reading what was never written is no error."""
        equal(list(store.read("never")), [], "the log of no run")

    def test_each_version_is_written_once(self, store: EventStore) -> None:
        """Other events at a version that stands are refused, and nothing of them is written."""
        told = _told()
        store.append(list(told))
        rival = _told()[:2]
        other = a_run(run_id=RUN).also(*rival[1:]).claimed("rival").claimed("rival").claimed("rival")

        for events in (other[2:3], other[2:5]):
            with raises(LogConflict, "other events at versions that stand"):
                store.append(events)
        equal(list(store.read(RUN)), list(told), "the log")

    def test_all_or_none(self, store: EventStore) -> None:
        """Events of which only the last is in the way are not written at all."""
        told = _told()
        store.append(told[:1])
        store.append(told[2:])

        with raises(LogConflict, "one event in the way"):
            store.append(a_run(run_id=RUN).claimed().claimed()[1:3])
        equal(list(store.read(RUN)), [told[0], told[2]], "the log")

    def test_the_very_same_again_is_a_success(self, store: EventStore) -> None:
        """Events that stand there already are not taken for somebody else's, and not written twice."""
        told = _told()
        store.append(list(told))
        store.append(list(told))
        store.append(told[1:])

        equal(list(store.read(RUN)), list(told), "the log")

    def test_the_same_and_more_is_refused(self, store: EventStore) -> None:
        """What stands there is another commit than one that goes on behind it."""
        told = _told()
        store.append(told[:2])

        with raises(LogConflict, "the same and more"):
            store.append(list(told))
        equal(list(store.read(RUN)), list(told[:2]), "the log")

    def test_runs_are_apart(self, store: EventStore) -> None:
        """The same version of another run is free."""
        store.append(list(_told("a")))
        store.append(list(_told("b")))

        equal(len(store.read("a")) + len(store.read("b")), 6, "events of both")

    def test_one_of_many_writers_wins(self, store: EventStore) -> None:
        """Of eight that write a version at the same time, one does."""
        told = _told()
        store.append(list(told))
        together = Barrier(8)

        def write(number: int) -> bool:
            event = told.claimed(f"worker {number}")[-1]
            together.wait(20)
            try:
                store.append([event])
            except LogConflict:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            equal(sum(pool.map(write, range(8))), 1, "winners")
        equal(len(store.read(RUN)), 4, "events")

    def test_a_writer_refuses_only_what_is_in_the_way(self, store: EventStore) -> None:
        """Of many runs that are written side by side, one meets other events: the others are written."""
        store.append(_told("taken")[:2])
        runs = [f"run-{number}" for number in range(20)]

        async def write() -> list[BaseException | None]:
            async with store.writing() as writer:
                rival = a_run(run_id="taken").claimed("rival")[1:]
                appends = [writer.append(list(_told(run_id))) for run_id in runs]
                appends.insert(10, writer.append(rival))
                return await asyncio.gather(*appends, return_exceptions=True)

        outcomes = asyncio.run(write())
        holds(isinstance(outcomes.pop(10), LogConflict), "the rival is refused")
        equal(outcomes, [None] * 20, "what became of the others")
        for run_id in runs:
            equal(list(store.read(run_id)), list(_told(run_id)), "the log of another run")
        equal(len(store.read("taken")), 2, "events of the run that was taken")

    def test_a_writer_takes_the_very_same_again_for_a_success(self, store: EventStore) -> None:
        """As `append()` does; and events of one run are in order when they are written one by one."""
        told = _told()

        async def write() -> None:
            async with store.writing() as writer:
                for event in told:
                    await writer.append([event])
                await writer.append(list(told))

        asyncio.run(write())
        equal(list(store.read(RUN)), list(told), "the log")

    def test_runs_with_news_are_told(self, store: EventStore) -> None:
        """Runs that started, or that a person spoke to; what a worker writes is no news."""
        store.append(_told("old")[:1])
        before = store.position()
        equal(store.told(before), Told(before, frozenset()), "what is told when nothing happened")
        store.append(_told("old")[1:])
        equal(len(store.told(before).run_ids), 0, "runs that only a worker wrote to")

        store.append(list(a_run(run_id="new")))
        log = a_run(run_id="spoken to").claimed()
        store.append(list(log))
        middle = store.told(before)
        equal(middle.run_ids, frozenset({"new", "spoken to"}), "runs that were started")
        store.append(list(log.input_added("One more thing."))[2:])
        equal(store.told(middle.upto).run_ids, frozenset({"spoken to"}), "runs that somebody spoke to")

    def test_runs_are_listed(self, store: EventStore) -> None:
        """Ids come in order, page by page."""
        for run_id in ("b", "a", "c", "B", "a-1"):
            store.append(_told(run_id)[:2])

        pages = [store.run_ids(limit=2)]
        while pages[-1]:
            pages.append(store.run_ids(after=pages[-1][-1], limit=2))
        listed = [run_id for page in pages for run_id in page]
        equal(sorted(listed), ["B", "a", "a-1", "b", "c"], "runs")
        holds(len(listed) == len(set(listed)), "no run is listed twice")
        equal(list(store.run_ids(after=listed[2])), listed[3:], "the runs behind the third")
