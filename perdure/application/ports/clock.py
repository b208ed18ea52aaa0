"""The port to the clock that counts: the store's, not the machine's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime


class Clock(ABC):
    """Tells the time by which events are stamped and deadlines are kept."""

    @abstractmethod
    def now(self) -> datetime:
        """Return the present moment in UTC. Cheap enough to ask for every event."""

    @abstractmethod
    def synchronise(self) -> None:
        """Look at the store's clock again; called whenever a run is claimed."""
