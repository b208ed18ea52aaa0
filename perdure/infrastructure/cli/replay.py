"""`perdure replay`: it reads, and touches no tool, model or lease."""

from __future__ import annotations

from typing import Annotated

import typer

from perdure.domain.errors import RunNotFound
from perdure.domain.evolution import fold
from perdure.infrastructure.cli.options import SCHEMA, DatabaseUrl, Json, RunId, Schema
from perdure.infrastructure.cli.output import print_json, print_view
from perdure.infrastructure.cli.recorded import recorded_runs
from perdure.infrastructure.cli.rendering import run_view
from perdure.infrastructure.cli.timeline import versions, versions_view
from perdure.infrastructure.cli.views import event_data, run_data


def replay(
    run_id: RunId,
    at: Annotated[int | None, typer.Option("--at", min=1, help="The version: events to fold.")] = None,
    database_url: DatabaseUrl = None,
    schema: Schema = SCHEMA,
    json: Json = False,
) -> None:
    """Show a run as it was at a version; without one, what each event changed."""
    with recorded_runs(database_url, schema) as runs:
        log = runs.events(run_id, upto=at)
    if at is None:
        steps = versions(run_id, log)
        if json:
            print_json([{**event_data(event), "status": after.status.value} for event, _, after in steps])
        else:
            print_view(versions_view(steps))
        return
    state = fold(run_id, log)
    if state.version < at:
        raise RunNotFound(f"run {run_id!r} has {state.version} versions: there is no version {at}")
    print_json(run_data(state)) if json else print_view(run_view(state))
