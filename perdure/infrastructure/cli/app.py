"""The commands, and how what goes wrong is told.

What is refused or fails is one line on standard error, with `--json` too: `perdure: <what>`.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import sys
import traceback
from dataclasses import dataclass
from typing import Annotated, Any, cast

import typer

from perdure.domain.errors import PerdureError
from perdure.infrastructure.cli import cancel, doctor, replay, resolve, runs, show, working
from perdure.infrastructure.cli.harmless import harmless, one_line, without_secrets
from perdure.infrastructure.cli.output import be_able_to_print_everything

app = typer.Typer(
    name="perdure",
    help="LLM agent runs that survive restarts without repeating side effects. "
    "Exit codes: 0 fine, 1 refused or failed, 2 wrong usage, 130 stopped by Ctrl-C.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    working.demo,
    working.worker,
    runs.runs,
    show.show,
    replay.replay,
    resolve.resolve,
    cancel.cancel,
    doctor.doctor,
):
    app.command()(command)

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Typer exports only this child of it, and keeps the parser's own module to itself."""


@dataclass(slots=True)
class _Session:
    debug: bool = False


_session = _Session()


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"perdure {importlib.metadata.version('perdure')}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[  # noqa: ARG001 - typer acts on it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Set up what all commands share."""
    _session.debug = debug or bool(os.environ.get("PERDURE_DEBUG"))
    if not _session.debug:
        # Connection pools report each failed attempt; the error at the end says it once.
        logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)


def run() -> None:
    """Run the command line: 0 fine, 1 refused or failed, 2 wrong usage, 130 Ctrl-C."""
    be_able_to_print_everything()
    sys.exit(_exit_code())


def _exit_code() -> int:
    try:
        return app(standalone_mode=False) or 0
    except _UsageError as error:
        return _misused(error)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except PerdureError as error:
        return _failed(str(error), error)
    except Exception as error:  # noqa: BLE001 - a traceback helps only those who ask for it
        return _failed(f"{type(error).__name__}: {error} (perdure --debug ... shows where)", error)


def _misused(error: Exception) -> int:
    usage = cast("Any", error)
    # What was typed is repeated, and an address typed in the wrong place is still an address.
    usage.message = without_secrets(usage.message)
    usage.show()
    return usage.exit_code


def _failed(message: str, error: BaseException) -> int:
    if _session.debug:
        sys.stderr.write(harmless(without_secrets("".join(traceback.format_exception(error)))))
    else:
        sys.stderr.write(f"perdure: {one_line(without_secrets(message))}\n")
    return 1
