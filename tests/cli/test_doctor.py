"""doctor finds what would hurt, says what to do, and leaves no trace."""

from __future__ import annotations

import importlib.util
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from perdure import AgentRuns
from perdure.infrastructure.cli.server_checks import clock
from perdure.infrastructure.postgres.embedded import EmbeddedPostgres
from tests.cli.conftest import Cli, Told

DURABILITY = {"fsync", "full_page_writes", "synchronous_commit"}
"""What the server of the tests gives up on purpose."""


def failures(told: Told) -> set[str]:
    return {check["check"] for check in told.data["checks"] if check["grade"] == "fail"} - DURABILITY


def finding(told: Told, name: str) -> Any:
    return next(check for check in told.data["checks"] if check["check"] == name)


def test_a_durable_server_passes(anywhere: Cli, server_directory: Path) -> None:
    """On the server that users get, everything is well, before and after the tables are made."""
    with EmbeddedPostgres.start(server_directory) as server:
        before = anywhere("doctor", "--json", "--database-url", server.conninfo)
        with AgentRuns.connect(server.conninfo):
            pass
        after = anywhere("doctor", "--json", "--database-url", server.conninfo)

    assert (before.code, before.data["ok"]) == (0, True)
    assert finding(before, "table leases")["grade"] == "warn"
    assert (after.code, after.data["ok"]) == (0, True)
    assert {check["grade"] for check in after.data["checks"]} == {"ok"}
    assert finding(after, "address")["found"].endswith("(given)")


def test_checks_have_one_shape(cli: Cli) -> None:
    """Each check has a name, a grade, what was found and what to do."""
    told = cli("doctor", "--json").data

    assert set(told) == {"ok", "checks"}
    for check in told["checks"]:
        assert set(check) == {"check", "grade", "found", "advice"}
        assert check["grade"] in ("ok", "warn", "fail")
        assert check["grade"] == "ok" or check["advice"]


def test_nothing_stays_behind(cli: Cli, database_url: str, runs: AgentRuns) -> None:
    """The tables that were there are there, and no others; no value of a sequence is used up."""
    catalogue = "SELECT count(*) FROM pg_class"
    sequence = "SELECT last_value FROM perdure.perdure_events_notification_id_seq"
    with psycopg.connect(database_url, autocommit=True) as connection:
        before = [connection.execute(statement).fetchone() for statement in (catalogue, sequence)]
        assert failures(cli("doctor", "--json")) == set()
        assert failures(cli("doctor", "--json", "--schema", "elsewhere")) == set()
        after = [connection.execute(statement).fetchone() for statement in (catalogue, sequence)]

    assert after == before


@pytest.mark.parametrize(
    ("harm", "check", "found"),
    [
        ("ALTER TABLE perdure.perdure_events SET UNLOGGED", "table perdure_events", "unlogged"),
        (
            "ALTER TABLE perdure.perdure_events DROP CONSTRAINT perdure_events_pkey",
            "table perdure_events",
            "is not unique: two workers could write at once",
        ),
        (
            "ALTER TABLE perdure.perdure_events ALTER state TYPE text USING ''",
            "table perdure_events",
            "column state is text, not bytea",
        ),
        ("ALTER TABLE perdure.leases DROP COLUMN epoch", "table leases", "has no column epoch"),
        ("ALTER TABLE perdure.workers DROP COLUMN until", "table workers", "has no column until"),
    ],
)
def test_a_table_that_is_not_as_it_should_be_is_found(
    cli: Cli, runs: AgentRuns, database_url: str, harm: str, check: str, found: str
) -> None:
    """Columns, types, keys and persistence are compared with what perdure makes."""
    with psycopg.connect(database_url) as connection:
        connection.execute(harm)

    told = cli("doctor", "--json")

    assert told.code == 1
    assert failures(told) == {check}
    assert found in finding(told, check)["found"]


