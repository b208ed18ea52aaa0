"""Printing: readable for people, pure for programs."""

from __future__ import annotations

import io
import json
import os
import sys
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from perdure.infrastructure.cli.harmless import one_line


def print_view(*views: RenderableType) -> None:
    """Print for people: colours on a terminal only, and whole lines where there is none."""
    on_terminal = sys.stdout is not None and sys.stdout.isatty()  # pyright: ignore[reportUnnecessaryComparison]
    # A line that is cut for a terminal that is not there breaks whoever reads the output line by line.
    console = Console(highlight=False, markup=False, emoji=False, width=None if on_terminal else 100_000)
    with console.capture() as captured:
        for view in views:
            console.print(view, soft_wrap=True)
    text = captured.get()
    _write(text if on_terminal else "".join(f"{line.rstrip()}\n" for line in text.splitlines()))


def print_json(data: object) -> None:
    """Print JSON on standard output; times as ISO 8601 in UTC."""
    _write(json.dumps(data, indent=2, default=_plain) + "\n")


def moment(at: datetime) -> str:
    """Return a time for people, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def cell(text: object) -> Text:
    """Return text for a table cell: on one line, shown as it is, markup included."""
    return Text(one_line(text))


def table(*titles: str, show_header: bool = True) -> Table:
    """Return a table without lines; its last column takes what is long."""
    made = Table(box=None, pad_edge=False, show_header=show_header)
    for title in titles[:-1]:
        made.add_column(title, no_wrap=True)
    made.add_column(titles[-1], overflow="fold")
    return made


def be_able_to_print_everything() -> None:
    """Show characters that the output's encoding does not have as escapes, instead of failing half-way."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _write(text: str) -> None:
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - it was closed by the caller
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has seen enough. What the command did stays done, and so does its exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return str(value)
