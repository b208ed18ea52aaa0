"""From the conversation of a run to the messages of pydantic-ai."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition
from pydantic_core import from_json

from perdure.domain.messages import (
    AssistantMessage,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResult,
    UserMessage,
    wire_ids,
)
from perdure.domain.tools import ToolSpec
from perdure.infrastructure.models import opaque


def conversation(messages: Sequence[Message], prompt: str) -> list[ModelMessage]:
    """Render a conversation so that providers accept it; the prompt goes out as instructions."""
    ids = wire_ids(messages)
    rendered: list[ModelMessage] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            rendered.extend(_response(message, ids))
            continue
        parts: list[UserPromptPart | ToolReturnPart[Any]]
        if isinstance(message, UserMessage):
            parts = [UserPromptPart(content=_visible(message.text))]
        else:
            parts = [_result(result, ids) for result in message.results]
        rendered.append(ModelRequest(parts=parts, instructions=prompt if prompt.strip() else None))
    return rendered


def parameters(tools: Sequence[ToolSpec]) -> ModelRequestParameters:
    """Render the tools that the model may ask for."""
    # Not strict: that would have the provider rewrite schemas that the run is pinned to.
    definitions = [
        ToolDefinition(
            name=tool.name, description=tool.description, parameters_json_schema=tool.parameters, strict=False
        )
        for tool in tools
    ]
    return ModelRequestParameters(function_tools=definitions)


def _response(message: AssistantMessage, ids: Mapping[str, str]) -> list[ModelMessage]:
    parts = [rendered for part in message.parts if (rendered := _part(part, ids))]
    if all(part["part_kind"] == "thinking" for part in parts):
        return []  # thinking that led to nothing is refused
    whole: dict[str, object] = {}
    for part in message.parts:
        whole |= opaque.of_response(part.opaque)
    return ModelMessagesTypeAdapter.validate_python([{**whole, "kind": "response", "parts": parts}])


def _part(part: Part, ids: Mapping[str, str]) -> dict[str, object] | None:
    kept = opaque.of_part(part.opaque)
    match part:
        case TextPart():
            # A provider may write blank text and yet refuse to be shown it.
            return {**kept, "part_kind": "text", "content": part.text} if part.text.strip() else None
        case ThinkingPart():
            return {**kept, "part_kind": "thinking", "content": part.text}
        case ToolCallPart():
            return {
                **kept,
                "part_kind": "tool-call",
                "tool_name": _tool_name(part.name),
                "args": _arguments(part.arguments),
                "tool_call_id": ids[part.call_id],
            }
        case _:
            return {**kept} or None


def _result(result: ToolResult, ids: Mapping[str, str]) -> ToolReturnPart[Any]:
    return ToolReturnPart(
        tool_name=_tool_name(result.name),
        content=_visible(result.content),
        tool_call_id=ids[result.call_id],
        outcome="success" if result.ok else "failed",
    )


def _visible(text: str) -> str:
    # Blank text is refused by some providers; its JSON form says the same and can be seen.
    return text if text.strip() else json.dumps(text)


def _tool_name(name: str) -> str:
    # A name that a model made up goes back to it, and must have the form that providers demand.
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "_"


def _arguments(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        arguments: object = from_json(text, allow_inf_nan=False)
        json.dumps(arguments, allow_nan=False)  # 1e999 is read as an infinity, which JSON has no word for
    except ValueError:
        arguments = None
    # What is no JSON object cannot be sent as one: it goes out as text, under the key that pydantic-ai uses.
    return arguments if isinstance(arguments, dict) else {"INVALID_JSON": text}  # pyright: ignore[reportUnknownVariableType]
