"""What the local server can answer, and how each provider would word it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A tool call in an answer; arguments are an object, or text that goes out as it stands (OpenAI)."""

    name: str
    arguments: Mapping[str, Any] | str
    id: str = ""


@dataclass(frozen=True)
class Thought:
    """Thinking with its signature; without text it is redacted thinking (Anthropic)."""

    signature: str
    text: str = ""


@dataclass(frozen=True)
class Says:
    """An answer.

    Attributes:
        finish: The finish reason, in the provider's word; by default what fits the answer.
    """

    text: str = ""
    calls: Sequence[Call] = ()
    thoughts: Sequence[Thought] = ()
    finish: str | None = None
    refusal: str | None = None
    tokens: tuple[int, int] = (11, 7)
    cached: int = 0


@dataclass(frozen=True)
class Fails:
    """An error in the provider's format."""

    status: int
    message: str = "it failed"
    headers: Mapping[str, str] = field(default_factory=dict)
    code: str | None = None

    def body(self, path: str) -> Body:
        """Word it as the provider of this path does."""
        if path == "/v1/messages":
            kinds = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
            kind = kinds.get(self.status, "api_error")
            return {"type": "error", "error": {"type": kind, "message": self.message}}
        kind = "invalid_request_error" if self.status < 429 else "server_error"
        return {"error": {"message": self.message, "type": kind, "param": None, "code": self.code}}


@dataclass(frozen=True)
class Hangs:
    """No answer for as long as the server lives."""


@dataclass(frozen=True)
class Drops:
    """The connection is closed without an answer."""


Answer = Says | Fails | Hangs | Drops


def render(path: str, answer: Says, number: int) -> Body:
    """Word an answer as the provider of this path does."""
    return {"/v1/messages": _message, "/v1/responses": _response}.get(path, _completion)(answer, number)


def _completion(answer: Says, number: int) -> Body:
    message: Body = {"role": "assistant", "content": answer.text or None, "refusal": answer.refusal}
    if answer.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _text(call)}}
            for call in answer.calls
        ]
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "gpt-test-2026-01-01",
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": answer.finish or ("tool_calls" if answer.calls else "stop"),
            }
        ],
        "usage": {
            "prompt_tokens": answer.tokens[0] + answer.cached,
            "completion_tokens": answer.tokens[1],
            "total_tokens": sum(answer.tokens) + answer.cached,
            "prompt_tokens_details": {"cached_tokens": answer.cached},
        },
    }


def _response(answer: Says, number: int) -> Body:
    output: list[Body] = [_reasoning(thought) for thought in answer.thoughts]
    if answer.text:
        text = {"type": "output_text", "text": answer.text, "annotations": []}
        output.append(
            {
                "type": "message",
                "id": f"msg_{number}",
                "role": "assistant",
                "status": "completed",
                "content": [text],
            }
        )
    output += [
        {
            "type": "function_call",
            "id": f"fc_{number}_{position}",
            "call_id": call.id,
            "name": call.name,
            "arguments": _text(call),
            "status": "completed",
        }
        for position, call in enumerate(answer.calls)
    ]
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "model": "gpt-test-2026-01-01",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": answer.tokens[0] + answer.cached,
            "output_tokens": answer.tokens[1],
            "total_tokens": sum(answer.tokens) + answer.cached,
            "input_tokens_details": {"cached_tokens": answer.cached},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def _message(answer: Says, number: int) -> Body:
    content: list[Body] = [_thinking(thought) for thought in answer.thoughts]
    if answer.text:
        content.append({"type": "text", "text": answer.text})
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in answer.calls
    ]
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-test-2026-01-01",
        "content": content,
        "stop_reason": answer.finish or ("tool_use" if answer.calls else "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": answer.tokens[0],
            "output_tokens": answer.tokens[1],
            "cache_read_input_tokens": answer.cached,
            "cache_creation_input_tokens": 0,
        },
    }


def _text(call: Call) -> str:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


def _thinking(thought: Thought) -> Body:
    if not thought.text:
        return {"type": "redacted_thinking", "data": thought.signature}
    return {"type": "thinking", "thinking": thought.text, "signature": thought.signature}


def _reasoning(thought: Thought) -> Body:
    summary = [{"type": "summary_text", "text": thought.text}] if thought.text else []
    return {
        "type": "reasoning",
        "id": f"rs_{thought.signature}",
        "summary": summary,
        "encrypted_content": thought.signature,
    }


def trace_faults(path: str, body: Body, issued: Sequence[Says]) -> Iterator[str]:
    """Yield what does not come back as it was given out: changed, made up or lost thinking."""
    if path == "/v1/messages":
        known = [_thinking(thought) for answer in issued for thought in answer.thoughts]
        for turn in body.get("messages", []):
            blocks = turn.get("content") if turn.get("role") == "assistant" else None
            yield from _turn_faults(blocks if isinstance(blocks, list) else [], known, issued)
    elif path == "/v1/responses":
        known = [_reasoning(thought) for answer in issued for thought in answer.thoughts]
        given = [item for item in body.get("input", []) if item.get("type") == "reasoning"]
        for item in given:
            if {key: item.get(key) for key in ("type", "id", "summary", "encrypted_content")} not in known:
                yield f"reasoning {item.get('id')} is not as it was given out"
        called = {item.get("call_id") for item in body.get("input", [])}
        for answer in issued:
            if any(call.id in called for call in answer.calls):
                missing = {f"rs_{each.signature}" for each in answer.thoughts} - {
                    item["id"] for item in given
                }
                yield from (f"reasoning {each} is missing" for each in sorted(missing))


def _turn_faults(blocks: Sequence[Body], known: Sequence[Body], issued: Sequence[Says]) -> Iterator[str]:
    thinking = [block for block in blocks if block.get("type") in ("thinking", "redacted_thinking")]
    for block in thinking:
        if block not in known:
            yield f"invalid signature in a {block['type']} block"
    calls = [(block["name"], block["input"]) for block in blocks if block.get("type") == "tool_use"]
    answers = [each for each in issued if calls == [(call.name, call.arguments) for call in each.calls]]
    if calls and answers and thinking not in [[_thinking(each) for each in a.thoughts] for a in answers]:
        yield f"the thinking that led to {[name for name, _ in calls]} is missing or changed"
