"""Printing: readable for people, pure for programs, harmless for terminals."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

# A line that is cut for a terminal that is not there breaks whoever reads the output line by line.
console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 100_000)


def print_json(data: object) -> None:
    """Print JSON on standard output; times as ISO 8601."""
    sys.stdout.write(json.dumps(data, indent=2, default=_plain) + "\n")


def harmless(text: object) -> str:
    """Return text of models, tools and people without what a terminal would obey.

    Control characters become visible, as their escapes, so that nothing is hidden and nothing is carried out.
    """
    return "".join(_visible(character) for character in str(text))


def plain(text: object) -> Text:
    """Return text for a table cell: shown as it is, markup included."""
    return Text(harmless(text))


def shortened(text: str, width: int) -> str:
    """Return one line of text, cut to a width."""
    line = harmless(text).replace("\n", " ")
    return line if len(line) <= width else line[: width - 3] + "..."


def _visible(character: str) -> str:
    if character in "\n\t" or character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def _plain(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)
