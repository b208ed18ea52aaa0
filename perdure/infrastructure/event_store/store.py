"""The event store port on top of the run log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from eventsourcing.persistence import (
    DatabaseError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    StoredEvent,
)

from perdure.application.ports.event_store import EventStore
from perdure.domain.errors import LogConflict, LogUnavailable
from perdure.domain.events import Event
from perdure.infrastructure.event_store.recorder import RunEventsRecorder
from perdure.infrastructure.event_store.run_log import RunLog

T = TypeVar("T")


class EventSourcedStore(EventStore):
    """Appends to and reads from a `RunLog`, in PostgreSQL or in memory."""

    def __init__(self, log: RunLog) -> None:
        self._log = log

    def append(self, events: Sequence[Event]) -> None:
        """Write the events, all or none; see the port."""
        stored = self._log.to_stored(events)
        try:
            _reached(lambda: self._log.recorder.insert_events(stored))
        except IntegrityError as conflict:
            if self._stand_there(stored):
                return
            raise LogConflict(
                f"run {events[0].run_id!r}: other events stand at version {events[0].seq}"
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

    def run_ids(self, *, after: str = "", limit: int = 1000) -> Sequence[str]:
        """Return ids of runs; see the port."""
        recorder = self._log.recorder
        if isinstance(recorder, RunEventsRecorder):
            return _reached(lambda: recorder.run_ids(after, limit))
        notifications = recorder.select_notifications(1, 1_000_000)
        ids = {str(event.originator_id) for event in notifications}
        return sorted(run_id for run_id in ids if run_id > after)[:limit]


def _reached(ask: Callable[[], T]) -> T:
    try:
        return ask()
    except IntegrityError:
        raise
    except (OperationalError, InterfaceError) as error:
        raise LogUnavailable(f"the event store cannot be reached: {error}") from error
    except DatabaseError as error:
        raise LogUnavailable(f"the event store refused: {error}") from error
