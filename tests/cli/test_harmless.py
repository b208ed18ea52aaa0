"""What others wrote is shown, not obeyed; what is secret is not shown."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from psycopg.conninfo import make_conninfo

from perdure import AgentRuns
from perdure.infrastructure.cli.harmless import harmless, indented, one_line, shortened, without_secrets
from tests.cli.conftest import Cli

SECRET = "s3cret"


def test_no_character_that_a_terminal_obeys_comes_through() -> None:
    """Of all characters, those that control, hide or reorder are shown as escapes."""
    characters = (chr(code) for code in range(sys.maxunicode + 1))
    obeyed = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    allowed = {"\n", "\t", "\u200c", "\u200d"}

    shown = [
        c for c in characters if unicodedata.category(c) in obeyed and c not in allowed and c in harmless(c)
    ]

    assert shown == []


@pytest.mark.parametrize(
    "text",
    [
        "café\u00a0!",
        "東京\u3000駅",
        "👩\u200d💻 👍🏽",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "C:\\x1b",
        "[bold]x[/]",
        "tab\there",
    ],
)
def test_text_of_all_scripts_stays_as_it_is(text: str) -> None:
    """Spaces, joiners, markup and backslashes are text."""
    assert harmless(text) == text


def test_line_ends_cannot_leave_their_place() -> None:
    """On one line, or indented: the text of others begins no line of ours."""
    assert one_line("a\r\nb\x1b[2J\n  c") == "a\\r b\\x1b[2J c"
    assert indented("a\nb", 4) == "a\n    b"
    assert shortened("x" * 20, 10) == "xxxxxxx..."


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:s3cret@host/db",
        "postgresql://me:p@s3cret@host/db?a=b@c",
        "postgres://:s3cret@/db",
        "postgresql://host/db?user=me&password=s3cret&sslmode=require",
        "host=x password=s3cret dbname=y",
        "host=x password = 's3cret with \\' blanks s3cret' dbname=y",
        "sslpassword=s3cret",
    ],
)
def test_passwords_are_taken_out_of_addresses(text: str) -> None:
    """However an address is written, its password is not."""
    assert SECRET not in without_secrets(f"could not use {text}")
    assert "***" in without_secrets(text)


@pytest.mark.parametrize(
    "arguments",
    [
        ("doctor", f"postgresql://me:{SECRET}@h/db"),
        ("show", f"postgresql://me:{SECRET}@h/db", "--database-url", "host=127.0.0.1 port=1"),
        ("show", "x", "--database-url", f"postgresql://me:{SECRET}@127.0.0.1:1/none"),
        ("show", "x", "--database-url", f"postgresql://me:p@{SECRET}@127.0.0.1:1/none"),
        ("show", "x", "--database-url", f"mysql://me:{SECRET}@h/db"),
        ("show", "x", "--database-url", f"host=127.0.0.1 port=1 password='{SECRET}"),
        ("--debug", "runs", "--database-url", f"host=127.0.0.1 port=1 password={SECRET}"),
        ("cancel", "x", "--reason", "y", "--database-url", f"host=127.0.0.1 port=1 password={SECRET}"),
        ("doctor", "--json", "--database-url", f"postgresql://me:{SECRET}@127.0.0.1:1/none"),
        (f"postgresql://me:{SECRET}@h/db",),
    ],
)
def test_no_error_repeats_a_password(anywhere: Cli, arguments: tuple[str, ...]) -> None:
    """Whatever is wrong with an address, and wherever it was typed, its password is not shown."""
    told = anywhere(*arguments)

    assert told.code in (1, 2)
    assert SECRET not in told.out + told.err


def test_no_page_repeats_the_password_of_its_address(
    anywhere: Cli, runs: AgentRuns, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Suggested commands leave a place for an address that cannot be shown whole."""
    address = make_conninfo(database_url, password=SECRET)

    shown = anywhere("show", "order-77", "--database-url", address)
    assert "--reason WHY --database-url URL" in shown.out
    monkeypatch.setenv("PERDURE_DATABASE_URL", address)
    pages = [shown, anywhere("show", "order-77"), anywhere("doctor"), anywhere("runs", "--json")]
    pages.append(anywhere("show", "order-77", "--schema", "nowhere"))

    assert all(SECRET not in page.out + page.err for page in pages)
