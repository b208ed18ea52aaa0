"""The commands, and how what goes wrong is told."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import sys
from typing import Annotated

import typer

from perdure.domain.errors import PerdureError
from perdure.infrastructure.cli import deciding, diagnosing, looking, working
from perdure.infrastructure.cli.output import harmless

app = typer.Typer(
    name="perdure",
    help="LLM agent runs that survive restarts without repeating side effects.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    working.demo,
    working.worker,
    looking.runs,
    looking.show,
    looking.replay,
    deciding.resolve,
    deciding.cancel,
    diagnosing.doctor,
):
    app.command()(command)


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
    if debug:
        os.environ["PERDURE_DEBUG"] = "1"
    else:
        # Connection pools report each failed attempt; the error at the end says it once.
        logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)


def run() -> None:
    """Run the command line: 0 fine, 1 refused or failed, 2 wrong usage, 130 Ctrl-C."""
    try:
        app()
    except PerdureError as error:
        _fail(str(error), error)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python would complain about it once more at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:  # noqa: BLE001 - a traceback helps only those who ask for it
        _fail(f"{type(error).__name__}: {error} (--debug shows where)", error)


def _fail(message: str, error: BaseException) -> None:
    if os.environ.get("PERDURE_DEBUG"):
        raise error
    sys.stderr.write(f"perdure: {harmless(message)}\n")
    sys.exit(1)
