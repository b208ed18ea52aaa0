"""Which database to use, and how to speak of it without its password."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from perdure.domain.errors import DatabaseError
from perdure.infrastructure.postgres.embedded import EmbeddedPostgres

_VARIABLES = ("PERDURE_DATABASE_URL", "DATABASE_URL")
_SECRETS = (
    "password",
    "sslpassword",
    "passfile",
    "sslkey",
    "oauth_client_secret",
    "scram_client_key",
    "scram_server_key",
)


@dataclass(frozen=True, slots=True)
class Address:
    """A database.

    Attributes:
        conninfo: A libpq connection string; it may hold a password, so it is not shown.
        source: Who named it: the caller, an environment variable, or the embedded server.
        embedded: The embedded server, if it is one.
    """

    conninfo: str = field(repr=False)
    source: str
    embedded: EmbeddedPostgres | None = None

    def redacted(self) -> str:
        """Return the connection string without secrets."""
        parameters = conninfo_to_dict(self.conninfo)
        shown = {name: value for name, value in parameters.items() if name not in _SECRETS}
        return make_conninfo("", **shown)

    def close(self) -> None:
        """Leave the embedded server, if it is one."""
        if self.embedded is not None:
            self.embedded.close()

    def __str__(self) -> str:
        return self.redacted()


def resolve_address(address: str | None = None) -> Address:
    """Find the database: the one given, `PERDURE_DATABASE_URL`, `DATABASE_URL`, or an embedded server.

    Args:
        address: A URL (`postgresql://`, `postgres://`, or with a driver as in `postgresql+psycopg://`) or a
            libpq connection string (`host=... dbname=...`).

    Raises:
        DatabaseError: What was named is no PostgreSQL address, or no server can be started.
    """
    if address is not None:
        return Address(_conninfo(address, "the address"), "given")
    for variable in _VARIABLES:
        named = os.environ.get(variable)
        if named:
            return Address(_conninfo(named, variable), variable)
    server = EmbeddedPostgres.start()
    return Address(server.conninfo, f"embedded ({server.binaries.source})", server)


def _conninfo(address: str, what: str) -> str:
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", address)
    if scheme is not None:
        name = scheme.group(1).partition("+")[0].lower()
        if name not in ("postgresql", "postgres"):
            raise DatabaseError(f"{what} is a {scheme.group(1)} URL: perdure keeps its log in PostgreSQL")
        address = f"postgresql{address[scheme.end() - 3 :]}"
    elif not re.search(r"\w+\s*=", address):
        raise DatabaseError(
            f"{what} is no PostgreSQL address: write postgresql://user@host/database, or host=... dbname=..."
        )
    try:
        parameters = conninfo_to_dict(address)
    except psycopg.ProgrammingError:
        # libpq's own message repeats the address, and with it the password.
        raise DatabaseError(f"{what} is no valid PostgreSQL connection string") from None
    if _has_password_in_the_wrong_place(parameters):
        raise DatabaseError(
            f"{what} is read otherwise than it was meant: percent-encode the special characters of its user "
            "and password (@ is %40, / is %2F)"
        )
    return address


def _has_password_in_the_wrong_place(parameters: Mapping[str, object]) -> bool:
    """Whether an unencoded @ or / in a password made libpq take a part of it for something that is shown."""
    host, port, database = (str(parameters.get(name) or "") for name in ("host", "port", "dbname"))
    is_host = "@" not in host[1:]
    is_port = re.fullmatch(r"[\d,]*", port) is not None
    is_database = "@" not in database or "user" in parameters
    return not (is_host and is_port and is_database)
