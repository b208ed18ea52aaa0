"""From a response of pydantic-ai to the reply that a run records."""

from __future__ import annotations

import json

from pydantic_ai import messages as theirs
from pydantic_ai.usage import RequestUsage

from perdure.domain.errors import ModelError
from perdure.domain.messages import (
    Opaque,
    OpaquePart,
    Reply,
    ReplyPart,
    TextPart,
    ThinkingPart,
    ToolRequest,
    Usage,
)
from perdure.infrastructure.models import opaque

_MADE_UP = "pyd_ai_"
"""How ids begin that pydantic-ai makes for a provider that sends none."""


def reply(response: theirs.ModelResponse) -> Reply:
    """Return what a model answered.

    Raises:
        ModelError: The answer is not a whole one, and nobody would come back for the rest.
    """
    if response.state != "complete":
        raise ModelError(
            f"the provider left its answer {response.state}: background mode, and tools that the provider "
            "runs for more than one turn, are not supported",
            kind="permanent",
        )
    details = response.provider_details or {}
    parts = [_part(part, kept) for part, kept in zip(response.parts, opaque.pack(response), strict=True)]
    refusal = details.get("refusal")
    if not parts and isinstance(refusal, str):
        parts.append(TextPart(text=refusal))
    raw = details.get("finish_reason")
    return Reply(
        parts=tuple(parts),
        usage=_usage(response.usage),
        finish_reason=raw if isinstance(raw, str) else response.finish_reason,
        model=response.model_name,
    )


def _part(part: theirs.ModelResponsePart, kept: Opaque | None) -> ReplyPart:
    if isinstance(part, theirs.TextPart):
        return TextPart(text=part.content, opaque=kept)
    if isinstance(part, theirs.ThinkingPart):
        return ThinkingPart(text=part.content, opaque=kept)
    if isinstance(part, theirs.ToolCallPart):
        return ToolRequest(
            provider_call_id=None if part.tool_call_id.startswith(_MADE_UP) else part.tool_call_id,
            name=part.tool_name,
            arguments=part.args if isinstance(part.args, str) else json.dumps(part.args or {}),
            opaque=kept,
        )
    return OpaquePart(opaque=kept or {})


def _usage(usage: RequestUsage) -> Usage:
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens or None,
        cache_write_tokens=usage.cache_write_tokens or None,
    )