def test_a_server_that_only_reads_is_found(anywhere: Cli, database_url: str) -> None:
    """A standby, or a session that may not write, is no place for runs."""
    read_only = make_conninfo(database_url, options="-c default_transaction_read_only=on")

    told = anywhere("doctor", "--json", "--database-url", read_only)

    assert failures(told) == {"role", "writing"}


def test_an_encoding_that_loses_text_is_found(anywhere: Cli, database_url: str) -> None:
    """A database without UTF8 is refused."""
    name = Identifier(f"ascii_{uuid.uuid4().hex}")
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            SQL("CREATE DATABASE {} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0").format(name)
        )
        try:
            elsewhere = make_conninfo(database_url, dbname=name.as_string().strip('"'))
            told = anywhere("doctor", "--json", "--database-url", elsewhere)
        finally:
            connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(name))

    assert failures(told) == {"encoding"}


def test_rights_that_are_lacking_are_named(anywhere: Cli, runs: AgentRuns, database_url: str) -> None:
    """A role that may read and not write is told which rights it lacks."""
    role = Identifier(f"reader_{uuid.uuid4().hex}")
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(SQL("CREATE ROLE {} LOGIN").format(role))
        owner.execute(SQL("GRANT USAGE ON SCHEMA perdure TO {}").format(role))
        owner.execute(SQL("GRANT SELECT ON ALL TABLES IN SCHEMA perdure TO {}").format(role))
        try:
            reader = make_conninfo(database_url, user=role.as_string().strip('"'))
            told = anywhere("doctor", "--json", "--database-url", reader)
        finally:
            owner.execute(SQL("DROP OWNED BY {}").format(role))
            owner.execute(SQL("DROP ROLE {}").format(role))

    assert failures(told) == {"writing"}
    assert "perdure_events: INSERT" in finding(told, "writing")["found"]
    assert "perdure_events: DELETE" not in finding(told, "writing")["found"]


def test_a_database_that_cannot_be_reached_is_told_with_the_way_out(anywhere: Cli) -> None:
    """What is installed is still shown, then what was tried, and where the address came from."""
    told = anywhere("doctor", "--json", "--database-url", "postgresql://127.0.0.1:1/none")

    assert told.code == 1
    assert [check["grade"] for check in told.data["checks"]] == ["ok", "ok", "ok", "fail"]
    assert "From: given" in finding(told, "connection")["advice"]


def test_where_the_address_came_from_is_told(
    anywhere: Cli, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address of the environment is shown with the name of its variable."""
    monkeypatch.setenv("DATABASE_URL", database_url)

    assert finding(anywhere("doctor", "--json"), "address")["found"].endswith("(DATABASE_URL)")


def test_an_address_that_is_none_is_a_finding(anywhere: Cli) -> None:
    """A URL of another database is told as such."""
    told = anywhere("doctor", "--database-url", "mysql://localhost/x")

    assert told.code == 1
    assert "mysql URL" in told.out


def test_extras_that_are_not_installed_are_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is no failure; how to get it is told."""
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "aiosmtpd" else there(name, *more)
    )

    extras = finding(cli("doctor", "--json"), "extras")

    assert extras["grade"] == "ok"
    assert "demo" not in extras["found"]
    assert "pip install 'perdure[demo]'" in extras["advice"]


@pytest.mark.parametrize(("seconds", "grade"), [(0.2, "ok"), (-4.9, "ok"), (7, "warn"), (-3600, "warn")])
def test_clocks_that_are_apart_are_minded(seconds: float, grade: str) -> None:
    """Seconds are nothing; more is a reason to look, for leases go by the database's clock."""
    assert clock(timedelta(seconds=seconds)).grade == grade


def test_people_read_what_to_do_below_what_was_found(cli: Cli) -> None:
    """Each line begins with its grade; advice stands behind an arrow."""
    lines = cli("doctor").out.splitlines()

    at = next(n for n, line in enumerate(lines) if line.startswith("fail  fsync"))
    assert lines[at + 1].strip() == "-> A power failure can lose what was recorded: set fsync to on."
