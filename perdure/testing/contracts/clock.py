"""What a clock must do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from perdure.application.ports.clock import Clock
from perdure.testing.contracts.expectations import equal, holds


@dataclass(frozen=True, slots=True)
class ClockSubject:
    """A clock to be tested.

    Attributes:
        pass_time: Lets a number of seconds pass: it moves a clock that can be moved, or waits.
    """

    clock: Clock
    pass_time: Callable[[float], None]


class ClockContract:
    """The port `Clock`. Give it a fixture `subject` with a `ClockSubject`."""

    def test_now_is_in_utc(self, subject: ClockSubject) -> None:
        """The time has a zone, and it is UTC."""
        equal(subject.clock.now().utcoffset(), timedelta(0), "offset from UTC")

    def test_time_passes(self, subject: ClockSubject) -> None:
        """The clock goes on by about as much as passes."""
        before = subject.clock.now()
        subject.pass_time(0.05)
        passed = (subject.clock.now() - before).total_seconds()
        holds(0.04 <= passed < 30, f"0.05 s pass, and the clock goes on by {passed} s")

    def test_time_does_not_go_back(self, subject: ClockSubject) -> None:
        """No reading is before an earlier one."""
        readings = [subject.clock.now() for _ in range(1000)]
        equal(readings, sorted(readings), "readings in a row")

    def test_synchronising_keeps_the_time(self, subject: ClockSubject) -> None:
        """Looking at the store's clock again changes little on a machine whose clock is right."""
        before = subject.clock.now()
        subject.clock.synchronise()
        moved = abs((subject.clock.now() - before).total_seconds())
        holds(moved < 10, f"synchronising moved the clock by {moved} s")
