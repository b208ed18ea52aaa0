"""What a provider wants back word for word: kept as pydantic-ai writes it down, under a key of its own.

The log holds a part's text, name and arguments once, in perdure's own fields; here stands only what is left
of the part. What belongs to a response as a whole stands with its first part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from pydantic import JsonValue
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)

from perdure.domain.messages import Opaque

_KEY = "pydantic_ai"
"""Models of other makes leave other keys; what they keep is not for this one to read."""

_OWN = {
    "text": {"content", "part_kind"},
    "thinking": {"content", "part_kind"},
    "tool-call": {"tool_name", "args", "tool_call_id", "part_kind"},
}
"""Fields, by kind of part, that perdure has a place for."""

_OF_A_RESPONSE = (
    "model_name",
    "provider_name",
    "provider_url",
    "canonical_system",
    "provider_details",
    "provider_response_id",
    "finish_reason",
    "metadata",
)


def pack(response: ModelResponse) -> list[Opaque | None]:
    """Return what is to be kept of each part, as plain JSON."""
    # Texts and arguments are emptied first: they are kept elsewhere, and may hold what JSON cannot.
    bare = replace(response, parts=[_emptied(part) for part in response.parts])
    dumped = cast("dict[str, Any]", ModelMessagesTypeAdapter.dump_python([bare], mode="json")[0])
    of_response = {key: dumped[key] for key in _OF_A_RESPONSE if dumped.get(key)}
    kept: list[Opaque | None] = []
    for part in cast("list[dict[str, JsonValue]]", dumped["parts"]):
        own = _OWN.get(str(part["part_kind"]), set[str]())
        rest = {name: value for name, value in part.items() if name not in own and value is not None}
        kept.append(_opaque(rest, of_response if not kept else {}))
    return kept


def _opaque(part: Mapping[str, JsonValue], response: Mapping[str, JsonValue]) -> Opaque | None:
    held: dict[str, JsonValue] = {}
    if part:
        held["part"] = dict(part)
    if response:
        held["response"] = dict(response)
    return {_KEY: held} if held else None


def _emptied(part: ModelResponsePart) -> ModelResponsePart:
    if isinstance(part, TextPart | ThinkingPart):
        return replace(part, content="")
    if isinstance(part, ToolCallPart):
        return ToolCallPart(
            tool_name="", id=part.id, provider_name=part.provider_name, provider_details=part.provider_details
        )
    return part


def of_part(opaque: Opaque | None) -> dict[str, JsonValue]:
    """Return what was kept of a part, and nothing for a part that came from elsewhere."""
    return _held(opaque, "part")


def of_response(opaque: Opaque | None) -> dict[str, JsonValue]:
    """Return what was kept with this part of the response as a whole."""
    return _held(opaque, "response")


def _held(opaque: Opaque | None, name: str) -> dict[str, JsonValue]:
    held = (opaque or {}).get(_KEY)
    found = held.get(name) if isinstance(held, dict) else None
    return found if isinstance(found, dict) else {}
