"""Connections for everything but the log."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import DictRow, dict_row
from psycopg.sql import Composed
from psycopg_pool import ConnectionPool

from perdure.infrastructure.postgres.connecting import PatientConnection, meaning, parameters, with_patience


class Database:
    """A small pool of connections; one statement is one transaction."""

    def __init__(self, conninfo: str, *, max_size: int = 4, timeout: float = 10.0) -> None:
        """Prepare; connections are made when they are needed.

        Args:
            conninfo: A libpq connection string or URL.
            max_size: Connections at most.
            timeout: Seconds to wait for one, and for an answer on it.
        """
        self._pool: ConnectionPool[PatientConnection] = ConnectionPool(
            connection_class=with_patience(timeout),
            kwargs={"autocommit": True, "row_factory": dict_row, **parameters(conninfo, timeout=timeout)},
            min_size=0,
            max_size=max_size,
            timeout=timeout,
            check=ConnectionPool[PatientConnection].check_connection,
            open=True,
        )

    @contextmanager
    def connection(self) -> Generator[Connection[DictRow]]:
        """Lend a connection.

        Raises:
            LogUnavailable: The database cannot be reached.
            LogRefused: It refused, and will refuse again.
        """
        try:
            with self._pool.connection() as connection:
                yield connection
        except psycopg.Error as error:
            raise meaning(error, "the database") from error

    def rows(self, statement: Composed, parameters: Mapping[str, Any] | None = None) -> list[DictRow]:
        """Run one statement and return its rows.

        Raises:
            LogUnavailable: The database cannot be reached.
            LogRefused: It refused, and will refuse again.
        """
        with self.connection() as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description is not None else []

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()
