"""`perdure doctor`: is everything as it has to be?"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing

import psycopg
import typer
from rich.table import Table
from rich.text import Text

from perdure.domain.errors import PerdureError
from perdure.infrastructure.cli.findings import Finding
from perdure.infrastructure.cli.harmless import without_secrets
from perdure.infrastructure.cli.installation import installation
from perdure.infrastructure.cli.options import SCHEMA, DatabaseUrl, Json, Schema
from perdure.infrastructure.cli.output import cell, print_json, print_view, table
from perdure.infrastructure.cli.recorded import connect
from perdure.infrastructure.cli.server_checks import CHECKS, Inspection
from perdure.infrastructure.postgres.address import resolve_address

_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(database_url: DatabaseUrl = None, schema: Schema = SCHEMA, json: Json = False) -> None:
    """Check the server, the tables, the clock and durability; change nothing."""
    findings = [*installation(), *_database(database_url, schema)]
    is_ok = all(finding.grade != "fail" for finding in findings)
    if json:
        checks = [
            {"check": f.check, "grade": f.grade, "found": f.found, "advice": f.advice} for f in findings
        ]
        print_json({"ok": is_ok, "checks": checks})
    else:
        print_view(_table(findings))
    if not is_ok:
        raise typer.Exit(1)


def _table(findings: Sequence[Finding]) -> Table:
    rows = table("", "check", "found")
    for finding in findings:
        rows.add_row(Text(finding.grade, style=_STYLES[finding.grade]), finding.check, cell(finding.found))
        if finding.advice:
            rows.add_row("", "", Text("-> ").append_text(cell(finding.advice)))
    return rows


def _database(database_url: str | None, schema: str) -> Generator[Finding]:
    try:
        address = resolve_address(database_url)
    except PerdureError as error:
        yield Finding("address", "fail", without_secrets(str(error)), "Name one with --database-url.")
        return
    with closing(address):
        yield Finding("address", "ok", f"{address.redacted()} ({address.source})")
        try:
            connection = connect(address)
        except psycopg.Error as error:
            advice = f"Is the server up, and are host, port, user and password right? From: {address.source}"
            yield Finding("connection", "fail", without_secrets(str(error)).strip(), advice)
            return
        with closing(connection):
            for name, check in CHECKS.items():
                try:
                    yield from check(Inspection(connection, schema))
                except psycopg.Error as error:
                    yield Finding(name, "fail", str(error).strip(), "The check could not be made.")
