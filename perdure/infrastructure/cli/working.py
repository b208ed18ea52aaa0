"""`perdure worker` and `perdure demo`: they run things."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from typing import Annotated

import typer

from perdure.application.agent_runs import AgentRuns
from perdure.application.worker import Worker
from perdure.domain.errors import ConfigurationError
from perdure.infrastructure.cli.options import DatabaseUrl, Json


def worker(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:OBJECT", help="Connected runs, or a function that returns them.")
    ],
    concurrency: Annotated[int, typer.Option(min=1, help="Runs at a time, at most.")] = 64,
    poll_interval: Annotated[float, typer.Option(help="Seconds between looks for runs.")] = 1.0,
    grace: Annotated[float, typer.Option(help="Seconds for running tools when asked to stop.")] = 30.0,
) -> None:
    """Drive runs until SIGTERM or Ctrl-C; a second signal does not wait for running tools."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    runs = _load(target)
    with runs:
        Worker(runs, concurrency=concurrency, poll_interval=poll_interval, grace=grace).run()
    # A sync tool that outlived its grace sits in a thread that nobody can stop: do not wait for it.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def demo(database_url: DatabaseUrl = None, json: Json = False) -> None:
    """Kill workers at every kind of place, finish their runs, and compare with undisturbed ones."""
    # Only now: other commands need none of it.
    from perdure.infrastructure.cli.demo import run_demo

    raise typer.Exit(run_demo(json_output=json, database_url=database_url))


def _load(target: str) -> AgentRuns:
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise ConfigurationError(f"{target!r} does not name an object: write module:object, my_app:runs")
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as `python -m` does
    try:
        found: object = getattr(importlib.import_module(module_name), name)
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"{target!r} cannot be loaded: {error}") from error
    except AttributeError as error:
        raise ConfigurationError(f"module {module_name!r} has no {name!r}") from error
    if callable(found):
        found = found()
    if not isinstance(found, AgentRuns):
        raise ConfigurationError(
            f"{target!r} is {type(found).__name__}, not AgentRuns: AgentRuns.connect(..., agents=[...])"
        )
    return found
