"""The port to the roster of workers: who is there, and what runs each can serve."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime

from perdure.domain.pins import Pins
from perdure.domain.value import Value


class Offer(Value):
    """An agent that a worker can drive.

    Attributes:
        sources: Tool sources that it has at hand.
    """

    agent: str
    pins: Pins
    sources: tuple[str, ...] = ()


class Presence(Value):
    """A worker, alive or not so long gone.

    Attributes:
        until: When it counts, or counted, as gone without another sign of life.
    """

    owner: str
    offers: tuple[Offer, ...]
    until: datetime


class Roster(ABC):
    """Signs of life of workers, by the store's clock."""

    @abstractmethod
    def announce(self, owner: str, offers: Sequence[Offer], *, ttl: float) -> None:
        """Give a sign of life that holds for `ttl` seconds; forget workers gone for more than a day."""

    @abstractmethod
    def leave(self, owner: str) -> None:
        """Say that this worker goes now."""

    @abstractmethod
    def all(self) -> Sequence[Presence]:
        """Return the workers that are remembered."""
