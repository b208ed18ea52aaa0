"""An answer of the messages API as the stream of events that it is sent as when the request asks for one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Body = dict[str, Any]


def stream(message: Body) -> bytes:
    """Return a whole message as server-sent events."""
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in _events(message)
    )


def _events(message: Body) -> Iterator[Body]:
    empty = {**message, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": empty}
    for index, block in enumerate(message["content"]):
        opened, deltas = _parts(block)
        yield {"type": "content_block_start", "index": index, "content_block": opened}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    usage = {"output_tokens": message["usage"]["output_tokens"]}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": usage}
    yield {"type": "message_stop"}


def _parts(block: Body) -> tuple[Body, list[Body]]:
    match block["type"]:
        case "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
        case "thinking":
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
            return {**block, "thinking": "", "signature": ""}, deltas
        case "tool_use":
            given = block["input"]
            text = given if isinstance(given, str) else json.dumps(given)
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": text}]
        case _:
            return block, []
