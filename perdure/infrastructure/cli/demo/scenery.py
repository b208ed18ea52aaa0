"""The demo's schemas: set up afresh, used by one demo at a time, and cleared away when nobody wants them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import psycopg
from psycopg.sql import SQL, Identifier

from perdure.domain.errors import DatabaseError
from perdure.infrastructure.cli.demo.example import orders
from perdure.infrastructure.postgres.address import Address

SCHEMA = "perdure_demo"
SHOP_SCHEMA = "perdure_demo_shop"


@contextmanager
def scenery(address: Address) -> Generator[None]:
    """Set up what a demo needs in a database, and keep other demos from it meanwhile.

    Raises:
        DatabaseError: The database cannot be used, or another demo uses it.
    """
    with _alone_with(address) as connection:
        _clear(connection)
        table = Identifier(SHOP_SCHEMA, "orders")
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(SHOP_SCHEMA)))
        connection.execute(
            SQL(
                "CREATE TABLE {} (order_id text PRIMARY KEY, customer text NOT NULL, item text NOT NULL, "
                "cents integer NOT NULL, status text NOT NULL)"
            ).format(table)
        )
        with connection.cursor() as cursor:
            cursor.executemany(SQL("INSERT INTO {} VALUES (%s, %s, %s, %s, %s)").format(table), orders())
        yield


def clear(address: Address) -> None:
    """Drop what demos have left in a database.

    Raises:
        DatabaseError: The database cannot be used, or a demo uses it.
    """
    with _alone_with(address) as connection:
        _clear(connection)


@contextmanager
def _alone_with(address: Address) -> Generator[psycopg.Connection]:
    try:
        with psycopg.connect(address.conninfo, autocommit=True) as connection:
            # It ends with the connection, however this process ends.
            lock = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
            row = connection.execute(lock, (SCHEMA,)).fetchone()
            if row is None or not row[0]:
                raise DatabaseError(
                    f"another demo is using the schema {SCHEMA} of {address.redacted()}: wait for its end, "
                    "or name another database with --database-url"
                )
            yield connection
    except psycopg.Error as error:
        raise DatabaseError(f"the demo cannot use {address.redacted()}: {error}") from error


def _clear(connection: psycopg.Connection) -> None:
    for schema in (SCHEMA, SHOP_SCHEMA):
        connection.execute(SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(Identifier(schema)))
