"""Leases in PostgreSQL, by its clock."""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import UTC, datetime

from psycopg.rows import DictRow

from perdure.application.ports.leases import Lease, LeaseRow, Leases, Left
from perdure.domain.errors import RunIsOwned
from perdure.infrastructure.postgres.database import Database
from perdure.infrastructure.postgres.schema import create_schema, schema_lock, statements


class PostgresLeases(Leases):
    """One row a run; each call is one statement."""

    def __init__(self, database: Database, *, schema: str) -> None:
        """Create the table if it is missing."""
        self._database = database
        self._sql = statements("leases", schema)
        with database.connection() as connection, schema_lock(connection):
            create_schema(connection, schema)
            connection.execute(self._sql["create"])

    def claim(self, run_id: str, owner: str, *, ttl: float, above: int) -> Lease:
        """Take a run that nobody holds; see the port."""
        parameters = {"run_id": run_id, "owner": owner, "ttl": ttl, "above": above}
        rows = self._database.rows(self._sql["claim"], parameters)
        if not rows:
            holder = self.find(run_id)
            who = f"{holder.owner!r} until {holder.expires_at:%H:%M:%SZ}" if holder else "somebody"
            raise RunIsOwned(f"run {run_id!r} is held by {who}")
        left: Left = "new"
        if rows[0]["epoch_before"] is not None:
            left = "released" if rows[0]["owner_before"] is None else "expired"
        elif above > 0:
            # The table was dropped: all that is known is that somebody had the run.
            left = "released"
        return Lease(run_id, owner, rows[0]["epoch"], left, ttl)

    def renew(self, owner: str, held: Collection[tuple[str, int]], *, ttl: float) -> set[str]:
        """Prolong leases; see the port."""
        parameters = {
            "owner": owner,
            "ttl": ttl,
            "run_ids": [run_id for run_id, _ in held],
            "epochs": [epoch for _, epoch in held],
        }
        return {row["run_id"] for row in self._database.rows(self._sql["renew"], parameters)}

    def release(self, lease: Lease) -> None:
        """Give the run back; see the port."""
        self._database.rows(self._sql["release"], _key(lease))

    def holds(self, lease: Lease) -> bool:
        """Whether the lease is held right now; see the port."""
        asked = time.monotonic()
        rows = self._database.rows(self._sql["seconds_left"], _key(lease))
        # A process that was frozen while it waited for the answer reads what was true long ago.
        return bool(rows) and rows[0]["seconds_left"] > time.monotonic() - asked

    def find(self, run_id: str) -> LeaseRow | None:
        """Return the lease of a run; see the port."""
        rows = self._database.rows(self._sql["find"], {"run_id": run_id})
        return _row(rows[0]) if rows else None

    def all(self) -> list[LeaseRow]:
        """Return the held leases; see the port."""
        return [_row(row) for row in self._database.rows(self._sql["all"])]


def _key(lease: Lease) -> dict[str, object]:
    return {"run_id": lease.run_id, "owner": lease.owner, "epoch": lease.epoch}


def _row(row: DictRow) -> LeaseRow:
    expires_at: datetime = row["expires_at"]
    return LeaseRow(row["run_id"], row["owner"], row["epoch"], expires_at.astimezone(UTC), row["is_live"])
