"""Each rule of the strict server is broken once, and noticed; conversations that keep them all pass."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any

import pytest

from tests.support.provider_answers import Says
from tests.support.provider_rules import Body, anthropic_faults, openai_faults, responses_faults
from tests.support.provider_server import KEY, ProviderServer

SCHEMA = {"type": "object", "properties": {}}
CHAT: Body = {
    "model": "gpt-5",
    "messages": [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "Hello"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "t", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "t", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "More"},
    ],
    "tools": [{"type": "function", "function": {"name": "t", "description": "", "parameters": SCHEMA}}],
}
ITEMS: Body = {
    "model": "gpt-5",
    "input": [
        {"role": "user", "content": "Hello"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "t", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"role": "user", "content": "More"},
    ],
    "tools": [{"type": "function", "name": "t", "parameters": SCHEMA}],
}
BLOCKS: Body = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 10,
    "system": [{"type": "text", "text": "You help."}],
    "thinking": {"type": "enabled", "budget_tokens": 5},
    "messages": [
        {"role": "user", "content": "Hello"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "a", "name": "t", "input": {}},
                {"type": "tool_use", "id": "b", "name": "t", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "1"}]},
                {"type": "tool_result", "tool_use_id": "b", "content": "2"},
                {"type": "text", "text": "More"},
            ],
        },
        {"role": "user", "content": "And more"},
    ],
    "tools": [{"name": "t", "input_schema": SCHEMA}],
}


def put(*path: Any, to: Any) -> Callable[[Body], None]:
    """Return a change that puts a value in a place."""

    def change(body: Any) -> None:
        for step in path[:-1]:
            body = body[step]
        body[path[-1]] = to

    return change


def drop(*path: Any) -> Callable[[Body], None]:
    """Return a change that takes out what is in a place."""

    def change(body: Any) -> None:
        for step in path[:-1]:
            body = body[step]
        del body[path[-1]]

    return change


def add(*path: Any, item: Any, at: int) -> Callable[[Body], None]:
    """Return a change that puts an item into a list."""

    def change(body: Any) -> None:
        for step in path:
            body = body[step]
        body.insert(at, item)

    return change


FIRST: Body = {"model": "claude-sonnet-4-5", "max_tokens": 10, "messages": BLOCKS["messages"][:1]}


FUNCTION = ("messages", 2, "tool_calls", 0, "function")
BROKEN_CHAT: dict[str, tuple[Callable[[Body], None], str]] = {
    "no model": (drop("model"), "model"),
    "no messages": (put("messages", to=[]), "at least one message"),
    "a result is missing": (drop("messages", 3), "right behind"),
    "the last results are missing": (drop("messages", slice(3, None)), "right behind"),
    "a message before the results": (
        add("messages", item={"role": "user", "content": "x"}, at=3),
        "right behind",
    ),
    "a result without a call": (put("messages", 3, "tool_call_id", to="z"), "must answer"),
    "a result given twice": (
        add("messages", item={"role": "tool", "tool_call_id": "a", "content": "1"}, at=5),
        "must answer",
    ),
    "an id that came before": (put("messages", 2, "tool_calls", 1, "id", to="a"), "used before"),
    "an empty id": (put("messages", 2, "tool_calls", 0, "id", to=""), "form of an id"),
    "a long id": (put("messages", 2, "tool_calls", 0, "id", to="a" * 41), "form of an id"),
    "arguments that are no text": (put(*FUNCTION, "arguments", to={}), "JSON object"),
    "arguments that are no JSON": (put(*FUNCTION, "arguments", to='{"a'), "JSON object"),
    "arguments that are no object": (put(*FUNCTION, "arguments", to="[]"), "JSON object"),
    "arguments with a NaN": (put(*FUNCTION, "arguments", to='{"a": NaN}'), "JSON object"),
    "a name with a dot": (put(*FUNCTION, "name", to="a.b"), "form of a name"),
    "a call of no type": (drop("messages", 2, "tool_calls", 0, "type"), "'function'"),
    "no calls in the list": (put("messages", 2, "tool_calls", to=[]), "empty list"),
    "an empty answer": (put("messages", 5, "content", to=None), "content or tool_calls"),
    "an answer that is no text": (put("messages", 5, "content", to=5), "text is needed"),
    "a result that is no text": (put("messages", 3, "content", to=None), "text is needed"),
    "an empty question": (put("messages", 1, "content", to=""), "white space"),
    "a question of no parts": (put("messages", 1, "content", to=[]), "must not be empty"),
    "a part of another kind": (put("messages", 1, "content", to=[{"type": "tool_use"}]), "no place"),
    "an unknown role": (put("messages", 1, "role", to="person"), "person"),
    "a schema of no type": (put("tools", 0, "function", "parameters", to={}), "schema"),
    "a tool without a name": (drop("tools", 0, "function", "name"), "form of a name"),
    "a tool given twice": (add("tools", item=CHAT["tools"][0], at=0), "twice"),
    "half a surrogate": (put("messages", 1, "content", to="\ud800"), "surrogate"),
}
BROKEN_ITEMS: dict[str, tuple[Callable[[Body], None], str]] = {
    "no model": (drop("model"), "model"),
    "no input": (put("input", to=[]), "at least one item"),
    "an output is missing": (drop("input", 3), "no output"),
    "the last output is missing": (drop("input", slice(3, None)), "no output"),
    "an output without a call": (put("input", 3, "call_id", to="z"), "no tool call"),
    "an id that came before": (add("input", item=ITEMS["input"][2], at=3), "used before"),
    "arguments that are no JSON": (put("input", 2, "arguments", to='{"a'), "JSON object"),
    "an item id of another kind": (put("input", 2, "id", to="x"), "fc_"),
    "reasoning that leads to nothing": (drop("input", slice(2, 4)), "reasoning"),
    "an empty question": (put("input", 0, "content", to=" "), "white space"),
    "a part of another kind": (put("input", 0, "content", to=[{"type": "text", "text": "x"}]), "no place"),
    "an unknown item": (put("input", 0, to={"type": "thing"}), "thing"),
    "a schema of no type": (put("tools", 0, "parameters", to={}), "schema"),
}
BROKEN_BLOCKS: dict[str, tuple[Callable[[Body], None], str]] = {
    "no model": (put("model", to=""), "model"),
    "no max_tokens": (drop("max_tokens"), "max_tokens"),
    "no messages": (put("messages", to=[]), "at least one message"),
    "an answer first": (drop("messages", 0), "first message"),
    "an answer last": (add("messages", item={"role": "assistant", "content": "x"}, at=9), "must end"),
    "a result is missing": (drop("messages", 2, "content", 0), "without a tool_result"),
    "all results are missing": (drop("messages", 2), "without a tool_result"),
    "the conversation ends with calls": (drop("messages", slice(2, None)), "without a tool_result"),
    "a message before the results": (
        add("messages", item={"role": "user", "content": "x"}, at=2),
        "without a tool_result",
    ),
    "a result without a call": (
        put("messages", 2, "content", 0, "tool_use_id", to="z"),
        "without its tool_use",
    ),
    "a result given twice": (
        add("messages", 2, "content", item=BLOCKS["messages"][2]["content"][0], at=0),
        "several",
    ),
    "text before the results": (
        add("messages", 2, "content", item={"type": "text", "text": "x"}, at=0),
        "first",
    ),
    "an id that came before": (put("messages", 1, "content", 3, "id", to="a"), "used before"),
    "an id with a dot": (put("messages", 1, "content", 2, "id", to="a.b"), "form of an id"),
    "an empty id": (put("messages", 1, "content", 2, "id", to=""), "form of an id"),
    "input that is text": (put("messages", 1, "content", 2, "input", to="{}"), "an object"),
    "a name with a dot": (put("messages", 1, "content", 2, "name", to="a.b"), "form of a name"),
    "empty text": (put("messages", 1, "content", 1, "text", to=""), "white space"),
    "blank text": (put("messages", 0, "content", to=" \n"), "white space"),
    "an empty message": (put("messages", 3, "content", to=[]), "must not be empty"),
    "an empty result": (put("messages", 2, "content", 0, "content", 0, "text", to=""), "white space"),
    "an empty prompt": (put("system", 0, "text", to=""), "white space"),
    "thinking without its signature": (put("messages", 1, "content", 0, "signature", to=""), "signature"),
    "thinking that leads to nothing": (drop("messages", 1, "content", slice(1, None)), "final block"),
    "thinking left out": (drop("messages", 1, "content", 0), "begin with thinking"),
    "a call by the user": (
        put("messages", 3, "content", to=[BLOCKS["messages"][1]["content"][2]]),
        "no place",
    ),
    "a message of the system": (put("messages", 3, "role", to="system"), "role"),
    "calls without tools": (put("tools", to=[]), "defined"),
    "a schema of no type": (put("tools", 0, "input_schema", to={}), "schema"),
    "half a surrogate": (put("messages", 1, "content", 2, "input", to={"\udfff": 1}), "surrogate"),
}
CASES = [
    pytest.param(rules, body, change, says, id=f"{api}: {name}")
    for api, rules, body, broken in (
        ("chat", openai_faults, CHAT, BROKEN_CHAT),
        ("responses", responses_faults, ITEMS, BROKEN_ITEMS),
        ("anthropic", anthropic_faults, BLOCKS, BROKEN_BLOCKS),
    )
    for name, (change, says) in broken.items()
]


def test_conversations_that_keep_the_rules() -> None:
    """What the providers accept has no faults."""
    assert openai_faults(CHAT) == []
    assert responses_faults(ITEMS) == []
    assert anthropic_faults(BLOCKS) == []


@pytest.mark.parametrize(("rules", "body", "change", "says"), CASES)
def test_a_broken_rule_is_noticed(
    rules: Callable[[Body], list[str]], body: Body, change: Callable[[Body], None], says: str
) -> None:
    """A conversation that breaks one rule has a fault, and it says which."""
    broken = copy.deepcopy(body)
    change(broken)

    assert any(says in fault for fault in rules(broken)), rules(broken)


@pytest.mark.parametrize(
    ("path", "headers", "body", "status"),
    [
        ("/v1/chat/completions", {"authorization": f"Bearer {KEY}"}, json.dumps(CHAT).encode(), 200),
        ("/v1/messages", {"x-api-key": KEY, "anthropic-version": "1"}, json.dumps(FIRST).encode(), 200),
        ("/v1/messages", {"x-api-key": KEY, "anthropic-version": "1"}, json.dumps(BLOCKS).encode(), 400),
        ("/v1/chat/completions", {}, json.dumps(CHAT).encode(), 401),
        ("/v1/messages", {"x-api-key": "other", "anthropic-version": "1"}, b"{}", 401),
        ("/v1/messages", {"x-api-key": KEY}, json.dumps(FIRST).encode(), 400),
        ("/v1/chat/completions", {"authorization": f"Bearer {KEY}"}, b'{"model": "\xff"}', 400),
        ("/v1/chat/completions", {"authorization": f"Bearer {KEY}"}, b"{}", 400),
        ("/v1/elsewhere", {"authorization": f"Bearer {KEY}"}, b"{}", 404),
    ],
)
def test_what_the_server_asks_of_a_request(
    path: str, headers: dict[str, str], body: bytes, status: int
) -> None:
    """A request needs a known path, the key, UTF-8, and a body without faults or forged thinking."""
    with ProviderServer(lambda _: Says("Yes.")) as server:
        connection = HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=30)
        connection.request("POST", path, body, headers)
        answered = connection.getresponse()
        said = json.loads(answered.read())
        connection.close()

    assert answered.status == status
    assert ("error" in said) == (status != 200)
