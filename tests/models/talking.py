"""How the tests of this folder talk: to a model over the wire, step after step."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from perdure.application.ports.model import Model, ModelRequest
from perdure.domain.calls import call_id_for
from perdure.domain.messages import (
    AssistantMessage,
    Message,
    Part,
    Reply,
    ToolCallPart,
    ToolRequest,
    ToolResult,
    ToolResultsMessage,
    UserMessage,
)
from perdure.domain.tools import ToolSpec
from perdure.infrastructure.models.pydantic_ai import PydanticAIModel
from tests.support.provider_requests import model_for
from tests.support.provider_rules import Body, anthropic_faults, openai_faults, responses_faults
from tests.support.provider_server import KEY, ProviderServer

FAULTS = {"openai": openai_faults, "responses": responses_faults, "anthropic": anthropic_faults}
QUESTION = UserMessage(text="What is the weather?")
TOOLS = (
    ToolSpec(
        name="weather",
        description="Tell the weather.",
        parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    ),
)


def model(api: str, server: ProviderServer, **options: object) -> PydanticAIModel:
    key = options.pop("key", KEY)
    return PydanticAIModel(model_for(api, server, str(key)), **options)  # type: ignore[arg-type]


def request_for(
    messages: Sequence[Message] = (QUESTION,),
    *,
    prompt: str = "You help.",
    tools: Sequence[ToolSpec] = TOOLS,
    timeout: float = 30.0,
) -> ModelRequest:
    return ModelRequest(
        run_id="run-1", step=1, prompt=prompt, messages=messages, tools=tools, timeout=timeout
    )


def ask(
    asked: Model,
    messages: Sequence[Message] = (QUESTION,),
    *,
    prompt: str = "You help.",
    tools: Sequence[ToolSpec] = TOOLS,
    timeout: float = 30.0,
) -> Reply:
    return asyncio.run(asked.respond(request_for(messages, prompt=prompt, tools=tools, timeout=timeout)))


def recorded(reply: Reply, step: int) -> AssistantMessage:
    """Return a reply as a run records it: through the JSON of the log, with call ids of its own."""
    parts: list[Part] = []
    reply = Reply.model_validate_json(reply.model_dump_json())
    calls = 0
    for part in reply.parts:
        if isinstance(part, ToolRequest):
            calls += 1
            fields = {name: getattr(part, name) for name in ToolRequest.model_fields}
            parts.append(ToolCallPart(**fields, call_id=call_id_for("run-1", step, calls)))
        else:
            parts.append(part)
    return AssistantMessage(parts=tuple(parts))


def results(message: AssistantMessage, *contents: str, ok: bool = True) -> ToolResultsMessage:
    """Return one result for each call of a message, in order."""
    pairs = zip(message.tool_calls, contents, strict=True)
    return ToolResultsMessage(
        results=tuple(
            ToolResult(call_id=call.call_id, name=call.name, ok=ok, content=content)
            for call, content in pairs
        )
    )


def told(api: str, body: Body) -> dict[str, str]:
    """Return what a body tells the model: id on the wire -> result."""
    if api == "openai":
        return {m["tool_call_id"]: m["content"] for m in body["messages"] if m["role"] == "tool"}
    if api == "responses":
        items = body["input"]
        return {i["call_id"]: i["output"] for i in items if i.get("type") == "function_call_output"}
    blocks = [b for m in body["messages"] if m["role"] == "user" for b in m["content"]]
    return {b["tool_use_id"]: b["content"][0]["text"] for b in blocks if b["type"] == "tool_result"}


def asked_for(api: str, body: Body) -> dict[str, Body]:
    """Return the calls in a body: id on the wire -> arguments."""
    if api == "openai":
        calls = [c for m in body["messages"] for c in m.get("tool_calls", [])]
        return {c["id"]: json.loads(c["function"]["arguments"]) for c in calls}
    if api == "responses":
        items = [i for i in body["input"] if i.get("type") == "function_call"]
        return {i["call_id"]: json.loads(i["arguments"]) for i in items}
    blocks = [b for m in body["messages"] if m["role"] == "assistant" for b in m["content"]]
    return {b["id"]: b["input"] for b in blocks if b["type"] == "tool_use"}
