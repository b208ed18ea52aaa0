"""Leases in memory."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from perdure.application.ports.clock import Clock
from perdure.application.ports.leases import Lease, LeaseRow, Leases, Left
from perdure.domain.errors import RunIsOwned


@dataclass
class _Row:
    owner: str | None
    epoch: int
    expires_at: datetime


class MemoryLeases(Leases):
    """The leases of one process, by the clock given."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rows: dict[str, _Row] = {}
        self._turn = threading.Lock()

    def claim(self, run_id: str, owner: str, *, ttl: float, above: int) -> Lease:
        """Take a run that nobody holds; see the port."""
        with self._turn:
            now = self._clock.now()
            row = self._rows.get(run_id)
            left: Left = "released" if above > 0 else "new"
            if row is not None:
                if row.owner is not None and row.expires_at > now:
                    until = f"{row.expires_at:%H:%M:%SZ}"
                    raise RunIsOwned(f"run {run_id!r} is held by {row.owner!r} until {until}")
                left = "released" if row.owner is None else "expired"
            epoch = max(row.epoch if row is not None else 0, above) + 1
            self._rows[run_id] = _Row(owner, epoch, now + timedelta(seconds=ttl))
            return Lease(run_id, owner, epoch, left, ttl)

    def renew(self, owner: str, held: Collection[tuple[str, int]], *, ttl: float) -> set[str]:
        """Prolong leases; see the port."""
        with self._turn:
            kept: set[str] = set()
            for run_id, epoch in held:
                row = self._rows.get(run_id)
                if row is not None and row.owner == owner and row.epoch == epoch:
                    row.expires_at = self._clock.now() + timedelta(seconds=ttl)
                    kept.add(run_id)
            return kept

    def release(self, lease: Lease) -> None:
        """Give the run back; see the port."""
        with self._turn:
            row = self._rows.get(lease.run_id)
            if row is not None and row.owner == lease.owner and row.epoch == lease.epoch:
                row.owner, row.expires_at = None, self._clock.now()

    def holds(self, lease: Lease) -> bool:
        """Whether the lease is held right now; see the port."""
        row = self.find(lease.run_id)
        return row is not None and row.is_live and row.owner == lease.owner and row.epoch == lease.epoch

    def find(self, run_id: str) -> LeaseRow | None:
        """Return the lease of a run; see the port."""
        row = self._rows.get(run_id)
        if row is None:
            return None
        is_live = row.owner is not None and row.expires_at > self._clock.now()
        return LeaseRow(run_id, row.owner, row.epoch, row.expires_at, is_live)

    def all(self) -> list[LeaseRow]:
        """Return the held leases; see the port."""
        found = [self.find(run_id) for run_id in sorted(self._rows)]
        return [row for row in found if row is not None and row.owner is not None]
