"""The conversation of a run, in a form that belongs to no provider."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from perdure.domain.value import JsonObject, Text, Value

Opaque = JsonObject
"""What a provider wants back word for word (signatures, item ids, details); nobody else reads it."""


class TextPart(Value):
    """Text that the model wrote."""

    kind: Literal["text"] = "text"
    text: Text
    opaque: Opaque | None = None


class ThinkingPart(Value):
    """What the model thought aloud, where the provider shows it."""

    kind: Literal["thinking"] = "thinking"
    text: Text
    opaque: Opaque | None = None


class ToolRequest(Value):
    """A tool call as a model asks for it, before the run gives it an id.

    Attributes:
        provider_call_id: Theirs: it may be empty, and it may come again in another step.
        name: The tool's name as the model wrote it.
        arguments: JSON text as the model wrote it; it may not be valid.
    """

    kind: Literal["tool_call"] = "tool_call"
    provider_call_id: Text | None = None
    name: Text
    arguments: Text
    opaque: Opaque | None = None


class ToolCallPart(ToolRequest):
    """A tool call of a run; `call_id` is unique in the run and stable over restarts."""

    call_id: str


class OpaquePart(Value):
    """A part that only its provider understands, kept word for word and sent back in its place."""

    kind: Literal["opaque"] = "opaque"
    opaque: Opaque


Part = Annotated[TextPart | ThinkingPart | ToolCallPart | OpaquePart, Field(discriminator="kind")]
ReplyPart = Annotated[TextPart | ThinkingPart | ToolRequest | OpaquePart, Field(discriminator="kind")]


class UserMessage(Value):
    """What a person, or the calling program, told the agent."""

    kind: Literal["user"] = "user"
    text: Text


class AssistantMessage(Value):
    """One response of the model."""

    kind: Literal["assistant"] = "assistant"
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls asked for, in the model's order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart))


class ToolResult(Value):
    """What the model is told about one call.

    Attributes:
        ok: False for a failed call; the content then says why.
        content: Text, or JSON text.
    """

    call_id: str
    name: Text
    ok: bool
    content: Text


class ToolResultsMessage(Value):
    """The results of all calls of one step, in the order in which they were asked for."""

    kind: Literal["tool_results"] = "tool_results"
    results: tuple[ToolResult, ...]


InputMessage = Annotated[UserMessage | AssistantMessage, Field(discriminator="kind")]
"""What a run may be started with: a question, or a conversation so far."""

Message = UserMessage | AssistantMessage | ToolResultsMessage


class Usage(Value):
    """Tokens that one model call took; `input_tokens` includes those read from or put in a cache."""

    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    cache_read_tokens: int | None = Field(default=None, ge=0)
    cache_write_tokens: int | None = Field(default=None, ge=0)

    @property
    def tokens(self) -> int:
        """What counts against the budget: input and output."""
        return self.input_tokens + self.output_tokens


class Reply(Value):
    """What a model answered to one request.

    Attributes:
        finish_reason: Why it stopped, in the provider's words or close to them.
        model: The model's name as the provider gave it.
    """

    parts: tuple[ReplyPart, ...]
    usage: Usage = Usage()
    finish_reason: Text | None = None
    model: Text | None = None


_FORM_OF_OURS = re.compile(r"call_\d+_\d+_[0-9a-f]{8}")


def wire_ids(messages: Iterable[Message]) -> dict[str, str]:
    """Say under which id each call goes to a provider: theirs if it is usable, else ours.

    Theirs is usable when it is not empty, no earlier call of the run had it, and it does not have the form
    of ours (a later call may need that one); calls are told apart by `call_id` alone. The answer for a call
    never changes as the conversation grows.

    Returns:
        `call_id` -> id on the wire; both the call and its result use it.
    """
    ids: dict[str, str] = {}
    taken: set[str] = set()
    for message in messages:
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                theirs = call.provider_call_id
                usable = theirs and theirs not in taken and not _FORM_OF_OURS.fullmatch(theirs)
                ids[call.call_id] = theirs if theirs and usable else call.call_id
                taken.add(ids[call.call_id])
    return ids
