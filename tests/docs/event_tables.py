"""What the reference must say of each event, taken from the events themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from perdure.domain.events import EVENTS, Event

COMMON = tuple(Event.model_fields)
Row = tuple[str, str]
"""Name of a field, and its type in words."""


def expected() -> dict[str, list[Row]]:
    """Return the rows for each event, and for each value that stands in one."""
    tables: dict[str, list[Row]] = {"Event": _rows(Event.model_json_schema(mode="serialization"), ())}
    values: dict[str, list[Row]] = {}
    for event_type in EVENTS:
        schema = event_type.model_json_schema(mode="serialization")
        tables[event_type.__name__] = _rows(schema, COMMON)
        definitions = schema.get("$defs", {})
        for name, definition in definitions.items():
            if "properties" in definition:
                values[name] = _rows({**definition, "$defs": definitions}, ())
    return {**tables, **values}


def on_page(text: str) -> dict[str, list[Row]]:
    """Return the rows of each table of a page, by the heading above it."""
    found: dict[str, list[Row]] = {}
    heading = ""
    for line in text.splitlines():
        if title := re.match(r"#+ `?(\w+)`?", line):
            heading = title[1]
            found.setdefault(heading, [])
        elif row := re.match(r"\| `(\w+)` \| (.*?) \| .+ \|$", line):
            found[heading].append((row[1], row[2].replace(r"\|", "|")))
    return found


def shown(rows: list[Row]) -> str:
    """Return rows in the form in which they stand on a page, without their meaning."""
    return "\n".join(f"| `{name}` | {kind.replace('|', chr(92) + '|')} | |" for name, kind in rows)


def _rows(schema: Mapping[str, Any], without: tuple[str, ...]) -> list[Row]:
    return [(name, _kind(part, schema)) for name, part in schema["properties"].items() if name not in without]


def _kind(part: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if "anyOf" in part:
        kinds = [_kind(option, schema) for option in part["anyOf"] if option.get("type") != "null"]
        optional = ", optional" if any(option.get("type") == "null" for option in part["anyOf"]) else ""
        return " or ".join(kinds) + optional
    if "oneOf" in part:
        return " or ".join(_kind(option, schema) for option in part["oneOf"])
    if "$ref" in part:
        return _named(part["$ref"].rsplit("/", 1)[-1], schema)
    if "const" in part:
        return f"`{part['const']}`"
    if "enum" in part:
        return " | ".join(f"`{word}`" for word in part["enum"])
    return _plain(part, schema)


def _named(name: str, schema: Mapping[str, Any]) -> str:
    definition = schema.get("$defs", {}).get(name, {})
    return _kind(definition, schema) if "enum" in definition else ("JSON" if name == "JsonValue" else name)


def _plain(part: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    formats = {"date-time": "time", "duration": "duration"}
    words = {"string": "text", "integer": "integer", "number": "number", "boolean": "yes or no"}
    kind = part.get("type")
    if kind == "array":
        return f"list of {_kind(part['items'], schema)}"
    if kind == "object":
        values = part.get("additionalProperties")
        plain = isinstance(values, dict) and values.get("type") == "string"
        return "map of text" if plain else "JSON object"
    return formats.get(part.get("format", ""), words.get(str(kind), "JSON"))
