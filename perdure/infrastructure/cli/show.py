"""`perdure show`."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer
from psycopg.conninfo import conninfo_to_dict
from rich.text import Text

from perdure.domain.evolution import fold
from perdure.infrastructure.cli.options import SCHEMA, DatabaseUrl, Json, RunId, Schema
from perdure.infrastructure.cli.output import print_json, print_view
from perdure.infrastructure.cli.recorded import recorded_runs
from perdure.infrastructure.cli.rendering import run_view
from perdure.infrastructure.cli.timeline import events_view
from perdure.infrastructure.cli.views import event_data, run_data
from perdure.infrastructure.postgres.address import resolve_address


def show(
    run_id: RunId,
    events: Annotated[bool, typer.Option("--events", help="Show all events, not the last ten.")] = False,
    database_url: DatabaseUrl = None,
    schema: Schema = SCHEMA,
    json: Json = False,
) -> None:
    """Show a run: where it stands, its conversation, its calls, and what is asked of a person."""
    with recorded_runs(database_url, schema) as runs:
        log = runs.events(run_id)
        lease = runs.lease(run_id)
    state = fold(run_id, log)
    if json:
        timeline = {"events": [event_data(event) for event in log]} if events else {}
        print_json({**run_data(state, lease), **timeline})
        return
    shown = log if events else log[-10:]
    title = "Events" if len(shown) == len(log) else f"Last {len(shown)} of {len(log)} events"
    page = run_view(state, lease, options=_options(database_url, schema))
    print_view(page, Text(), Text(title, style="bold"), events_view(shown))


def _options(database_url: str | None, schema: str) -> list[str]:
    options: list[str] = []
    if database_url is not None:
        options += ["--database-url", _shown(database_url)]
    if schema != SCHEMA:
        options += ["--schema", shlex.quote(schema)]
    return options


def _shown(database_url: str) -> str:
    address = resolve_address(database_url)
    redacted = address.redacted()
    # With its secrets left out the address does not work; whoever reads this knows the whole.
    is_whole = conninfo_to_dict(redacted) == conninfo_to_dict(address.conninfo)
    return shlex.quote(redacted) if is_whole else "URL"
