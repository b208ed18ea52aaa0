"""Clocks for runs in memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from perdure.application.ports.clock import Clock


class SystemClock(Clock):
    """The machine's clock: good enough where there is but one machine."""

    def now(self) -> datetime:
        """Return the present moment."""
        return datetime.now(UTC)

    def synchronise(self) -> None:
        """There is nothing to look at."""


class ManualClock(Clock):
    """A clock that stands still until a test moves it."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        """Return the moment it was set to."""
        return self._now

    def synchronise(self) -> None:
        """There is nothing to look at."""

    def move(self, by: timedelta | float) -> None:
        """Move on, by a time span or by seconds; or back."""
        self._now += by if isinstance(by, timedelta) else timedelta(seconds=by)
