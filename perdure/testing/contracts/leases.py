"""What leases must do."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier

from perdure.application.ports.leases import Lease, Leases
from perdure.domain.errors import RunIsOwned
from perdure.testing.contracts.expectations import equal, holds, raises

LONG = 3600.0


@dataclass(frozen=True, slots=True)
class LeasesSubject:
    """Leases to be tested.

    Attributes:
        expire: Lets the lease of a run run out.
        forget: Loses all leases, as when their table is dropped and made again.
    """

    leases: Leases
    expire: Callable[[str], None]
    forget: Callable[[], None]


class LeasesContract:
    """The port `Leases`. Give it a fixture `subject` with a `LeasesSubject`."""

    def test_a_run_that_nobody_holds_is_claimed(self, subject: LeasesSubject) -> None:
        """The first claim of a run is new, has epoch 1, and is held."""
        lease = subject.leases.claim("r", "ann", ttl=LONG, above=0)

        equal(lease, Lease("r", "ann", 1, "new", LONG), "the lease")
        holds(subject.leases.holds(lease), "a fresh lease is held")

    def test_a_held_run_is_refused(self, subject: LeasesSubject) -> None:
        """Nobody claims a run with a live lease, its own owner included; the lease stays as it is."""
        lease = subject.leases.claim("r", "ann", ttl=LONG, above=0)

        for owner in ("bob", "ann"):
            with raises(RunIsOwned, f"claim by {owner}"):
                subject.leases.claim("r", owner, ttl=LONG, above=0)
        holds(subject.leases.holds(lease), "the lease is held as before")

    def test_a_released_run_is_claimed(self, subject: LeasesSubject) -> None:
        """Release lets the next one in, under a higher epoch, and says so."""
        first = subject.leases.claim("r", "ann", ttl=LONG, above=0)
        subject.leases.release(first)
        second = subject.leases.claim("r", "bob", ttl=LONG, above=1)

        equal((second.epoch, second.left), (2, "released"), "epoch, and how it was left")
        holds(not subject.leases.holds(first), "the first lease is not held any more")

    def test_an_expired_lease_is_claimed(self, subject: LeasesSubject) -> None:
        """A lease that ran out lets the next one in, under a higher epoch, and says so."""
        first = subject.leases.claim("r", "ann", ttl=LONG, above=0)
        subject.expire("r")
        holds(not subject.leases.holds(first), "an expired lease is not held")
        second = subject.leases.claim("r", "bob", ttl=LONG, above=1)

        equal((second.epoch, second.left), (2, "expired"), "epoch, and how it was left")
        holds(subject.leases.holds(second), "the second lease is held")

    def test_epochs_are_above_those_of_the_log(self, subject: LeasesSubject) -> None:
        """The log has the last word: an epoch is above the newest there, whatever the table says."""
        lease = subject.leases.claim("r", "ann", ttl=LONG, above=7)
        equal(lease.epoch, 8, "epoch")
        subject.leases.release(lease)
        equal(subject.leases.claim("r", "bob", ttl=LONG, above=3).epoch, 9, "epoch")

    def test_leases_can_be_lost_altogether(self, subject: LeasesSubject) -> None:
        """Without its leases, a run that the log knows is taken for released, and epochs go on growing."""
        subject.leases.claim("r", "ann", ttl=LONG, above=0)
        subject.forget()
        equal(subject.leases.find("r"), None, "the lease of the run")
        lease = subject.leases.claim("r", "bob", ttl=LONG, above=1)

        equal((lease.epoch, lease.left), (2, "released"), "epoch, and how it was left")

    def test_renewal_keeps_what_is_still_ours(self, subject: LeasesSubject) -> None:
        """Renewal says which runs are still held; others' and older claims are not."""
        ours = subject.leases.claim("r1", "ann", ttl=LONG, above=0)
        lost = subject.leases.claim("r2", "ann", ttl=LONG, above=0)
        subject.expire("r2")
        subject.leases.claim("r2", "ann", ttl=LONG, above=1)
        subject.leases.claim("r3", "bob", ttl=LONG, above=0)
        held = [(lease.run_id, lease.epoch) for lease in (ours, lost)]

        kept = subject.leases.renew("ann", [*held, ("r3", 1), ("r4", 1)], ttl=LONG)

        equal(kept, {"r1"}, "what was kept")
        equal(subject.leases.renew("ann", [], ttl=LONG), set[str](), "what was kept of nothing")

    def test_an_expired_lease_that_nobody_took_can_be_renewed(self, subject: LeasesSubject) -> None:
        """Being late is no loss as long as nobody else came."""
        lease = subject.leases.claim("r", "ann", ttl=LONG, above=0)
        subject.expire("r")

        equal(subject.leases.renew("ann", [("r", 1)], ttl=LONG), {"r"}, "what was kept")
        holds(subject.leases.holds(lease), "the lease is held again")

    def test_a_released_lease_cannot_be_renewed(self, subject: LeasesSubject) -> None:
        """What was given back stays given back."""
        lease = subject.leases.claim("r", "ann", ttl=LONG, above=0)
        subject.leases.release(lease)

        equal(subject.leases.renew("ann", [("r", 1)], ttl=LONG), set[str](), "what was kept")

    def test_a_stale_release_changes_nothing(self, subject: LeasesSubject) -> None:
        """Who lost a run cannot release it for the one who has it; releasing twice is no error."""
        first = subject.leases.claim("r", "ann", ttl=LONG, above=0)
        subject.expire("r")
        second = subject.leases.claim("r", "ann", ttl=LONG, above=1)
        subject.leases.release(first)

        holds(subject.leases.holds(second), "the second lease is held")
        subject.leases.release(second)
        subject.leases.release(second)
        holds(not subject.leases.holds(second), "the second lease was released")

    def test_one_of_many_claimers_wins(self, subject: LeasesSubject) -> None:
        """Of eight that claim a run at the same time, one gets it."""
        together = Barrier(8)

        def claim(number: int) -> bool:
            together.wait(20)
            try:
                subject.leases.claim("r", f"owner {number}", ttl=LONG, above=0)
            except RunIsOwned:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            equal(sum(pool.map(claim, range(8))), 1, "winners")

    def test_leases_can_be_looked_at(self, subject: LeasesSubject) -> None:
        """A lease is found by its run; held ones are listed, expired ones among them, in order."""
        released = subject.leases.claim("c", "ann", ttl=LONG, above=0)
        subject.leases.release(released)
        subject.leases.claim("b", "bob", ttl=LONG, above=0)
        subject.leases.claim("a", "ann", ttl=LONG, above=4)
        subject.expire("b")

        listed = [(row.run_id, row.owner, row.epoch, row.is_live) for row in subject.leases.all()]
        equal(listed, [("a", "ann", 5, True), ("b", "bob", 1, False)], "held leases")
        found = subject.leases.find("c")
        holds(found is not None and found.owner is None and not found.is_live, "a released run is nobody's")
        equal(subject.leases.find("never"), None, "the lease of a run that was never claimed")
