"""Between perdure's messages and those of pydantic-ai, without losing what a provider wants back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_ai import messages as theirs

from perdure.domain import messages as ours

_PART: TypeAdapter[theirs.ModelResponsePart] = TypeAdapter(theirs.ModelResponsePart)
_RESPONSE = "perdure.response"
"""Kind of the opaque part that keeps what belongs to a response as a whole."""
_OF_RESPONSE = ("provider_name", "provider_details", "provider_response_id")


def to_provider(messages: Sequence[ours.Message], prompt: str) -> list[theirs.ModelMessage]:
    """Return the conversation as pydantic-ai has it.

    Args:
        messages: The conversation; each tool call has its result right behind it.
        prompt: The system prompt; an empty one is left out.
    """
    ids = ours.wire_ids(messages)
    converted: list[theirs.ModelMessage] = []
    for message in messages:
        if isinstance(message, ours.AssistantMessage):
            converted.append(_response(message, ids))
        else:
            converted.append(theirs.ModelRequest(parts=_request_parts(message, ids)))
    if prompt:
        for message in converted:
            if isinstance(message, theirs.ModelRequest):
                message.instructions = prompt
    return converted


def to_reply(response: theirs.ModelResponse) -> ours.Reply:
    """Return a response as perdure has it."""
    parts = [_part(part) for part in response.parts]
    whole = {name: value for name in _OF_RESPONSE if (value := getattr(response, name)) is not None}
    if parts and whole:
        plain = TypeAdapter(dict[str, Any]).dump_python(whole, mode="json")
        parts.append(ours.OpaquePart(opaque={"kind": _RESPONSE, **plain}))
    usage = response.usage
    return ours.Reply(
        parts=tuple(parts),
        usage=ours.Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens or None,
            cache_write_tokens=usage.cache_write_tokens or None,
        ),
        finish_reason=response.finish_reason,
        model=response.model_name,
    )


def _request_parts(
    message: ours.UserMessage | ours.ToolResultsMessage, ids: Mapping[str, str]
) -> list[theirs.ModelRequestPart]:
    if isinstance(message, ours.UserMessage):
        return [theirs.UserPromptPart(content=message.text)]
    return [
        theirs.ToolReturnPart(
            tool_name=result.name,
            content=result.content,
            tool_call_id=ids.get(result.call_id, result.call_id),
            outcome="success" if result.ok else "failed",
        )
        for result in message.results
    ]


def _response(message: ours.AssistantMessage, ids: Mapping[str, str]) -> theirs.ModelResponse:
    parts: list[theirs.ModelResponsePart] = []
    whole: dict[str, Any] = {}
    for part in message.parts:
        if isinstance(part, ours.OpaquePart):
            if part.opaque.get("kind") == _RESPONSE:
                whole = {name: value for name, value in part.opaque.items() if name in _OF_RESPONSE}
            else:
                parts.append(_PART.validate_python(part.opaque))
            continue
        kept = cast("dict[str, Any]", part.opaque or {})
        if isinstance(part, ours.TextPart):
            parts.append(_PART.validate_python({**kept, "part_kind": "text", "content": part.text}))
        elif isinstance(part, ours.ThinkingPart):
            parts.append(_PART.validate_python({**kept, "part_kind": "thinking", "content": part.text}))
        else:
            call = {
                "part_kind": "tool-call",
                "tool_name": part.name,
                "args": part.arguments,
                "tool_call_id": ids[part.call_id],
            }
            parts.append(_PART.validate_python({**kept, **call}))
    return theirs.ModelResponse(parts=parts, **whole)


def _part(part: theirs.ModelResponsePart) -> ours.ReplyPart:
    kept = cast("dict[str, Any]", _PART.dump_python(part, mode="json", exclude_none=True))
    kind = kept.get("part_kind")
    if isinstance(part, theirs.TextPart):
        return ours.TextPart(text=part.content, opaque=_rest(kept, "content"))
    if isinstance(part, theirs.ThinkingPart):
        return ours.ThinkingPart(text=part.content, opaque=_rest(kept, "content"))
    if isinstance(part, theirs.ToolCallPart) and kind == "tool-call":
        return ours.ToolRequest(
            provider_call_id=part.tool_call_id or None,
            name=part.tool_name,
            arguments=_arguments(part.args),
            opaque=_rest(kept, "tool_name", "args", "tool_call_id"),
        )
    return ours.OpaquePart(opaque=kept)


def _rest(kept: Mapping[str, Any], *known: str) -> dict[str, Any] | None:
    rest = {name: value for name, value in kept.items() if name not in (*known, "part_kind")}
    return rest or None


def _arguments(arguments: str | Mapping[str, Any] | None) -> str:
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
