"""Keeps the leases of this process alive, from a thread of its own.

Neither a slow tool nor a blocked event loop looks like a dead worker. But a lease is renewed only while
somebody vouches for its run, and each activity vouches no longer than it may last: a process that hangs
for good loses its runs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from perdure.application.ports.leases import Lease, Leases
from perdure.domain.errors import LogUnavailable

log = logging.getLogger("perdure")


class HeldLease:
    """A lease that the keeper renews; what it knows of it without asking anybody."""

    def __init__(self, lease: Lease, held_until: float, vouched_until: float, lose: Callable[[], None]):
        self.lease = lease
        self._held_until = held_until
        self._vouched_until = vouched_until
        self._lose = lose
        self._told = False
        self._taken = False

    @property
    def is_taken(self) -> bool:
        """Whether somebody else is known to have taken the run."""
        return self._taken

    @property
    def has_run_out(self) -> bool:
        """Whether it may have ended without being renewed."""
        return time.monotonic() >= self._held_until

    def vouch(self, seconds: float) -> None:
        """Let the lease be renewed for so many seconds from now."""
        self._vouched_until = time.monotonic() + seconds

    @property
    def is_vouched_for(self) -> bool:
        """Whether the run is still expected to be heard of."""
        return time.monotonic() < self._vouched_until

    def renewed(self, held_until: float) -> None:
        """Take note of a renewal."""
        self._held_until = held_until

    def lose(self, *, taken: bool) -> None:
        """Tell whoever drives the run to stop; once."""
        self._taken = self._taken or taken
        if not self._told:
            self._told = True
            self._lose()


class LeaseKeeper:
    """Claims, renews and releases leases for one process."""

    def __init__(self, leases: Leases, owner: str, *, ttl: float, renewals: Leases | None = None) -> None:
        """Prepare; the thread starts with the first claim.

        Args:
            leases: Where the leases are.
            renewals: The same leases over a connection that nothing else uses, so that renewing waits for
                nobody.
            owner: The identity of this process start.
            ttl: Seconds that a lease lasts without renewal; it is renewed three times in that time.
        """
        self.owner = owner
        self.ttl = ttl
        self._leases = leases
        self._renewals = renewals if renewals is not None else leases
        self._held: dict[str, HeldLease] = {}
        self._change = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None

    def claim(self, run_id: str, *, above: int, lose: Callable[[], None]) -> HeldLease:
        """Take a run.

        Args:
            run_id: The run.
            above: The newest epoch in its log.
            lose: Called once, from the keeper's thread, when the lease is lost.

        Raises:
            RunIsOwned: Somebody holds it.
            LogUnavailable: The leases cannot be reached.
        """
        # Taken before asking: the database counts from later than this, so we never think that we hold
        # a lease for longer than it does.
        asked = time.monotonic()
        lease = self._leases.claim(run_id, self.owner, ttl=self.ttl, above=above)
        held = HeldLease(lease, asked + self.ttl, asked + self.ttl, lose)
        with self._change:
            self._held[run_id] = held
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="perdure leases", daemon=True)
                self._thread.start()
        return held

    def release(self, held: HeldLease) -> None:
        """Give a run back. An unreachable database is no error: the lease then runs out."""
        with self._change:
            if self._held.get(held.lease.run_id) is held:
                del self._held[held.lease.run_id]
        try:
            self._leases.release(held.lease)
        except LogUnavailable as error:
            log.warning("the lease of run %s was not released: %s", held.lease.run_id, error)

    def close(self) -> None:
        """Stop renewing."""
        with self._change:
            self._closing = True
            self._change.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=self.ttl)

    def _keep(self) -> None:
        pause = self.ttl / 3
        while True:
            with self._change:
                self._change.wait_for(lambda: self._closing, timeout=pause)
                if self._closing:
                    return
                held = dict(self._held)
            pause = self.ttl / 3 if self._renew(held) else min(1.0, self.ttl / 10)

    def _renew(self, held: dict[str, HeldLease]) -> bool:
        for run_id, lease in held.items():
            if not lease.is_vouched_for:
                log.error("run %s: its activity is past its deadline: the lease is given up", run_id)
                self._drop(lease, taken=False)
        alive = {run_id: lease for run_id, lease in held.items() if lease.is_vouched_for}
        if not alive:
            return True
        asked = time.monotonic()
        try:
            epochs = [(run_id, lease.lease.epoch) for run_id, lease in alive.items()]
            kept = self._renewals.renew(self.owner, epochs, ttl=self.ttl)
        except LogUnavailable as error:
            log.warning("leases could not be renewed: %s", error)
            for lease in alive.values():
                if lease.has_run_out:
                    self._drop(lease, taken=False)
            return False
        for run_id, lease in alive.items():
            if run_id in kept:
                lease.renewed(asked + self.ttl)
            else:
                self._drop(lease, taken=True)
        return True

    def _drop(self, lease: HeldLease, *, taken: bool) -> None:
        with self._change:
            if self._held.get(lease.lease.run_id) is lease:
                del self._held[lease.lease.run_id]
        lease.lose(taken=taken)
