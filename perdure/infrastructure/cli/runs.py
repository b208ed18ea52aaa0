"""`perdure runs`."""

from __future__ import annotations

from typing import Annotated

import typer

from perdure.domain.evolution import fold
from perdure.infrastructure.cli.options import SCHEMA, DatabaseUrl, Json, Schema
from perdure.infrastructure.cli.output import cell, print_json, print_view, table
from perdure.infrastructure.cli.recorded import recorded_runs
from perdure.infrastructure.cli.views import summary_data


def runs(
    database_url: DatabaseUrl = None,
    schema: Schema = SCHEMA,
    json: Json = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Runs at most, by id.")] = 100,
    after: Annotated[str, typer.Option("--after", help="Only runs behind this id.")] = "",
) -> None:
    """List runs: status, owner, age, steps and tokens."""
    with recorded_runs(database_url, schema) as recorded:
        ids = recorded.run_ids(after=after, limit=limit)
        states = [fold(run_id, recorded.events(run_id)) for run_id in ids]
        leases = recorded.leases()
        now = recorded.now()
    if json:
        print_json([summary_data(state, leases.get(state.run_id)) for state in states])
        return
    rows = table("run", "agent", "tenant", "status", "steps", "tokens", "age", "owner")
    for column in rows.columns:
        column.no_wrap, column.overflow = False, "fold"
    for state in states:
        lease = leases.get(state.run_id)
        owner = "" if lease is None else f"{lease.owner}{'' if lease.is_live else ' (expired)'}"
        age = str(now - state.started_at).split(".")[0] if state.started_at else ""
        cells = (state.run_id, state.agent, state.tenant or "", state.status.value)
        rows.add_row(*map(cell, (*cells, state.steps, state.tokens, age, owner)))
    print_view(rows)
