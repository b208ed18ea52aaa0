"""Text that others wrote, made harmless for a terminal; and text of ours, without secrets."""

from __future__ import annotations

import re
import unicodedata

_UNUSUAL = re.compile(r"[^\n\t\x20-\x7e]")
_JOINERS = "\u200c\u200d"
_PASSWORD_IN_URL = re.compile(r"(://[^\s:/@]*:)\S*@")
_PASSWORD_AS_PARAMETER = re.compile(
    r"\b((?:ssl)?password\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^\s&]+)", re.IGNORECASE
)


def harmless(text: object) -> str:
    """Return text of models, tools and people without what a terminal would obey.

    Control characters, and those that hide or reorder what stands beside them, are shown as their escapes.
    Letters of all scripts, their joiners, and spaces stay as they are.
    """
    return _UNUSUAL.sub(lambda found: _visible(found[0]), str(text))


def one_line(text: object) -> str:
    """Return harmless text on one line."""
    return " ".join(line.strip() for line in harmless(text).splitlines())


def shortened(text: object, width: int) -> str:
    """Return one line of harmless text, cut to a width."""
    line = one_line(text)
    return line if len(line) <= width else line[: width - 3] + "..."


def indented(text: object, by: int) -> str:
    """Return harmless text whose further lines cannot be taken for lines of ours."""
    return ("\n" + " " * by).join(harmless(text).splitlines())


def without_secrets(text: str) -> str:
    """Return text without the passwords of the addresses in it, wherever they came from."""
    text = _PASSWORD_IN_URL.sub(r"\1***@", text)
    return _PASSWORD_AS_PARAMETER.sub(r"\1***", text)


def _visible(character: str) -> str:
    is_space = unicodedata.category(character) == "Zs"
    if character.isprintable() or is_space or character in _JOINERS:
        return character
    return character.encode("unicode_escape").decode("ascii")
