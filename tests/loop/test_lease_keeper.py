"""The keeper says in time when a lease is lost, whatever the store does."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Generator
from contextlib import contextmanager

from perdure import LogUnavailable
from perdure.application.lease_keeper import LeaseKeeper
from perdure.infrastructure.memory.clock import SystemClock
from perdure.infrastructure.memory.leases import MemoryLeases

TTL = 1.0


class Renewals(MemoryLeases):
    """Leases whose renewal does what a test says."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.is_silent = threading.Event()
        self.is_away = threading.Event()
        self.asked = threading.Event()
        self.answer = threading.Event()

    def renew(self, owner: str, held: Collection[tuple[str, int]], *, ttl: float) -> set[str]:
        self.asked.set()
        if self.is_silent.is_set():
            self.answer.wait(20)
        if self.is_away.is_set():
            raise LogUnavailable("away")
        return super().renew(owner, held, ttl=ttl)


@contextmanager
def keeping(leases: Renewals) -> Generator[LeaseKeeper]:
    keeper = LeaseKeeper(leases, "me", ttl=TTL)
    try:
        yield keeper
    finally:
        leases.answer.set()
        keeper.close()


def lost_after(leases: Renewals, *, vouch: float = 60.0) -> float:
    lost = threading.Event()
    with keeping(leases) as keeper:
        began = time.monotonic()
        keeper.claim("r", above=0, lose=lost.set).vouch(vouch)
        assert lost.wait(20)
        return time.monotonic() - began


def test_a_renewal_without_an_answer_does_not_hide_that_the_lease_ends() -> None:
    """The network swallows the question: the run is told to stop before its lease ends."""
    leases = Renewals()
    leases.is_silent.set()
    assert lost_after(leases) < TTL


def test_a_refused_renewal_is_tried_again_until_shortly_before_the_end() -> None:
    """The run is stopped before its lease ends, and not long before."""
    leases = Renewals()
    leases.is_away.set()
    assert TTL / 2 < lost_after(leases) < TTL


def test_a_renewed_lease_is_kept() -> None:
    """It lasts for as long as somebody vouches for the run, and for one lease more."""
    assert lost_after(Renewals(), vouch=TTL) >= 2 * TTL


def test_what_is_vouched_for_is_not_taken_back() -> None:
    """`vouch_at_least()` prolongs only."""
    with keeping(Renewals()) as keeper:
        held = keeper.claim("r", above=0, lose=lambda: None)
        held.vouch(3600)
        held.vouch_at_least(0.0)
        assert held._vouched_until > time.clock_gettime(time.CLOCK_MONOTONIC) + 3000


def test_a_taken_lease_is_known_to_be_taken() -> None:
    """The next renewal finds it with somebody else."""
    leases, lost = Renewals(), threading.Event()
    with keeping(leases) as keeper:
        held = keeper.claim("r", above=0, lose=lost.set)
        held.vouch(60)
        leases.release(held.lease)
        leases.claim("r", "other", ttl=60, above=0)
        assert lost.wait(20)
        assert held.is_taken
