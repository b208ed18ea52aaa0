"""Options that commands share."""

from __future__ import annotations

import getpass
import socket
from typing import Annotated

import typer

from perdure.domain.errors import InvalidInput
from perdure.infrastructure.event_store.run_log import DEFAULT_SCHEMA


def this_person() -> str:
    """Return the user of this machine, as `user@host`.

    Raises:
        InvalidInput: The user has no name, as in some containers.
    """
    try:
        user = getpass.getuser()
    except (KeyError, ImportError, OSError) as error:
        raise InvalidInput("say who decides with --by: the user of this process has no name") from error
    return f"{user}@{socket.gethostname()}"


DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        help="PostgreSQL URL or libpq string. Without it: PERDURE_DATABASE_URL, DATABASE_URL, or an "
        "embedded server.",
        show_default=False,
    ),
]
Schema = Annotated[
    str, typer.Option("--schema", envvar="PERDURE_SCHEMA", help="Database schema of perdure's tables.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run id.")]
By = Annotated[
    str,
    typer.Option(
        "--by", default_factory=this_person, show_default="user@host", help="Who decides; recorded."
    ),
]
Reason = Annotated[str, typer.Option("--reason", help="Why; recorded.")]
SCHEMA = DEFAULT_SCHEMA
