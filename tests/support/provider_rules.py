"""What providers demand of a conversation, as functions from the body of a request to its faults.

Written from the providers' public references and from the errors that they are known to give. Where models
of one provider differ, the stricter rule stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]+")
LONGEST_OPENAI_ID = 40

Body = dict[str, Any]


def openai_faults(body: Body) -> list[str]:
    """Return what is wrong with a body for `/v1/chat/completions`; nothing when it is acceptable."""
    faults = [*_common_faults(body), *_tool_faults(body, _function)]
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return [*faults, "messages: at least one message is needed"]
    ids: set[str] = set()
    awaited: list[str] = []
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        role = message.get("role")
        if role == "tool":
            faults += _openai_result_faults(message, awaited, where)
            continue
        if awaited:
            faults.append(f"{where}: tool_calls without a tool message right behind them: {sorted(awaited)}")
            awaited = []
        if role == "assistant":
            calls = message.get("tool_calls")
            faults += _openai_assistant_faults(message, calls, ids, where)
            awaited = [call.get("id") for call in calls or []]
        elif role in ("system", "developer", "user"):
            faults += _text_faults(message.get("content"), f"{where}.content", ("text", "image_url"))
        else:
            faults.append(f"{where}.role: {role!r} is none")
    if awaited:
        faults.append(f"messages: tool_calls without a tool message right behind them: {sorted(awaited)}")
    return faults


def _openai_result_faults(message: Body, awaited: list[str], where: str) -> Iterator[str]:
    given = message.get("tool_call_id")
    if given in awaited:
        awaited.remove(given)
    else:
        yield f"{where}: a tool message must answer one of the tool_calls before it, and {given!r} is none"
    content = message.get("content")
    if not isinstance(content, str | list):
        yield f"{where}.content: text is needed"


def _openai_assistant_faults(message: Body, calls: Any, ids: set[str], where: str) -> Iterator[str]:
    content = message.get("content")
    if calls is None and not content:
        yield f"{where}: an assistant message needs content or tool_calls"
    if content is not None and not isinstance(content, str | list):
        yield f"{where}.content: text is needed"
    if calls is not None and (not isinstance(calls, list) or not calls):
        yield f"{where}.tool_calls: an empty list is none"
        return
    for position, call in enumerate(calls or []):
        at = f"{where}.tool_calls.{position}"
        yield from _id_faults(call.get("id"), ids, f"{at}.id", re.compile(rf".{{1,{LONGEST_OPENAI_ID}}}"))
        if call.get("type") != "function":
            yield f"{at}.type: 'function' is needed"
        yield from _called_faults(call.get("function") or {}, f"{at}.function")


def responses_faults(body: Body) -> list[str]:
    """Return what is wrong with a body for `/v1/responses`; nothing when it is acceptable."""
    faults = [*_common_faults(body), *_tool_faults(body, lambda tool: tool)]
    items = body.get("input")
    if not isinstance(items, list) or not items:
        return [*faults, "input: at least one item is needed"]
    ids: set[str] = set()
    awaited: list[str] = []
    for index, item in enumerate(items):
        where = f"input.{index}"
        kind = item.get("type", "message")
        if kind == "function_call":
            faults += _id_faults(item.get("call_id"), ids, f"{where}.call_id", re.compile(r".{1,64}"))
            faults += _called_faults(item, where)
            faults += _item_id_faults(item, "fc_", where)
            awaited.append(item.get("call_id"))
        elif kind == "function_call_output":
            if item.get("call_id") in awaited:
                awaited.remove(item["call_id"])
            else:
                faults.append(f"{where}: no tool call found for the output of {item.get('call_id')!r}")
        elif kind == "reasoning":
            faults += _item_id_faults(item, "rs_", where)
            following = items[index + 1] if index + 1 < len(items) else {}
            if following.get("type") != "function_call" and following.get("role") != "assistant":
                faults.append(f"{where}: reasoning without the item that it led to")
        elif item.get("role") in ("user", "assistant", "system", "developer"):
            if awaited:
                faults.append(f"{where}: no output found for the calls {sorted(awaited)}")
                awaited = []
            faults += _text_faults(item.get("content"), f"{where}.content", ("input_text", "output_text"))
            faults += _item_id_faults(item, "msg_", where)
        else:
            faults.append(f"{where}: {kind!r} is no item")
    if awaited:
        faults.append(f"input: no output found for the calls {sorted(awaited)}")
    return faults


def _item_id_faults(item: Body, prefix: str, where: str) -> Iterator[str]:
    if item.get("id") is not None and not str(item["id"]).startswith(prefix):
        yield f"{where}.id: it begins with {prefix!r}"


def anthropic_faults(body: Body) -> list[str]:
    """Return what is wrong with a body for `/v1/messages`; nothing when it is acceptable."""
    faults = [*_common_faults(body), *_tool_faults(body, lambda tool: tool, schema="input_schema")]
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        faults.append("max_tokens: a number above 0 is needed")
    if isinstance(body.get("system"), list):
        faults += _text_faults(body["system"], "system", ("text",))
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return [*faults, "messages: at least one message is needed"]
    if messages[0].get("role") != "user":
        faults.append("messages: the first message must be the user's")
    if messages[-1].get("role") != "user":
        faults.append("messages: the conversation must end with a message of the user")
    ids: set[str] = set()
    awaited: list[str] = []
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        blocks = _blocks(message)
        if message.get("role") not in ("user", "assistant"):
            faults.append(f"{where}.role: {message.get('role')!r} is none")
        if not blocks:
            faults.append(f"{where}.content: it must not be empty")
        faults += _answer_faults(message.get("role"), blocks, awaited, where)
        awaited = [block.get("id") for block in blocks if block.get("type") == "tool_use"]
        for position, block in enumerate(blocks):
            faults += _block_faults(message.get("role"), block, ids, f"{where}.content.{position}")
    if awaited:
        faults.append(f"messages: tool_use without a tool_result in the next message: {sorted(awaited)}")
    if ids and not body.get("tools"):
        faults.append("tools: they must be defined when there are tool_use blocks")
    return [*faults, *_thinking_faults(body, messages)]


def _blocks(message: Body) -> list[Body]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


def _answer_faults(role: Any, blocks: Sequence[Body], awaited: list[str], where: str) -> Iterator[str]:
    results = [block for block in blocks if block.get("type") == "tool_result"]
    answered = [block.get("tool_use_id") for block in results]
    missing = sorted(set(awaited) - set(answered)) if role == "user" else sorted(awaited)
    if missing:
        yield f"{where}: tool_use without a tool_result in the next message: {missing}"
    for each in sorted({str(each) for each in answered}):
        if each not in awaited:
            yield f"{where}: tool_result without its tool_use in the message before: {each}"
        if answered.count(each) > 1:
            yield f"{where}: each tool_use has one result, and {each} has several"
    if results and any(block.get("type") == "tool_result" for block in blocks[len(results) :]):
        yield f"{where}: tool_result blocks must come first"


def _block_faults(role: Any, block: Body, ids: set[str], where: str) -> Iterator[str]:
    kind = block.get("type")
    allowed = {
        "user": ("text", "tool_result", "image", "document"),
        "assistant": ("text", "tool_use", "thinking", "redacted_thinking"),
    }
    if kind not in allowed.get(role, ()):
        yield f"{where}.type: {kind!r} has no place in a message of the {role}"
    elif kind == "text":
        yield from _text_faults([block], where, ("text",))
    elif kind == "tool_use":
        yield from _id_faults(block.get("id"), ids, f"{where}.id", ANTHROPIC_ID)
        if not NAME.fullmatch(str(block.get("name", ""))):
            yield f"{where}.name: {block.get('name')!r} has not the form of a name"
        if not isinstance(block.get("input"), dict):
            yield f"{where}.input: an object is needed"
    elif kind == "tool_result":
        if isinstance(block.get("content"), list):
            yield from _text_faults(block["content"], f"{where}.content", ("text", "image"))
    elif kind == "thinking" and not (block.get("signature") and isinstance(block.get("thinking"), str)):
        yield f"{where}: thinking needs its signature"


def _thinking_faults(body: Body, messages: Sequence[Body]) -> Iterator[str]:
    for index, message in enumerate(messages):
        if [block.get("type") for block in _blocks(message)[-1:]] in (["thinking"], ["redacted_thinking"]):
            yield f"messages.{index}: the final block of a message cannot be thinking"
    if (body.get("thinking") or {}).get("type") != "enabled":
        return
    turns = [_blocks(message) for message in messages if message.get("role") == "assistant"]
    if not turns or not any(block.get("type") == "tool_use" for block in turns[-1]):
        return
    if turns[-1][0].get("type") not in ("thinking", "redacted_thinking"):
        yield "messages: while thinking is on, an assistant message that calls tools must begin with thinking"


def _common_faults(body: Body) -> Iterator[str]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "model: it is needed"
    if any(_is_torn(text) for text in _texts(body)):
        yield "the body is no valid JSON: a surrogate without its other half"


def _tool_faults(body: Body, definition: Any, schema: str = "parameters") -> Iterator[str]:
    names: set[str] = set()
    for index, tool in enumerate(body.get("tools") or []):
        where, defined = f"tools.{index}", definition(tool)
        name = defined.get("name")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            yield f"{where}.name: {name!r} has not the form of a name"
        elif name in names:
            yield f"{where}.name: {name!r} is there twice"
        names.add(str(name))
        if not isinstance(defined.get(schema), dict) or defined[schema].get("type") != "object":
            yield f"{where}.{schema}: a schema of type 'object' is needed"


def _function(tool: Body) -> Body:
    return tool.get("function") or {}


def _called_faults(called: Body, where: str) -> Iterator[str]:
    if not NAME.fullmatch(str(called.get("name", ""))):
        yield f"{where}.name: {called.get('name')!r} has not the form of a name"
    arguments = called.get("arguments")
    try:
        fits = isinstance(arguments, str) and isinstance(json.loads(arguments, parse_constant=_refuse), dict)
    except ValueError:
        fits = False
    if not fits:
        yield f"{where}.arguments: text that holds a JSON object is needed"


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _id_faults(given: Any, ids: set[str], where: str, form: re.Pattern[str]) -> Iterator[str]:
    if not isinstance(given, str) or not form.fullmatch(given):
        yield f"{where}: {given!r} has not the form of an id"
    elif given in ids:
        yield f"{where}: {given!r} was used before"
    ids.add(str(given))


def _text_faults(content: Any, where: str, kinds: tuple[str, ...]) -> Iterator[str]:
    if isinstance(content, str):
        content = [{"type": kinds[0], "text": content}]
    if not isinstance(content, list) or not content:
        yield f"{where}: it must not be empty"
        return
    for block in content:
        if block.get("type") not in kinds:
            yield f"{where}: {block.get('type')!r} has no place here"
        elif "text" in block["type"] and not str(block.get("text", "")).strip():
            yield f"{where}: text must hold more than white space"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield key
            yield from _texts(member)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _is_torn(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
