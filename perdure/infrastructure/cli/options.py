"""Options that commands share, and what they lead to."""

from __future__ import annotations

from typing import Annotated

import typer

from perdure.infrastructure.composition import AgentRuns
from perdure.infrastructure.event_store.run_log import DEFAULT_SCHEMA

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
By = Annotated[str, typer.Option("--by", help="Who decides; recorded.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; recorded.")]
SCHEMA = DEFAULT_SCHEMA


def connect(database_url: str | None, schema: str) -> AgentRuns:
    """Connect for looking and deciding; nothing is driven, so no agents are needed."""
    return AgentRuns.connect(database_url, schema=schema)
