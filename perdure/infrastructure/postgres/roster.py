"""The roster of workers in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import TypeAdapter

from perdure.application.ports.roster import Offer, Presence, Roster
from perdure.infrastructure.postgres.database import Database
from perdure.infrastructure.postgres.schema import create_schema, schema_lock, statements

_OFFERS = TypeAdapter(tuple[Offer, ...])


class PostgresRoster(Roster):
    """One row a worker; offers are JSON."""

    def __init__(self, database: Database, *, schema: str) -> None:
        """Create the table if it is missing."""
        self._database = database
        self._sql = statements("roster", schema)
        with database.connection() as connection, schema_lock(connection):
            create_schema(connection, schema)
            connection.execute(self._sql["create"])

    def announce(self, owner: str, offers: Sequence[Offer], *, ttl: float) -> None:
        """Give a sign of life; see the port."""
        stored = _OFFERS.dump_json(tuple(offers), exclude_none=True)
        self._database.rows(self._sql["announce"], {"owner": owner, "offers": stored, "ttl": ttl})

    def leave(self, owner: str) -> None:
        """Say that this worker goes; see the port."""
        self._database.rows(self._sql["leave"], {"owner": owner})

    def all(self) -> Sequence[Presence]:
        """Return the workers that are remembered; see the port."""
        return [
            Presence(
                owner=row["owner"],
                offers=_OFFERS.validate_json(bytes(row["offers"])),
                until=row["until"],
            )
            for row in self._database.rows(self._sql["all"])
        ]
