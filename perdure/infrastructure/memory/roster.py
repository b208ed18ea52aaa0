"""The roster of workers in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from perdure.application.ports.clock import Clock
from perdure.application.ports.roster import Offer, Presence, Roster


class MemoryRoster(Roster):
    """The workers of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._workers: dict[str, Presence] = {}

    def announce(self, owner: str, offers: Sequence[Offer], *, ttl: float) -> None:
        """Give a sign of life; see the port."""
        now = self._clock.now()
        gone = [name for name, worker in self._workers.items() if worker.until < now - timedelta(days=1)]
        for name in gone:
            del self._workers[name]
        until = now + timedelta(seconds=ttl)
        self._workers[owner] = Presence(owner=owner, offers=tuple(offers), until=until)

    def leave(self, owner: str) -> None:
        """Say that this worker goes; see the port."""
        worker = self._workers.get(owner)
        if worker is not None:
            self._workers[owner] = worker.model_copy(update={"until": self._clock.now()})

    def all(self) -> Sequence[Presence]:
        """Return the workers that are remembered; see the port."""
        return list(self._workers.values())
