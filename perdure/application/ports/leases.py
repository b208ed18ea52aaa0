"""The port to leases: who holds which run, and until when."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Left = Literal["new", "released", "expired"]


@dataclass(frozen=True, slots=True)
class Lease:
    """A held run.

    Attributes:
        epoch: Number of the claim; it only ever grows, for each run.
        left: How the run was left before this claim.
        ttl: Seconds that the lease lasts without renewal.
    """

    run_id: str
    owner: str
    epoch: int
    left: Left
    ttl: float


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """A lease as it stands in the table.

    Attributes:
        owner: Who holds it; None when it was released.
        is_live: Whether it was unexpired when it was read, by the store's clock.
    """

    run_id: str
    owner: str | None
    epoch: int
    expires_at: datetime
    is_live: bool


class Leases(ABC):
    """Leases, by the store's own clock and nobody else's. Calls block; any thread may make them."""

    @abstractmethod
    def claim(self, run_id: str, owner: str, *, ttl: float, above: int) -> Lease:
        """Take a run that nobody holds.

        Args:
            run_id: The run.
            owner: The claimer's identity: new for each process start.
            ttl: Seconds that the lease lasts without renewal.
            above: The newest epoch in the log; the lease's will be higher, whatever the table says.

        Raises:
            perdure.domain.errors.RunIsOwned: Somebody holds it; this owner too counts as somebody.
            perdure.domain.errors.LogUnavailable: The store cannot be reached.
        """

    @abstractmethod
    def renew(self, owner: str, held: Collection[tuple[str, int]], *, ttl: float) -> set[str]:
        """Prolong leases that are still this owner's, in one round trip.

        Args:
            owner: The holder.
            held: (run id, epoch) of each lease.
            ttl: Seconds that they last from now.

        Returns:
            The runs that are still held; the others are lost. An expired lease that nobody took is held.
        """

    @abstractmethod
    def release(self, lease: Lease) -> None:
        """Give the run back, if it is still held under this lease."""

    @abstractmethod
    def holds(self, lease: Lease) -> bool:
        """Whether the lease is this owner's and unexpired, right now."""

    @abstractmethod
    def find(self, run_id: str) -> LeaseRow | None:
        """Return the lease of a run, if it ever had one."""

    @abstractmethod
    def all(self) -> list[LeaseRow]:
        """Return the leases that somebody holds, expired ones included, by run id."""
