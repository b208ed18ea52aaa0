"""Which database is used, and that its password is shown nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure import DatabaseError
from perdure.infrastructure.postgres.address import resolve_address


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ann:s3cret@db.example/shop",
        "postgres://ann:s3cret@db.example/shop",
        "postgresql://ann:p?s3cret=x#s3cret@db.example/shop",
        "postgresql+psycopg://ann:s3cret@db.example/shop",
        "host=db.example user=ann password=s3cret dbname=shop",
    ],
)
def test_an_address_is_taken_in_every_common_form_and_shown_without_its_password(address: str) -> None:
    """URLs, URLs with a driver and libpq strings are all understood, and no text of them has the secret."""
    found = resolve_address(address)
    assert found.source == "given"
    for shown in (repr(found), str(found), found.redacted(), f"{found}"):
        assert "s3cret" not in shown
    assert "db.example" in found.redacted()


def test_the_address_given_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument wins over PERDURE_DATABASE_URL, and that one over DATABASE_URL."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://third/x")
    assert "third" in resolve_address().redacted()
    monkeypatch.setenv("PERDURE_DATABASE_URL", "postgresql://second/x")
    assert resolve_address().source == "PERDURE_DATABASE_URL"
    assert "first" in resolve_address("postgresql://first/x").redacted()


@pytest.mark.parametrize(
    "address",
    ["", "mysql://u:s3cret@h/d", "sqlite:///x.db", "just-a-name", "host='x password=s3cret", "://u:s3cret@h"],
)
def test_what_is_no_postgresql_address_is_refused_without_repeating_it(address: str) -> None:
    """Another database, a bare name and a broken string are errors that do not repeat the secret."""
    with pytest.raises(DatabaseError) as refused:
        resolve_address(address)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "password",
    ["p@s3cret", "p/s3cret", "7/s3cret", "p s3cret", "%s3cret", "/s3cret", "p@s3cret/x?y"],
)
def test_a_password_that_was_not_encoded_is_not_shown_as_something_else(password: str) -> None:
    """What libpq would take for a host, a port or a database is refused, and told how to write."""
    with pytest.raises(DatabaseError) as refused:
        resolve_address(f"postgresql://ann:{password}@db.example/shop")
    assert "s3cret" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_an_encoded_password_and_unusual_hosts_are_taken() -> None:
    """Encoded characters, several hosts, a socket directory and an abstract socket are all right."""
    for address in (
        "postgresql://ann:p%40s3cret%2F@db.example/shop",
        "postgresql://ann@one:5432,two:5433/shop",
        "postgresql://ann@/shop?host=/var/run/postgresql",
        "host=@abstract user=ann dbname=a@b",
        "service=shop",
    ):
        assert resolve_address(address).conninfo == address


def test_without_any_address_an_embedded_server_is_joined(
    monkeypatch: pytest.MonkeyPatch, server_directory: Path
) -> None:
    """Nothing named means a server in the user's data directory."""
    monkeypatch.setenv("XDG_DATA_HOME", str(server_directory))
    found = resolve_address()
    try:
        assert found.embedded is not None
        assert found.embedded.directory == server_directory / "perdure" / "postgres"
        assert found.source.startswith("embedded")
    finally:
        found.close()
