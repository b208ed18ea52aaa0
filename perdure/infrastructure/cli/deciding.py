"""`perdure resolve` and `perdure cancel`: what people decide."""

from __future__ import annotations

import getpass
import json as json_text
import socket
from typing import Annotated

import typer
from pydantic import JsonValue

from perdure.domain.errors import CallNotFound, InvalidInput
from perdure.domain.state import RunState
from perdure.domain.tools import Resolution
from perdure.infrastructure.cli.options import SCHEMA, By, DatabaseUrl, Json, Reason, RunId, Schema, connect
from perdure.infrastructure.cli.output import console, harmless, print_json
from perdure.infrastructure.cli.views import run_data


def this_person() -> str:
    """Return the user of this machine, as `user@host`."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


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
    by: By = this_person(),
    database_url: DatabaseUrl = None,
    schema: Schema = SCHEMA,
    json: Json = False,
) -> None:
    """Decide about a call in doubt; or, without CALL, about a run that waits for a person."""
    resolution = _resolution(succeeded, failed, rerun=rerun, resume=resume, abandon=abandon)
    with connect(database_url, schema) as runs:
        call_id = _full_id(runs.state(run_id), call) if call is not None else None
        state = runs.resolve(run_id, call_id, resolution, by=by, reason=reason)
    what = f"call {call_id}" if call_id is not None else f"run {run_id}"
    _report(state, f"Recorded: {by} decided {resolution.outcome!r} about {what}.", as_json=json)


def cancel(
    run_id: RunId,
    reason: Reason,
    by: By = this_person(),
    database_url: DatabaseUrl = None,
    schema: Schema = SCHEMA,
    json: Json = False,
) -> None:
    """Stop a run. Its worker settles what is in flight first; with no worker it stops at once."""
    with connect(database_url, schema) as runs:
        state = runs.cancel(run_id, by=by, reason=reason)
    _report(state, f"Recorded: {by} asked run {run_id} to stop.", as_json=json)


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
        return json_text.loads(text)
    except (ValueError, RecursionError):
        return text


def _full_id(state: RunState, beginning: str) -> str:
    found = [call_id for call_id in state.calls if call_id.startswith(beginning)]
    if beginning in found:
        return beginning
    if len(found) > 1:
        raise InvalidInput(f"{beginning!r} could be {' or '.join(found)}")
    if not found and not beginning.startswith("call_"):
        raise CallNotFound(f"run {state.run_id!r} has no call {beginning!r} in its pending step")
    return found[0] if found else beginning


def _report(state: RunState, recorded: str, *, as_json: bool) -> None:
    if as_json:
        print_json(run_data(state))
        return
    console.print(harmless(recorded), markup=False)
    if state.escalation is not None and state.escalation.calls:
        next_step = f"The run still waits for: {', '.join(state.escalation.calls)}."
    elif state.is_finished:
        next_step = f"The run is {state.status}."
    elif state.cancellation is not None:
        next_step = "Its worker settles what is in flight, and then stops it."
    else:
        next_step = f"The run is {state.status}: a worker goes on with it."
    console.print(harmless(next_step), markup=False)
