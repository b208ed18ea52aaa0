"""What `perdure doctor` asks a server; it leaves no trace there."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg.rows import DictRow

from perdure.infrastructure.cli.findings import Finding, graded
from perdure.infrastructure.cli.recorded import EVENTS_TABLE, Connection
from perdure.infrastructure.event_store.topics import is_known
from perdure.infrastructure.postgres.schema import statements

_OLDEST_SERVER = 13
_FEWEST_CONNECTIONS = 50
_DURABLE = ("on", "remote_apply", "remote_write", "local")
_SANE = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a table must have: columns with their types, and columns that are unique together."""

    columns: Mapping[str, str]
    key: tuple[str, ...]


_INSTANT = "timestamp with time zone"
_TABLES = {
    EVENTS_TABLE: Shape(
        {
            "originator_id": "text",
            "originator_version": "bigint",
            "topic": "text",
            "state": "bytea",
            "notification_id": "bigint",
        },
        key=("originator_id", "originator_version"),
    ),
    "leases": Shape(
        {
            "run_id": "text",
            "owner": "text",
            "epoch": "bigint",
            "claimed_at": _INSTANT,
            "expires_at": _INSTANT,
        },
        key=("run_id",),
    ),
    "workers": Shape({"owner": "text", "offers": "bytea", "until": _INSTANT}, key=("owner",)),
}


@dataclass(frozen=True, slots=True)
class Inspection:
    """A connection, and the schema to look at over it."""

    connection: Connection
    schema: str

    def ask(self, name: str, **parameters: Any) -> list[DictRow]:
        """Run one of the statements in `doctor.sql`."""
        package = "perdure.infrastructure.cli"
        statement = statements("doctor", self.schema, package=package, events=EVENTS_TABLE)[name]
        cursor = self.connection.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description is not None else []

    def tables(self) -> dict[str, DictRow]:
        """Return those of perdure's tables that are there."""
        rows = self.ask("tables", in_schema=self.schema, tables=list(_TABLES))
        return {row["name"]: row for row in rows}


def _server(inspection: Inspection) -> Generator[Finding]:
    asked = datetime.now(UTC)
    server = inspection.ask("server")[0]
    answered = datetime.now(UTC)
    is_supported = server["version_number"] >= _OLDEST_SERVER * 10_000
    advice = f"PostgreSQL {_OLDEST_SERVER} or newer is needed."
    yield graded("server", ok=is_supported, found=f"PostgreSQL {server['version']}", advice=advice)
    is_primary = not server["is_standby"] and not server["is_read_only"]
    found = "primary, for reading and writing" if is_primary else "a standby, or read-only"
    yield graded("role", ok=is_primary, found=found, advice="Connect to the primary.")
    is_utf8 = server["encoding"] == "UTF8"
    advice = "Create a database with encoding UTF8: texts of models need it."
    yield graded("encoding", ok=is_utf8, found=server["encoding"], advice=advice)
    yield _connections(server["max_connections"], inspection.ask("connections")[0]["used"])
    # What the way there and back took is nobody's fault.
    yield clock(server["now"] - (asked + (answered - asked) / 2))


def _connections(most: int, used: int) -> Finding:
    found = f"{most} at most, {used} in use"
    advice = "Each worker process uses up to 15: raise max_connections when there are several."
    return graded("connections", ok=most >= _FEWEST_CONNECTIONS, found=found, advice=advice, otherwise="warn")


def clock(apart: timedelta) -> Finding:
    """Judge how far the database's clock is ahead of this machine's."""
    direction = "ahead of" if apart > timedelta(0) else "behind"
    found = f"the database is {abs(apart).total_seconds():.1f} s {direction} this machine"
    advice = "Leases and deadlines go by the database's clock; set the one that is wrong."
    return graded("clock", ok=abs(apart) < _SANE, found=found, advice=advice, otherwise="warn")


def _durability(inspection: Inspection) -> Generator[Finding]:
    for row in inspection.ask("durability"):
        advice = f"A power failure can lose what was recorded: set {row['name']} to on."
        yield graded(row["name"], ok=row["setting"] in _DURABLE, found=row["setting"], advice=advice)


def _tables(inspection: Inspection) -> Generator[Finding]:
    there = inspection.tables()
    for name, shape in _TABLES.items():
        check = f"table {name}"
        if name not in there:
            found = f"not in schema {inspection.schema}"
            yield Finding(check, "warn", found, "It is created at the first use. Is it the right schema?")
            continue
        faults = _faults(there[name], shape)
        found = "; ".join(faults) or f"in schema {inspection.schema}, as it should be"
        advice = "Something else made it, or changed it: use another schema, or mend the table."
        yield graded(check, ok=not faults, found=found, advice=advice)


def _faults(row: DictRow, shape: Shape) -> list[str]:
    columns: dict[str, str] = row["columns"] or {}
    faults = [f"has no column {name}" for name in shape.columns if name not in columns]
    faults += [
        f"column {name} is {columns[name]}, not {kind}"
        for name, kind in shape.columns.items()
        if name in columns and columns[name] != kind
    ]
    if sorted(shape.key) not in row["keys"]:
        faults.append(f"({', '.join(shape.key)}) is not unique: two workers could write at once")
    if row["persistence"] != "p":
        faults.append("is unlogged or temporary: a crash of the server empties it")
    return faults


def _log(inspection: Inspection) -> Generator[Finding]:
    if EVENTS_TABLE not in inspection.tables():
        return
    try:
        with inspection.connection.transaction():
            inspection.ask("patience")
            topics = [row["topic"] for row in inspection.ask("topics")]
    except psycopg.errors.QueryCanceled:
        yield Finding(
            "log", "warn", "too long to look through in 10 s", "Unknown events would show in `show`."
        )
        return
    unknown = sorted(topic for topic in topics if not is_known(topic))
    found = f"{len(topics)} kinds of events, all known"
    if unknown:
        found = f"holds events that this version does not know: {', '.join(unknown)}"
    advice = "The log was written by a newer perdure: upgrade this one."
    yield graded("log", ok=not unknown, found=found, advice=advice)


def _writing(inspection: Inspection) -> Generator[Finding]:
    lacking = inspection.ask("lacking", in_schema=inspection.schema, tables=list(_TABLES), log=EVENTS_TABLE)
    if lacking:
        found = f"rights are lacking ({', '.join(row['privilege'] for row in lacking)})"
        yield Finding("writing", "fail", found, "Grant them to the role of the address.")
        return
    try:
        with inspection.connection.transaction(force_rollback=True):
            for statement in ("patience", "write_schema", "write_table", "write_row"):
                inspection.ask(statement)
    except psycopg.Error as error:
        advice = f"The role needs to create in this database and in schema {inspection.schema}."
        yield Finding("writing", "fail", str(error).strip(), advice)
    else:
        yield Finding("writing", "ok", "a table was made and written, and rolled back")


CHECKS: Mapping[str, Callable[[Inspection], Generator[Finding]]] = {
    "server": _server,
    "durability": _durability,
    "tables": _tables,
    "log": _log,
    "writing": _writing,
}
"""What is asked, by the name under which a check that breaks is reported."""
