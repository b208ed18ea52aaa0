"""`perdure resolve`."""

from __future__ import annotations

import json as json_text
import math
from typing import Annotated, Any

import typer
from pydantic import JsonValue

from perdure.domain.errors import CallNotFound, InvalidInput
from perdure.domain.evolution import fold
from perdure.domain.state import RunState
from perdure.domain.tools import Resolution
from perdure.infrastructure.cli.deciding import report
from perdure.infrastructure.cli.harmless import shortened
from perdure.infrastructure.cli.options import SCHEMA, By, DatabaseUrl, Json, Reason, RunId, Schema
from perdure.infrastructure.cli.recorded import recorded_runs
from perdure.infrastructure.composition import AgentRuns


def resolve(
    run_id: RunId,
    reason: Reason,
    call: Annotated[
        str | None,
        typer.Argument(metavar="[CALL]", help="The call id, or an unambiguous beginning of it."),
    ] = None,
    succeeded: Annotated[
        str | None,
        typer.Option("--succeeded", metavar="RESULT", help="It happened; its result, as JSON or text."),
    ] = None,
    failed: Annotated[
        str | None, typer.Option("--failed", metavar="WHY", help="It did not happen, and why.")
    ] = None,
    rerun: Annotated[bool, typer.Option("--rerun", help="Run it again.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="The run can go on.")] = False,
    abandon: Annotated[bool, typer.Option("--abandon", help="Give the run up.")] = False,
    *,
    by: By,
    database_url: DatabaseUrl = None,
    schema: Schema = SCHEMA,
    json: Json = False,
) -> None:
    """Decide about a call in doubt; or, without CALL, about a run that waits for a person."""
    resolution = _resolution(succeeded, failed, rerun=rerun, resume=resume, abandon=abandon)
    # Looking first: to connect makes what is missing, and a mistyped schema must not come to be.
    with recorded_runs(database_url, schema) as recorded:
        call_id = _full_id(fold(run_id, recorded.events(run_id)), call) if call is not None else None
        with AgentRuns.connect(database_url, schema=schema) as runs:
            state = runs.resolve(run_id, call_id, resolution, by=by, reason=reason)
        lease = recorded.lease(run_id)
    what = f"call {call_id}" if call_id is not None else f"run {run_id}"
    told = f"Recorded: {by} decided {_told(resolution)} about {what} ({reason})."
    decision = {"call_id": call_id, "resolution": resolution.outcome, "by": by, "reason": reason}
    report(state, lease, told, decision, as_json=json)


def _resolution(
    succeeded: str | None, failed: str | None, *, rerun: bool, resume: bool, abandon: bool
) -> Resolution:
    given = [
        Resolution.succeeded(_result(succeeded)) if succeeded is not None else None,
        Resolution.failed(failed) if failed is not None else None,
        Resolution.rerun() if rerun else None,
        Resolution.resume() if resume else None,
        Resolution.abandon() if abandon else None,
    ]
    chosen = [resolution for resolution in given if resolution is not None]
    if len(chosen) != 1:
        raise typer.BadParameter(
            "say one of --succeeded RESULT, --failed WHY, --rerun, --resume or --abandon"
        )
    return chosen[0]


def _result(text: str) -> JsonValue:
    try:
        return json_text.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return text


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is too large")
    return number


def _told(resolution: Resolution) -> str:
    if resolution.outcome == "succeeded":
        return f"'succeeded' with result {shortened(json_text.dumps(resolution.result), 200)}"
    return f"{resolution.outcome!r}"


def _full_id(state: RunState, beginning: str) -> str:
    known = [*state.calls, *(call_id for call_id in state.decisions if call_id not in state.calls)]
    # Numbers count as a whole: call_1 is no beginning of call_10_1, which is another step's call.
    found = [call_id for call_id in known if call_id == beginning or call_id.startswith(f"{beginning}_")]
    if not found and beginning.count("_") >= len(("step", "position", "hash")):
        found = [call_id for call_id in known if call_id.startswith(beginning)]
    if beginning in found:
        return beginning
    if len(found) > 1:
        raise InvalidInput(f"{beginning!r} could be {' or '.join(found)}")
    if not found:
        there = ", ".join(state.calls) or "none"
        raise CallNotFound(
            f"run {state.run_id!r} has no call {beginning!r} in its pending step (there: {there})"
        )
    return found[0]
