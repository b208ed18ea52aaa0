"""The command line as the parser sees it."""

from __future__ import annotations

from typing import Any, cast

from typer.main import get_command

from perdure.infrastructure.cli.app import app

CLI = cast("Any", get_command(app))
"""The group of all commands."""


def parameters() -> dict[str, list[str]]:
    """Return the arguments and options of each command, as they are typed; `--help` aside."""
    return {name: [_typed(each) for each in command.params] for name, command in CLI.commands.items()}


def _typed(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.make_metavar(None) if not parameter.metavar else parameter.metavar)
    return str(parameter.opts[0])
