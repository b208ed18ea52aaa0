"""The `eventsourcing` recorder for PostgreSQL, kept out of its neighbours' way."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from eventsourcing.persistence import ProgrammingError, StoredEvent
from eventsourcing.postgres import (
    PostgresApplicationRecorder,
    PostgresDatastore,
    PostgresFactory,
)
from psycopg.sql import SQL, Identifier

from perdure.infrastructure.event_store.datastore import RunEventsDatastore
from perdure.infrastructure.postgres.schema import schema_lock


class RunEventsRecorder(PostgresApplicationRecorder):
    """Stores events in one table, under the library's lock that makes notification order commit order."""

    def __init__(self, datastore: PostgresDatastore, *, events_table_name: str) -> None:
        super().__init__(datastore, events_table_name=events_table_name)
        # The library's insert function is named after no table: in a schema with a second application it
        # would replace that one's function, and its events would land here. It is not used, so not made.
        del self.sql_create_statements[self.create_insert_function_statement_index]

    def create_table(self) -> None:
        """Create schema and table, if they are missing, while no other process does."""
        with self.datastore.get_connection() as connection, schema_lock(connection):
            connection.execute(
                SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(self.datastore.schema))
            )
            super().create_table()

    def select_events(  # noqa: D102 - as in the base class, for ids of any type
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        return super().select_events(str(originator_id), gt=gt, lte=lte, desc=desc, limit=limit)

    def run_ids(self, after: str, limit: int) -> list[str]:
        """Return ids of streams in the log, in order, from behind `after`."""
        statement = SQL(
            "SELECT originator_id FROM {}.{} WHERE originator_version = 1 AND originator_id > %s "
            "AND topic LIKE 'perdure.%%' ORDER BY originator_id LIMIT %s"
        ).format(Identifier(self.datastore.schema), Identifier(self.events_table_name))
        with self.datastore.get_connection() as connection:
            return [row["originator_id"] for row in connection.execute(statement, (after, limit))]


class RunEventsFactory(PostgresFactory):
    """Makes a recorder that connects by a libpq connection string, with all of its parameters."""

    CONNINFO = "PERDURE_CONNINFO"
    application_recorder_class = RunEventsRecorder

    def __init__(self, env: object) -> None:
        super().__init__(env)  # pyright: ignore[reportArgumentType]
        if self.datastore.enable_db_functions:
            raise ProgrammingError(
                "POSTGRES_ENABLE_DB_FUNCTIONS skips the table lock, and followers then miss events"
            )
        self.datastore = RunEventsDatastore(
            self.env[self.CONNINFO],
            schema=self.datastore.schema,
            pool_size=int(self.env[self.POSTGRES_POOL_SIZE]),
            max_overflow=int(self.env[self.POSTGRES_MAX_OVERFLOW]),
        )
