"""Runs as they are on record, for commands that only look: nothing is created, claimed or driven."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from typing import Any

import psycopg
from eventsourcing.persistence import JSONTranscoder, StoredEvent
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row

from perdure.application.ports.leases import LeaseRow
from perdure.domain.errors import DatabaseError, RunNotFound
from perdure.domain.events import Event
from perdure.infrastructure.event_store.mapper import PydanticMapper
from perdure.infrastructure.event_store.run_log import RunLog
from perdure.infrastructure.postgres.address import Address, resolve_address
from perdure.infrastructure.postgres.schema import statements

EVENTS_TABLE = f"{RunLog.name}_events"
Connection = psycopg.Connection[DictRow]


class RecordedRuns:
    """Reads a log and its leases over one connection."""

    def __init__(self, connection: Connection, schema: str, address: Address) -> None:
        """Use `recorded_runs()`."""
        self._connection = connection
        self._schema = schema
        self._address = address
        package = "perdure.infrastructure.cli"
        self._leases = statements("leases", schema)
        self._sql = statements("recorded", schema, package=package, events=EVENTS_TABLE)

    def require_log(self) -> None:
        """Make sure that there is a log.

        Raises:
            DatabaseError: There is none: a mistyped schema must not look like an empty one.
        """
        if not self._is_there(EVENTS_TABLE):
            raise DatabaseError(
                f"there is no log of runs in schema {self._schema!r} of the database at "
                f"{self._address.redacted()} ({self._address.source}): name the right one with "
                "--database-url and --schema. The first program that connects makes a new one."
            )

    def events(self, run_id: str, *, upto: int | None = None) -> Sequence[Event]:
        """Return the events of a run, in order.

        Raises:
            RunNotFound: There is no such run.
        """
        rows = self._ask("events", run_id=run_id, upto=upto) if _is_storable(run_id) else []
        if not rows:
            raise RunNotFound(f"there is no run {run_id!r}")
        mapper = PydanticMapper(JSONTranscoder())
        return [
            mapper.to_domain_event(
                StoredEvent(
                    row["originator_id"], row["originator_version"], row["topic"], bytes(row["state"])
                )
            )
            for row in rows
        ]

    def run_ids(self, *, after: str, limit: int) -> list[str]:
        """Return ids of runs, in order, from behind `after`."""
        return [row["run_id"] for row in self._ask("run_ids", after=after, limit=limit)]

    def lease(self, run_id: str) -> LeaseRow | None:
        """Return the lease of a run, if it ever had one and the table is there."""
        if not self._is_there("leases"):
            return None
        rows = self._rows(self._leases["find"], {"run_id": run_id})
        return LeaseRow(**rows[0]) if rows else None

    def leases(self) -> dict[str, LeaseRow]:
        """Return the leases that somebody holds, expired ones included, by run id."""
        if not self._is_there("leases"):
            return {}
        return {row["run_id"]: LeaseRow(**row) for row in self._rows(self._leases["all"])}

    def now(self) -> datetime:
        """Return the time by the database's clock."""
        return self._rows(self._leases["now"])[0]["now"]

    def _is_there(self, table: str) -> bool:
        return self._ask("is_there", in_schema=self._schema, table=table)[0]["is_there"]

    def _ask(self, name: str, **parameters: Any) -> list[DictRow]:
        return self._rows(self._sql[name], parameters)

    def _rows(self, statement: Any, parameters: dict[str, Any] | None = None) -> list[DictRow]:
        try:
            return self._connection.execute(statement, parameters).fetchall()
        except psycopg.Error as error:
            raise DatabaseError(
                f"the database at {self._address.redacted()} cannot be read: {error}"
            ) from error


@contextmanager
def recorded_runs(database_url: str | None, schema: str) -> Generator[RecordedRuns]:
    """Open the log for looking.

    Raises:
        DatabaseError: The database cannot be reached, or holds no log in this schema.
    """
    with closing(resolve_address(database_url)) as address:
        try:
            connection = connect(address)
        except psycopg.Error as error:
            raise DatabaseError(
                f"cannot reach the database at {address.redacted()} ({address.source}): {error}"
            ) from error
        with closing(connection):
            recorded = RecordedRuns(connection, schema, address)
            recorded.require_log()
            yield recorded


def connect(address: Address) -> Connection:
    """Connect; give up after five seconds, unless the address says otherwise.

    Raises:
        psycopg.Error: The database cannot be reached, or refuses.
    """
    parameters: dict[str, Any] = {"connect_timeout": 5, **conninfo_to_dict(address.conninfo)}
    # Whatever the environment says: in other encodings texts come as bytes, or not at all.
    parameters["client_encoding"] = "UTF8"
    return Connection.connect(**parameters, row_factory=dict_row, autocommit=True)


def _is_storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text
