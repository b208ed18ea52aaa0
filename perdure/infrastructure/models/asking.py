"""From the conversation of a run to the messages of pydantic-ai."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition
from pydantic_core import from_json

from perdure.domain.errors import ModelError
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

_BEFORE_AN_OPENING = "(The assistant speaks first.)"
"""Stands for the user where a conversation begins with an answer, which not every provider accepts."""

_ID_FOR_ALL = re.compile(r"[a-zA-Z0-9_-]{1,40}")
"""Ids of calls that every provider accepts, whoever made them."""


def conversation(messages: Sequence[Message], prompt: str, system: str) -> list[ModelMessage]:
    """Render a conversation so that providers accept it; the prompt goes out as instructions.

    Args:
        messages: The conversation.
        prompt: The system prompt.
        system: The provider that it goes to, as pydantic-ai names it.

    Raises:
        ModelError: What was kept for the provider cannot be read by the version that is installed.
    """
    ids = _ids(messages, system)
    instructions = prompt if prompt.strip() else None
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
        rendered.append(ModelRequest(parts=parts, instructions=instructions))
    if rendered and isinstance(rendered[0], ModelResponse):
        opening = UserPromptPart(content=_BEFORE_AN_OPENING)
        rendered.insert(0, ModelRequest(parts=[opening], instructions=instructions))
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


def _ids(messages: Sequence[Message], system: str) -> dict[str, str]:
    ids = wire_ids(messages)
    for message in messages:
        # A provider takes its own ids back, of whatever form; another one may refuse them.
        if isinstance(message, AssistantMessage) and _of_response(message).get("provider_name") != system:
            for call in message.tool_calls:
                if not _ID_FOR_ALL.fullmatch(ids[call.call_id]):
                    ids[call.call_id] = call.call_id
    return ids


def _of_response(message: AssistantMessage) -> dict[str, object]:
    found: dict[str, object] = {}
    for part in message.parts:
        found |= opaque.of_response(part.opaque)
    return found


def _response(message: AssistantMessage, ids: Mapping[str, str]) -> list[ModelMessage]:
    parts = [rendered for part in message.parts if (rendered := _part(part, ids))]
    while parts and parts[-1]["part_kind"] == "thinking":
        parts.pop()  # thinking that led to nothing is refused
    if not parts:
        return []
    try:
        return ModelMessagesTypeAdapter.validate_python(
            [{**_of_response(message), "kind": "response", "parts": parts}]
        )
    except ValidationError as error:
        faults = {
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors(include_input=False)
        }
        raise ModelError(
            "what an answer holds for its provider cannot be read by the pydantic-ai that is installed, "
            f"which may be older than the one that wrote it: {'; '.join(sorted(faults))}",
            kind="permanent",
        ) from None


def _part(part: Part, ids: Mapping[str, str]) -> dict[str, object] | None:
    kept = opaque.of_part(part.opaque)
    match part:
        case TextPart():
            # A provider may write blank text and yet refuse to be shown it; signed text it wants back.
            wanted = part.text.strip() or _is_signed(kept)
            return {**kept, "part_kind": "text", "content": part.text} if wanted else None
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


def _is_signed(kept: Mapping[str, object]) -> bool:
    details = kept.get("provider_details")
    return isinstance(details, dict) and "thought_signature" in details


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
