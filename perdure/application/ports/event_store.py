"""The port to the event log."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from perdure.domain.events import Event


@dataclass(frozen=True, slots=True)
class Told:
    """Runs with news.

    Attributes:
        upto: The position up to which these are all; what stands behind it is told the next time.
    """

    upto: int
    run_ids: frozenset[str]


class EventWriter(ABC):
    """Appends from one event loop, many runs side by side."""

    @abstractmethod
    async def append(self, events: Sequence[Event]) -> None:
        """Write the events of one run, as `EventStore.append()` does, without blocking the event loop.

        Appends that come while others are being written may share a commit; one that is refused is refused
        alone.

        Raises:
            perdure.domain.errors.LogConflict: Other events stand at these versions; nothing was written.
            perdure.domain.errors.LogUnavailable: The store cannot be reached; see `EventStore.append()`.
        """


class EventStore(ABC):
    """Streams of events, one a run, in which each (run id, seq) is written once.

    Calls block; they may come from several threads.
    """

    @abstractmethod
    def append(self, events: Sequence[Event]) -> None:
        """Write the events of one run, all or none; when it returns, they are durable.

        Writing events that stand there already, byte for byte, is a success: their commit had gone
        through and the answer was lost.

        Raises:
            perdure.domain.errors.LogConflict: Other events stand at these versions; nothing was written.
            perdure.domain.errors.LogUnavailable: The store cannot be reached. Whether the events were
                written is not known; appending the very same again settles it.
            perdure.domain.errors.LogRefused: It refused, and will refuse again.
        """

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[EventWriter]:
        """Return a context in which the running event loop can append; for stores that do not block it."""
        yield _Directly(self)

    @abstractmethod
    def read(self, run_id: str, *, after: int = 0, upto: int | None = None) -> Sequence[Event]:
        """Return the events of a run with `after < seq <= upto`, in order; none if there is no such run.

        Raises:
            perdure.domain.errors.NewerLog: An event was written by a newer perdure.
            perdure.domain.errors.UnreadableEvent: A stored event is broken.
            perdure.domain.errors.LogUnavailable: The store cannot be reached.
        """

    @abstractmethod
    def position(self) -> int:
        """Return the position of the newest event of any run, in the order of all events."""

    @abstractmethod
    def told(self, after: int) -> Told:
        """Return which runs were started, or told something by people, behind a position.

        Raises:
            perdure.domain.errors.LogUnavailable: The store cannot be reached.
        """

    @abstractmethod
    def run_ids(self, *, after: str = "", limit: int = 1000) -> Sequence[str]:
        """Return ids of runs in the log, in order, from behind `after`."""


class _Directly(EventWriter):
    def __init__(self, store: EventStore) -> None:
        self._store = store

    async def append(self, events: Sequence[Event]) -> None:
        self._store.append(events)
