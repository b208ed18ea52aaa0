"""The event store port on top of the run log."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from eventsourcing.persistence import IntegrityError, PersistenceError, StoredEvent
from psycopg import Error
from psycopg.errors import UniqueViolation

from perdure.application.ports.event_store import EventStore, EventWriter, Told
from perdure.domain.errors import LogConflict
from perdure.domain.events import Event
from perdure.infrastructure.event_store.group_commit import GroupCommit
from perdure.infrastructure.event_store.recorder import RunEventsRecorder
from perdure.infrastructure.event_store.run_log import RunLog
from perdure.infrastructure.event_store.topics import WAKING_TOPICS
from perdure.infrastructure.postgres.connecting import meaning
from perdure.infrastructure.postgres.wire import Wire

T = TypeVar("T")
_PAGE = 500
"""Events that are looked through at a time."""


class EventSourcedStore(EventStore):
    """Appends to and reads from a `RunLog`, in PostgreSQL or in memory."""

    def __init__(self, log: RunLog) -> None:
        self._log = log
        self._idle: list[Wire] = []
        self._turn = threading.Lock()

    def close(self) -> None:
        """Close the connections that `writing()` left."""
        with self._turn:
            for wire in self._idle:
                wire.close()
            self._idle.clear()

    def append(self, events: Sequence[Event]) -> None:
        """Write the events, all or none; see the port."""
        stored = self._log.to_stored(events)
        try:
            _reached(lambda: self._log.recorder.insert_events(stored))
        except IntegrityError as conflict:
            self.refused(stored, conflict)

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[EventWriter]:
        """Return a context in which the running event loop can append; see the port."""
        recorder = self._log.recorder
        if not isinstance(recorder, RunEventsRecorder):
            async with super().writing() as writer:
                yield writer
            return
        group = GroupCommit(lambda: self._wire(recorder))
        try:
            yield _Grouped(self, group)
        finally:
            wire = await group.close()
            if wire is not None:
                with self._turn:
                    self._idle.append(wire)

    def _wire(self, recorder: RunEventsRecorder) -> Wire:
        while True:
            with self._turn:
                wire = self._idle.pop() if self._idle else None
            if wire is None:
                return Wire(recorder.connection_parameters, recorder.wire_statement)
            if wire.is_silent:
                return wire
            wire.close()

    def to_stored(self, events: Sequence[Event]) -> list[StoredEvent]:
        """Return the stored forms of events."""
        return self._log.to_stored(events)

    def refused(self, stored: Sequence[StoredEvent], conflict: Exception) -> None:
        """Look at what stands in the place of events that were refused.

        Raises:
            LogConflict: It is something else.
        """
        if not self._stand_there(stored):
            first = stored[0]
            raise LogConflict(
                f"run {first.originator_id!r}: other events stand at version {first.originator_version}"
            ) from conflict

    def _stand_there(self, stored: Sequence[StoredEvent]) -> bool:
        first, last = stored[0], stored[-1]
        standing = _reached(
            lambda: self._log.recorder.select_events(
                first.originator_id, gt=first.originator_version - 1, lte=last.originator_version
            )
        )
        return list(standing) == list(stored)

    def read(self, run_id: str, *, after: int = 0, upto: int | None = None) -> Sequence[Event]:
        """Return the events in order; see the port."""
        stored = _reached(lambda: self._log.recorder.select_events(run_id, gt=after or None, lte=upto))
        return self._log.to_events(stored)

    def position(self) -> int:
        """Return the position of the newest event; see the port."""
        return _reached(self._log.recorder.max_notification_id) or 0

    def told(self, after: int) -> Told:
        """Return which runs have news; see the port."""
        recorder, position = self._log.recorder, self.position()
        if position <= after:
            return Told(after, frozenset())
        found = _reached(lambda: recorder.select_notifications(after + 1, _PAGE, topics=WAKING_TOPICS))
        upto = found[-1].id if len(found) == _PAGE else position
        return Told(upto, frozenset(str(event.originator_id) for event in found))

    def run_ids(self, *, after: str = "", limit: int = 1000) -> Sequence[str]:
        """Return ids of runs; see the port."""
        recorder = self._log.recorder
        if isinstance(recorder, RunEventsRecorder):
            return _reached(lambda: recorder.run_ids(after, limit))
        notifications = recorder.select_notifications(1, 1_000_000)
        ids = {str(event.originator_id) for event in notifications}
        return sorted(run_id for run_id in ids if run_id > after)[:limit]


class _Grouped(EventWriter):
    """Appends by `GroupCommit`."""

    def __init__(self, store: EventSourcedStore, group: GroupCommit) -> None:
        self._store = store
        self._group = group

    async def append(self, events: Sequence[Event]) -> None:
        """Write the events; see the port."""
        stored = self._store.to_stored(events)
        try:
            await self._group.append(stored)
        except UniqueViolation as conflict:
            await asyncio.to_thread(self._store.refused, stored, conflict)
        except Error as error:
            raise meaning(error, "the event store") from error


def _reached(ask: Callable[[], T]) -> T:
    try:
        return ask()
    except IntegrityError:
        raise
    except PersistenceError as error:
        raise meaning(error, "the event store") from error
