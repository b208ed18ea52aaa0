"""The PostgreSQL server of a test run, and fresh databases on it."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from perdure.infrastructure.postgres.embedded import EmbeddedPostgres, remove

DIRECTORY = "PERDURE_TEST_SERVER"
"""Environment variable in which the first process of a test run names the directory to the others."""


def new_directory() -> Path:
    """Make a directory that the server's account can enter, outside of pytest's private ones."""
    return Path(tempfile.mkdtemp(prefix="perdure-tests-", dir="/var/tmp"))


def clean_up(directory: Path) -> None:
    """Stop the server of a directory, if one was started, and delete everything."""
    if (directory / ".use.lock").exists():
        remove(directory)
    shutil.rmtree(directory, ignore_errors=True)


def join_server() -> EmbeddedPostgres:
    """Start or join the server of this test run: nothing has to survive a power failure."""
    return EmbeddedPostgres.start(
        Path(os.environ[DIRECTORY]), durable=False, settings={"max_connections": "300"}
    )


@contextmanager
def fresh_database(server: EmbeddedPostgres) -> Generator[str]:
    """Create an empty database, and drop it afterwards, whoever is still connected."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
    try:
        yield make_conninfo(server.conninfo, dbname=name)
    finally:
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            connection.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))
