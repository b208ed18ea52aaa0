"""`perdure cancel`."""

from __future__ import annotations

from perdure.domain.state import Cancellation
from perdure.infrastructure.cli.deciding import report
from perdure.infrastructure.cli.options import SCHEMA, By, DatabaseUrl, Json, Reason, RunId, Schema
from perdure.infrastructure.cli.recorded import recorded_runs
from perdure.infrastructure.composition import AgentRuns


def cancel(
    run_id: RunId,
    reason: Reason,
    *,
    by: By,
    database_url: DatabaseUrl = None,
    schema: Schema = SCHEMA,
    json: Json = False,
) -> None:
    """Stop a run. Its worker settles what is in flight first; with no worker it stops at once."""
    # Looking first: to connect makes what is missing, and a mistyped schema must not come to be.
    with recorded_runs(database_url, schema) as recorded:
        recorded.events(run_id)
        with AgentRuns.connect(database_url, schema=schema) as runs:
            state = runs.cancel(run_id, by=by, reason=reason)
        lease = recorded.lease(run_id)
    before = state.cancellation
    if before is not None and before != Cancellation(by, reason):
        told = f"Nothing was recorded: {before.by} asked run {run_id} to stop before ({before.reason})."
        report(state, lease, told, None, as_json=json)
    else:
        told = f"Recorded: {by} asked run {run_id} to stop ({reason})."
        report(state, lease, told, {"by": by, "reason": reason}, as_json=json)
