"""Tables of ours besides the log; all of them can be dropped and are rebuilt."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from psycopg import Connection
from psycopg.sql import SQL, Composed, Identifier

_SCHEMA_LOCK = 7_367_391_401
"""Key of the advisory lock under which tables are created: processes that start together race otherwise."""


@contextmanager
def schema_lock(connection: Connection[Any]) -> Generator[None]:
    """Hold the lock under which tables are created; others wait."""
    connection.execute("SELECT pg_advisory_lock(%s)", (_SCHEMA_LOCK,))
    try:
        yield
    finally:
        connection.execute("SELECT pg_advisory_unlock(%s)", (_SCHEMA_LOCK,))


def create_schema(connection: Connection[Any], schema: str) -> None:
    """Create a schema if it is missing; a role that may not create schemas can use one that is there."""
    found = connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (schema,))
    if found.rowcount == 0:
        connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(schema)))


def statements(
    name: str, schema: str, *, package: str | None = None, **identifiers: str
) -> dict[str, Composed]:
    """Read the named statements of a `.sql` file.

    Args:
        name: The file, without its ending.
        package: Where the file is, if not in this package.
        schema: Put in for `{schema}` in the statements.
        **identifiers: Names of tables, put in likewise.

    Returns:
        Statement by name: each follows a line `-- name: <name>`.
    """
    text = files(package or "perdure.infrastructure.postgres").joinpath(f"{name}.sql").read_text()
    names = {"schema": Identifier(schema), **{k: Identifier(v) for k, v in identifiers.items()}}
    found: dict[str, Composed] = {}
    for part in text.split("-- name: ")[1:]:
        title, _, body = part.partition("\n")
        found[title.strip()] = SQL(body).format(**names)  # pyright: ignore[reportArgumentType]
    return found
