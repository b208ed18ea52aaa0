"""The `eventsourcing` recorder for PostgreSQL, kept out of its neighbours' way."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from eventsourcing.persistence import InterfaceError, OperationalError, ProgrammingError, StoredEvent
from eventsourcing.postgres import (
    PostgresApplicationRecorder,
    PostgresFactory,
)
from eventsourcing.utils import retry
from psycopg.sql import SQL, Identifier

from perdure.infrastructure.event_store.datastore import RunEventsDatastore
from perdure.infrastructure.postgres.schema import create_schema, schema_lock

_APPEND_FUNCTION = """
CREATE OR REPLACE FUNCTION {schema}.{function}(
    ids text[], versions bigint[], topics text[], states bytea[])
RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE {schema}.{table} IN EXCLUSIVE MODE;
    NOTIFY {channel};
    RETURN QUERY
        INSERT INTO {schema}.{table} AS stored (originator_id, originator_version, topic, state)
        SELECT * FROM unnest(ids, versions, topics, states)
        RETURNING stored.notification_id;
END
$$
"""


class RunEventsRecorder(PostgresApplicationRecorder):
    """Stores events in one table, under the library's lock that makes notification order commit order.

    Lock, notification and insert are one statement, and so one transaction that the server ends by itself.
    The library's several statements hold the lock until the client says more: a process that is frozen in
    between keeps every other one from writing, for as long as it is frozen.
    """

    def __init__(self, datastore: RunEventsDatastore, *, events_table_name: str) -> None:
        super().__init__(datastore, events_table_name=events_table_name)
        self.connection_parameters = datastore.parameters
        names = {
            "schema": Identifier(datastore.schema),
            "table": Identifier(events_table_name),
            "channel": Identifier(self.channel_name),
            # The library's function is named after no table: a second application in the schema would
            # replace it, and events of one would land with the other.
            "function": Identifier(f"{events_table_name}_append"),
        }
        create = SQL(_APPEND_FUNCTION).format(**names)
        self.sql_create_statements[self.create_insert_function_statement_index] = create
        statement = (
            "SELECT notification_id FROM {schema}.{function}({arguments}) AS appended (notification_id)"
        )
        arguments = SQL("%s::text[], %s::bigint[], %s::text[], %b::bytea[]")
        self._append = SQL(statement).format(arguments=arguments, **names)
        self.wire_statement = SQL(statement).format(arguments=SQL("$1, $2, $3, $4"), **names).as_string(None)
        """The same for a `Wire`, whose parameters are arrays: ids, versions, topics and states."""

    def create_table(self) -> None:
        """Create schema and table, if they are missing, while no other process does."""
        with self.datastore.get_connection() as connection, schema_lock(connection):
            create_schema(connection, self.datastore.schema)
            super().create_table()

    @retry((InterfaceError, OperationalError), max_attempts=10, wait=0.2)
    def insert_events(self, stored_events: Sequence[StoredEvent], **_: object) -> Sequence[int]:
        """Append events in one round trip, all or none.

        Returns:
            Their positions in the order of all events.
        """
        if not stored_events:
            return []
        arrays = (
            [str(event.originator_id) for event in stored_events],
            [event.originator_version for event in stored_events],
            [event.topic for event in stored_events],
            [event.state for event in stored_events],
        )
        with self.datastore.get_connection() as connection:
            cursor = connection.execute(self._append, arrays, prepare=True)
            return [row["notification_id"] for row in cursor.fetchall()]

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
