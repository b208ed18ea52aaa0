"""Keeps the leases of this process alive, and says in time when one is lost.

Renewing has a thread of its own, so that neither a slow tool nor a blocked event loop looks like a dead
worker. But a lease is renewed only while somebody vouches for its run, and each activity vouches no longer
than it may last: a process that hangs for good loses its runs. A second thread asks nobody and only looks at
the time: a renewal that gets no answer cannot keep it from giving a lease up before it ends.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from perdure.application.elapsed import elapsed
from perdure.application.ports.leases import Lease, Leases
from perdure.domain.errors import LogUnavailable

log = logging.getLogger("perdure")


class HeldLease:
    """A lease that the keeper renews; what is known of it without asking anybody."""

    def __init__(self, lease: Lease, asked: float, lose: Callable[[], None]) -> None:
        self.lease = lease
        self._ends = self._vouched_until = asked + lease.ttl
        self._lose = lose
        self._told = False
        self._taken = False

    @property
    def is_taken(self) -> bool:
        """Whether somebody else is known to have taken the run."""
        return self._taken

    @property
    def is_about_to_end(self) -> bool:
        """Whether so little is left of it that the run has to be stopped now."""
        return elapsed() >= self._ends - self.lease.ttl / 10

    @property
    def is_vouched_for(self) -> bool:
        """Whether the run is still expected to be heard of."""
        return elapsed() < self._vouched_until

    def vouch(self, seconds: float) -> None:
        """Let the lease be renewed for what may pass in silence, and for one lease beyond it."""
        self._vouched_until = elapsed() + seconds + self.lease.ttl

    def vouch_at_least(self, seconds: float) -> None:
        """Likewise, but keep what reaches further."""
        self._vouched_until = max(self._vouched_until, elapsed() + seconds + self.lease.ttl)

    def renewed(self, asked: float) -> None:
        """Take note of a renewal that was asked for then: the store counts from later than that."""
        self._ends = asked + self.lease.ttl

    def lose(self, *, taken: bool) -> None:
        """Tell whoever drives the run to stop; once."""
        self._taken = self._taken or taken
        if not self._told:
            self._told = True
            self._lose()


class LeaseKeeper:
    """Claims, renews and releases leases for one process."""

    def __init__(self, leases: Leases, owner: str, *, ttl: float, renewals: Leases | None = None) -> None:
        """Prepare; the threads start with the first claim.

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
        self._threads: tuple[threading.Thread, ...] = ()

    def claim(self, run_id: str, *, above: int, lose: Callable[[], None]) -> HeldLease:
        """Take a run.

        Args:
            run_id: The run.
            above: The newest epoch in its log.
            lose: Called once, from a thread of the keeper's, when the lease is lost.

        Raises:
            RunIsOwned: Somebody holds it.
            LogUnavailable: The leases cannot be reached.
        """
        # Taken before asking: the database counts from later than this, so we never think that we hold
        # a lease for longer than it does.
        asked = elapsed()
        held = HeldLease(self._leases.claim(run_id, self.owner, ttl=self.ttl, above=above), asked, lose)
        with self._change:
            self._held[run_id] = held
            if not self._threads:
                self._threads = tuple(
                    threading.Thread(target=work, name=f"perdure leases: {work.__name__}", daemon=True)
                    for work in (self._keep, self._watch)
                )
                for thread in self._threads:
                    thread.start()
        return held

    def release(self, held: HeldLease) -> None:
        """Give a run back. An unreachable database is no error: the lease then runs out."""
        self._forget(held)
        try:
            self._leases.release(held.lease)
        except LogUnavailable as error:
            log.warning("the lease of run %s was not released: %s", held.lease.run_id, error)

    def give_up(self, held: HeldLease, why: str, *, taken: bool = False) -> None:
        """Stop renewing a lease, and tell whoever drives the run to stop.

        Args:
            held: The lease.
            why: For the log.
            taken: Somebody else is known to have the run.
        """
        if self._forget(held):  # a renewal may find a lease gone that was released meanwhile
            log.error("the lease of run %s is given up: %s", held.lease.run_id, why)
            held.lose(taken=taken)

    def close(self) -> None:
        """Stop renewing."""
        with self._change:
            self._closing = True
            self._change.notify_all()
        for thread in self._threads:
            thread.join(timeout=self.ttl)

    # -- renewing ----------------------------------------------------------------------------------

    def _keep(self) -> None:
        pause = self.ttl / 3
        while not self._closes_within(pause):
            pause = self.ttl / 3 if self._renew(self._now_held()) else min(1.0, self.ttl / 10)

    def _renew(self, held: list[HeldLease]) -> bool:
        alive = [lease for lease in held if lease.is_vouched_for]
        if not alive:
            return True
        asked = elapsed()
        try:
            epochs = [(held.lease.run_id, held.lease.epoch) for held in alive]
            kept = self._renewals.renew(self.owner, epochs, ttl=self.ttl)
        except LogUnavailable as error:
            log.warning("leases could not be renewed: %s", error)
            return False
        for lease in alive:
            if lease.lease.run_id in kept:
                lease.renewed(asked)
            else:
                self.give_up(lease, "another worker has it", taken=True)
        return True

    # -- watching ----------------------------------------------------------------------------------

    def _watch(self) -> None:
        pause = min(1.0, self.ttl / 20)
        due = elapsed() + pause
        while not self._closes_within(pause):
            # Whoever was frozen cannot tell from the time whether it lost anything: the renewal, which is
            # due as well then, is given one pause to find out.
            was_frozen = elapsed() > due + self.ttl / 10
            due = elapsed() + pause
            for held in self._now_held():
                if not held.is_vouched_for:
                    self.give_up(held, "its activity is past its deadline")
                elif held.is_about_to_end and not was_frozen:
                    self.give_up(held, "it could not be renewed in time")

    def _closes_within(self, seconds: float) -> bool:
        with self._change:
            return self._change.wait_for(lambda: self._closing, timeout=seconds)

    def _now_held(self) -> list[HeldLease]:
        with self._change:
            return list(self._held.values())

    def _forget(self, held: HeldLease) -> bool:
        with self._change:
            was_held = self._held.get(held.lease.run_id) is held
            if was_held:
                del self._held[held.lease.run_id]
            return was_held
