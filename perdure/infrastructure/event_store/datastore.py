"""Connections to the event table."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from eventsourcing.persistence import OperationalError
from eventsourcing.postgres import PostgresDatastore
from psycopg import Connection
from psycopg.rows import DictRow, dict_row
from psycopg.sql import Identifier
from psycopg.types.composite import CompositeInfo, register_composite
from psycopg_pool import PoolTimeout

from perdure.domain.errors import LogUnavailable
from perdure.infrastructure.postgres.connecting import PatientConnection, parameters

_PATIENCE = 5.0
"""Seconds to wait for a connection."""


class RunEventsDatastore(PostgresDatastore):
    """Connects by a libpq connection string, with all of its parameters; gives up when nobody answers.

    The library tries a statement up to ten times: that gets over connections which broke. Waiting ten
    times for a connection, where there is none to be had, would keep people waiting for minutes.
    """

    def __init__(self, conninfo: str, *, schema: str, pool_size: int, max_overflow: int) -> None:
        """Prepare; connections are made when they are needed."""
        super().__init__(
            dbname="",
            host="",
            port="",
            user="",
            password="",
            connect_timeout=_PATIENCE,
            idle_in_transaction_session_timeout=5,
            pool_size=pool_size,
            max_overflow=max_overflow,
            schema=schema,
            originator_id_type="text",
        )
        # The library knows five connection parameters; TLS and timeouts are others.
        self.parameters: dict[str, Any] = {
            **parameters(conninfo, timeout=_PATIENCE),
            "row_factory": dict_row,
        }
        self.pool.kwargs = self.parameters
        self.pool.connection_class = PatientConnection
        # Beyond this the pool would only try again after ever longer pauses, when the server may be back.
        self.pool.reconnect_timeout = _PATIENCE

    @contextmanager
    def get_connection(self) -> Generator[Connection[DictRow]]:
        """Lend a connection.

        Raises:
            LogUnavailable: There is none to be had.
        """
        try:
            with super().get_connection() as connection:
                yield connection
        except OperationalError as error:
            if isinstance(error.__cause__, PoolTimeout):
                raise LogUnavailable(f"the event store cannot be reached: {error}") from error
            raise

    def register_type_adapters(self) -> None:
        """Teach connections the composite types of the schema; the library does not quote its name."""
        unknown = self.db_type_names - self.psycopg_type_adapters.keys()
        if not unknown:
            return
        with self.get_connection() as connection:
            for name in unknown:
                info = CompositeInfo.fetch(connection, Identifier(self.schema, name))
                if info is not None:
                    register_composite(info, connection)
                    self.psycopg_type_adapters[name] = info
                    self.psycopg_python_types[name] = info.python_type
