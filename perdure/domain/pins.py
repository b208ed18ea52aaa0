"""What is fixed when a run starts, and how to say that it is no longer there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import cast

from pydantic import JsonValue

from perdure.domain.tools import Policy, ToolSpec
from perdure.domain.value import Text, Value


class ToolPin(ToolSpec):
    """A tool as the run knows it.

    Attributes:
        policy: The policy when the run started, for the record: what counts for a call is what its start
            says, made stricter (never laxer) by what the tool says now.
        source: The tool source that serves it, for tools that are not functions of this program.
    """

    policy: Policy
    source: Text | None = None


class Pins(Value):
    """The versions that a run keeps from its start to its end."""

    model: Text
    prompt_version: Text
    prompt: Text
    tools: tuple[ToolPin, ...]

    def tool(self, name: str) -> ToolPin | None:
        """Return the pinned tool of this name."""
        return next((tool for tool in self.tools if tool.name == name), None)


def differences(pinned: Pins, offered: Pins, *, sources: Iterable[str] = ()) -> tuple[str, ...]:
    """Say what a run needs and does not find in what is offered; nothing if it can go on.

    The order of tools, tools that the run does not know, and descriptions do not matter: the run goes on
    with the descriptions it was started with. A tool's argument schema does.

    Args:
        pinned: What the run started with.
        offered: What is registered now.
        sources: Tool sources at hand; what they serve is taken from the pins, without asking them.
    """
    found: list[str] = []
    if pinned.model != offered.model:
        found.append(f"model: the run is pinned to {pinned.model!r}, at hand is {offered.model!r}")
    if pinned.prompt_version != offered.prompt_version:
        found.append(
            f"prompt version: the run is pinned to {pinned.prompt_version!r}, "
            f"at hand is {offered.prompt_version!r}"
        )
    elif pinned.prompt != offered.prompt:
        found.append(
            f"prompt: the text of version {pinned.prompt_version!r} was changed "
            "without giving it a new version"
        )
    at_hand = set(sources)
    for pin in pinned.tools:
        if pin.source is not None:
            if pin.source not in at_hand:
                found.append(f"tool {pin.name!r}: its source {pin.source!r} is not registered")
            continue
        now = offered.tool(pin.name)
        if now is None:
            found.append(f"tool {pin.name!r}: no longer registered")
        elif contract_of(pin.parameters) != contract_of(now.parameters):
            found.append(
                f"tool {pin.name!r}: its arguments changed: {_changes(pin.parameters, now.parameters)}"
            )
    return tuple(found)


_ANNOTATIONS = {"title", "description", "examples", "$comment"}
_NAMED_SCHEMAS = {
    "properties",
    "$defs",
    "definitions",
    "patternProperties",
    "dependentSchemas",
    "dependentRequired",
}
_SETS = {"required", "enum", "type"}
_DATA = {"const", "default", "enum"}


def contract_of(schema: JsonValue, *, named: bool = False) -> JsonValue:
    """Return a JSON Schema without what only informs, in one order, so that equal contracts are equal.

    Args:
        schema: A JSON Schema, or a part of one.
        named: Whether the keys are names chosen by the author (of properties, say) and not keywords.
    """
    if isinstance(schema, dict):
        return {
            key: contract_of(part) if named else _keyword(key, part)
            for key, part in schema.items()
            if named or key not in _ANNOTATIONS
        }
    if isinstance(schema, list):
        return [contract_of(part) for part in schema]
    return schema


def _keyword(key: str, part: JsonValue) -> JsonValue:
    meaning = part if key in _DATA else contract_of(part, named=key in _NAMED_SCHEMAS)
    return _sorted(meaning) if key in _SETS else meaning


def _sorted(part: JsonValue) -> JsonValue:
    if isinstance(part, list):
        return sorted(part, key=lambda item: json.dumps(item, sort_keys=True))
    return part


def _changes(was: Mapping[str, JsonValue], now: Mapping[str, JsonValue]) -> str:
    old, new = _arguments(was), _arguments(now)
    parts = [f"{name!r} is gone" for name in old if name not in new]
    parts += [f"{name!r} is new" for name in new if name not in old]
    parts += [
        f"{name!r} was {_brief(old[name])} and is {_brief(new[name])}"
        for name in old
        if name in new and contract_of(old[name]) != contract_of(new[name])
    ]
    before, after = _required(was), _required(now)
    parts += [f"{name!r} is now required" for name in sorted((after - before) & old.keys())]
    parts += [f"{name!r} is no longer required" for name in sorted((before - after) & new.keys())]
    return "; ".join(parts) or "a definition that they refer to is another"


def _arguments(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    properties = schema.get("properties")
    return cast("dict[str, JsonValue]", properties) if isinstance(properties, dict) else {}


def _required(schema: Mapping[str, JsonValue]) -> set[str]:
    required = schema.get("required")
    return {str(name) for name in required} if isinstance(required, list) else set()


def _brief(schema: JsonValue) -> str:
    text = json.dumps(contract_of(schema), sort_keys=True)
    return text if len(text) <= 80 else text[:77] + "..."
