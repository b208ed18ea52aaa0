"""The database's clock, carried forward by the machine's monotonic one."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from perdure.application.ports.clock import Clock
from perdure.infrastructure.postgres.database import Database
from perdure.infrastructure.postgres.schema import statements


class PostgresClock(Clock):
    """Asks the database now and then, and counts on from there: the machine's date does not matter."""

    def __init__(self, database: Database, *, schema: str) -> None:
        self._database = database
        self._now = statements("leases", schema)["now"]
        self.synchronise()

    def now(self) -> datetime:
        """Return the present moment by the database's clock."""
        at, counted_from = self._read
        return at + timedelta(seconds=time.monotonic() - counted_from)

    def synchronise(self) -> None:
        """Ask the database what time it is."""
        asked = time.monotonic()
        at: datetime = self._database.rows(self._now)[0]["now"]
        # One attribute: another thread reads both parts or neither.
        self._read = at.astimezone(UTC), asked
