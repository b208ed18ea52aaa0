"""Conversations through the real SDKs, with a server that is as strict as the providers."""

from __future__ import annotations

import json

import pytest

from perdure.domain.messages import (
    AssistantMessage,
    Message,
    OpaquePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserMessage,
)
from perdure.domain.tools import ToolSpec
from tests.models.talking import QUESTION, TOOLS, ask, model, recorded, results
from tests.support.provider_answers import Call, Says, Thought
from tests.support.provider_requests import APIS, provider_requests
from tests.support.provider_rules import Body, anthropic_faults, openai_faults, responses_faults
from tests.support.provider_server import ProviderServer

each_api = pytest.mark.parametrize("api", APIS)
WITH_SIGNATURES = ("anthropic", "responses")


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


@each_api
def test_a_plain_answer(api: str) -> None:
    """An answer brings its text, what it cost, why it ended, and the model's name as the provider gave it."""
    with ProviderServer([Says("Sunny.", tokens=(11, 7), cached=5)]) as server:
        reply = ask(model(api, server))

    assert [part.text for part in reply.parts if isinstance(part, TextPart)] == ["Sunny."]
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (16, 7)
    assert reply.usage.cache_read_tokens == 5
    assert reply.finish_reason == {"openai": "stop", "responses": "completed", "anthropic": "end_turn"}[api]
    assert reply.model in ("gpt-test-2026-01-01", "claude-test-2026-01-01")


@each_api
def test_the_prompt_goes_out_as_instructions(api: str) -> None:
    """The system prompt reaches the provider where it belongs, and an empty one is not sent."""
    with ProviderServer(lambda _: Says("Sunny.")) as server:
        ask(model(api, server), prompt="You are a frog.")
        ask(model(api, server), prompt="")
        with_prompt, without = server.requests

    assert "You are a frog." in with_prompt.text
    assert "system" not in without.text.replace('"system":""', "")
    assert not without.body.get("instructions")


@each_api
def test_parallel_calls_and_their_results(api: str) -> None:
    """Several calls of one answer come in order, and each result goes back under the id of its call."""
    calls = [Call("weather", {"city": city}, id=f"toolu_{city}") for city in ("Rome", "Oslo", "Lima")]
    with ProviderServer([Says("Let me look.", calls=calls), Says("Warm, cold, grey.")]) as server:
        asked = model(api, server)
        step = recorded(ask(asked), 1)
        ask(asked, [QUESTION, step, results(step, "warm", "cold", "grey")])

    assert [call.provider_call_id for call in step.tool_calls] == ["toolu_Rome", "toolu_Oslo", "toolu_Lima"]
    assert [json.loads(call.arguments)["city"] for call in step.tool_calls] == ["Rome", "Oslo", "Lima"]
    assert told(api, server.bodies[1]) == {"toolu_Rome": "warm", "toolu_Oslo": "cold", "toolu_Lima": "grey"}
    assert asked_for(api, server.bodies[1])["toolu_Lima"] == {"city": "Lima"}
    assert step.text == "Let me look."


@each_api
@pytest.mark.parametrize("given", ["", "call_0"])
def test_ids_that_are_empty_or_come_again(api: str, given: str) -> None:
    """A provider that sends no ids, or the same in every step, never gets one call's result for another's."""
    cities = iter(("Rome", "Oslo", "Lima"))
    script = [Says(calls=[Call("weather", {"city": city}, id=given)]) for city in cities]
    with ProviderServer([*script, Says("Done.")]) as server:
        asked = model(api, server)
        messages: list[Message] = [QUESTION]
        for number, weather in enumerate(("warm", "cold", "grey"), start=1):
            step = recorded(ask(asked, messages), number)
            messages += [step, results(step, weather)]
        ask(asked, messages)
        body = server.bodies[-1]

    calls, answers = asked_for(api, body), told(api, body)
    weather_of = {calls[call_id]["city"]: content for call_id, content in answers.items()}
    assert weather_of == {"Rome": "warm", "Oslo": "cold", "Lima": "grey"}


@pytest.mark.parametrize("given", ["", "call_0"])
def test_ids_that_come_twice_in_one_answer(given: str) -> None:
    """Two calls of one answer that share an id, or have none, keep their results apart."""
    calls = [Call("weather", {"city": city}, id=given) for city in ("Rome", "Oslo")]
    with ProviderServer([Says(calls=calls), Says("Done.")]) as server:
        asked = model("openai", server)
        step = recorded(ask(asked), 1)
        ask(asked, [QUESTION, step, results(step, "warm", "cold")])
        body = server.bodies[-1]

    assert list(told("openai", body)) == list(asked_for("openai", body))
    assert list(told("openai", body).values()) == ["warm", "cold"]


def test_an_id_that_nobody_sent_is_not_recorded() -> None:
    """A call that came without an id is recorded without one: what a library made up is not theirs."""
    with ProviderServer([Says(calls=[Call("weather", {}, id="")])]) as server:
        reply = ask(model("openai", server))

    assert recorded(reply, 1).tool_calls[0].provider_call_id is None


@pytest.mark.parametrize("api", WITH_SIGNATURES)
def test_thinking_comes_back_word_for_word(api: str) -> None:
    """Thinking goes back with its signature, in its place, after any number of steps and through the log."""
    script = [
        Says(calls=[Call("weather", {"city": "Rome"}, id="c1")], thoughts=[Thought("s1+/=", "Hm, Rome?")]),
        Says(
            "So.", calls=[Call("weather", {"city": "Oslo"}, id="c2")], thoughts=[Thought("s2", "And Oslo.")]
        ),
        Says("Done.", thoughts=[Thought("s3", "That is all.")]),
        Says("Bye."),
    ]
    with ProviderServer(script) as server:
        asked = model(api, server)
        messages: list[Message] = [QUESTION]
        for number in (1, 2):
            step = recorded(ask(asked, messages), number)
            messages += [step, results(step, "fine")]
        messages += [recorded(ask(asked, messages), 3), UserMessage(text="Thanks.")]
        ask(asked, messages)
        sent = server.requests[-1].text

    first = messages[1]
    assert isinstance(first, AssistantMessage)
    assert isinstance(first.parts[0], ThinkingPart)
    assert first.parts[0].text == "Hm, Rome?"
    assert all(f'"{signature}"' in sent for signature in ("s1+/=", "s2", "s3"))


def test_redacted_thinking_comes_back_word_for_word() -> None:
    """Thinking that the provider hides goes back as it came."""
    thoughts = [Thought("hidden=="), Thought("s2", "Shown.")]
    script = [Says(calls=[Call("weather", {"city": "Rome"}, id="c1")], thoughts=thoughts), Says("Done.")]
    with ProviderServer(script) as server:
        asked = model("anthropic", server)
        step = recorded(ask(asked), 1)
        ask(asked, [QUESTION, step, results(step, "fine")])

    assert server.bodies[1]["messages"][1]["content"][0] == {"type": "redacted_thinking", "data": "hidden=="}


@pytest.mark.parametrize("api", WITH_SIGNATURES)
def test_the_server_wants_its_thinking_back(api: str) -> None:
    """The server notices thinking that was changed or left out: the tests above could not pass without it."""
    call = Call("weather", {"city": "Rome"}, id="c1")
    for spoil in ("changed", "left out"):
        script = [Says(calls=[call], thoughts=[Thought("s1", "Hm.")]), Says("Done.")]
        with ProviderServer(script, strict=False) as server:
            asked = model(api, server)
            step = recorded(ask(asked), 1)
            thought, request = step.parts
            assert isinstance(thought, ThinkingPart)
            edited = thought.model_copy(update={"text": "Ha."})
            parts = (edited, request) if spoil == "changed" else (request,)
            spoilt = AssistantMessage(parts=parts)
            ask(asked, [QUESTION, spoilt, results(spoilt, "fine")])

        assert server.requests[1].faults, spoil


@each_api
@pytest.mark.parametrize("arguments", ['{"city": "Ro', "", "[1]", "null", "weather please", '{"city": NaN}'])
def test_arguments_that_are_no_json_object(api: str, arguments: str) -> None:
    """What the model wrote is recorded as it stands, and goes back in a form that keeps it."""
    script = [Says(calls=[Call("weather", arguments, id="c1")], finish="length"), Says("Sorry.")]
    with ProviderServer(script) as server:
        asked = model(api, server)
        step = recorded(ask(asked), 1)
        ask(asked, [QUESTION, step, results(step, "not valid", ok=False)])
        sent = asked_for(api, server.bodies[1])["c1"]

    assert step.tool_calls[0].arguments == arguments
    assert sent == ({"INVALID_JSON": arguments} if arguments else {})


@pytest.mark.parametrize(("api", "finish"), [("openai", "length"), ("anthropic", "max_tokens")])
def test_an_answer_that_was_cut_off_says_so(api: str, finish: str) -> None:
    """The finish reason is recorded in the provider's word."""
    with ProviderServer([Says("Once upon a ti", finish=finish)]) as server:
        reply = ask(model(api, server))

    assert reply.finish_reason == finish


@each_api
def test_a_failed_result_is_told_as_an_error(api: str) -> None:
    """The model is told which results are errors, in the way of its provider."""
    calls = [Call("weather", {"city": city}, id=f"c_{city}") for city in ("Rome", "Oslo")]
    with ProviderServer([Says(calls=calls), Says("Done.")]) as server:
        asked = model(api, server)
        step = recorded(ask(asked), 1)
        both = results(step, "no such city", "cold")
        failed = both.results[0].model_copy(update={"ok": False})
        ask(asked, [QUESTION, step, both.model_copy(update={"results": (failed, both.results[1])})])
        body = server.bodies[1]

    if api == "anthropic":
        blocks = body["messages"][2]["content"]
        assert [(block["is_error"], block["content"][0]["text"]) for block in blocks] == [
            (True, "no such city"),
            (False, "cold"),
        ]
    else:
        assert told(api, body) == {"c_Rome": '{"error":"no such city"}', "c_Oslo": "cold"}


@each_api
def test_a_name_that_no_tool_can_have(api: str) -> None:
    """A call of a tool that the model made up goes back under a name of the form that providers demand."""
    step = AssistantMessage(
        parts=(ToolCallPart(call_id="call_1_1_00000000", name="fs.read file/é", arguments="{}"),)
    )
    body = provider_requests([QUESTION, step, results(step, "no such tool", ok=False)], tools=TOOLS)[api]

    assert '"fs_read_file__"' in json.dumps(body)


FAULTS = {"openai": openai_faults, "responses": responses_faults, "anthropic": anthropic_faults}
ODD = [
    "héllo ☃ 😀",
    "nul \x00 nul",
    "lone \ud800 surrogate",
    "\ud83d\ude00",
    "",
    " \n\t",
    '"',
    "</s>",
    "\u2028",
]


@each_api
@pytest.mark.parametrize("odd", ODD)
def test_odd_text_arrives(api: str, odd: str) -> None:
    """Text of any kind reaches the provider: as it is, or escaped where UTF-8 or the provider has no form."""
    arguments = json.dumps({"city": odd})
    step = AssistantMessage(
        parts=(
            TextPart(text=odd),
            ToolCallPart(call_id="call_1_1_00000000", name="weather", arguments=arguments),
        )
    )
    messages = [UserMessage(text=odd), step, results(step, odd)]
    body = provider_requests(messages, prompt=odd.encode("utf-8", "replace").decode(), tools=TOOLS)[api]
    sent = next(iter(asked_for(api, body).values()))

    assert FAULTS[api](body) == []
    whole = not any("\ud800" <= character <= "\udfff" for character in odd)
    shown = odd if whole else odd.encode("utf-8", "backslashreplace").decode()
    assert next(iter(told(api, body).values())) == (shown if odd.strip() else json.dumps(odd))
    if whole or odd == "\ud83d\ude00":  # JSON reads the two halves, written one after the other, as one
        assert sent == {"city": json.loads(arguments)["city"]}
    else:
        assert sent == {"INVALID_JSON": arguments}


def test_odd_text_from_the_provider_is_recorded() -> None:
    """Arguments with NUL, lone halves of surrogates and signs of any script are kept as JSON text."""
    city = "é☃\x00\ud800"
    with ProviderServer([Says(calls=[Call("weather", {"city": city}, id="c1")])]) as server:
        reply = ask(model("openai", server))

    assert json.loads(recorded(reply, 1).tool_calls[0].arguments) == {"city": city}


def test_arguments_that_are_nested_too_deep_to_read() -> None:
    """JSON of ten thousand levels is recorded, and goes back as text."""
    deep = '{"city": ' + "[" * 10_000 + "]" * 10_000 + "}"
    with ProviderServer([Says(calls=[Call("weather", deep, id="c1")]), Says("Sorry.")]) as server:
        asked = model("openai", server)
        step = recorded(ask(asked), 1)
        ask(asked, [QUESTION, step, results(step, "too deep", ok=False)])

    assert asked_for("openai", server.bodies[1])["c1"] == {"INVALID_JSON": deep}


def test_a_refusal_is_an_answer() -> None:
    """What a model says in declining is its answer, not an empty message."""
    with ProviderServer([Says(refusal="I cannot help with that.")]) as server:
        reply = ask(model("openai", server))

    assert recorded(reply, 1).text == "I cannot help with that."
    assert reply.finish_reason == "content_filter"


@each_api
def test_parts_of_another_make_do_no_harm(api: str) -> None:
    """What another model's adapter kept for itself is left alone, and the conversation is accepted."""
    foreign = {"other_adapter": {"signature": "x"}}
    step = AssistantMessage(
        parts=(
            ThinkingPart(text="Hm.", opaque=foreign),
            OpaquePart(opaque=foreign),
            TextPart(text="Hello.", opaque=foreign),
        )
    )
    body = provider_requests([QUESTION, step, UserMessage(text="Go on.")])[api]

    assert FAULTS[api](body) == []
    assert "Hello." in json.dumps(body)
    assert "other_adapter" not in json.dumps(body)


@each_api
def test_input_that_came_while_tools_ran(api: str) -> None:
    """What a person said meanwhile stands behind the results, and is accepted there."""
    step = AssistantMessage(
        parts=(ToolCallPart(call_id="call_1_1_00000000", name="weather", arguments="{}"),)
    )
    messages = [QUESTION, step, results(step, "warm"), UserMessage(text="And?"), UserMessage(text="Well?")]
    body = provider_requests(messages, tools=TOOLS)[api]

    assert FAULTS[api](body) == []


@each_api
def test_schemas_go_out_as_they_are_pinned(api: str) -> None:
    """The provider is given the schema of the run and no other."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "default": 3}}}
    body = provider_requests([QUESTION], tools=[ToolSpec(name="t", description="d", parameters=schema)])[api]

    tool = body["tools"][0]
    sent = tool.get("input_schema") or tool.get("parameters") or tool["function"]["parameters"]
    assert sent == schema


@pytest.mark.parametrize("api", WITH_SIGNATURES)
@pytest.mark.parametrize("text", ["", " \n"])
def test_thinking_that_led_to_nothing(api: str, text: str) -> None:
    """An answer that was cut off while the model thought, or is blank, does not spoil the conversation."""
    script = [Says(text, thoughts=[Thought("s1", "Hm.")], finish="max_tokens"), Says("Sunny.")]
    with ProviderServer(script) as server:
        asked = model(api, server)
        step = recorded(ask(asked), 1)
        reply = ask(asked, [QUESTION, step, UserMessage(text="Well?")])

    assert recorded(reply, 2).text == "Sunny."


@pytest.mark.parametrize("api", WITH_SIGNATURES)
def test_blank_text_beside_a_call(api: str) -> None:
    """Blank text that a model writes before a call is not sent back, as providers refuse it."""
    script = [Says(" \n", calls=[Call("weather", {"city": "Rome"}, id="c1")]), Says("Sunny.")]
    with ProviderServer(script) as server:
        asked = model(api, server)
        step = recorded(ask(asked), 1)
        ask(asked, [QUESTION, step, results(step, "warm")])

    assert step.text == " \n"
    assert told(api, server.bodies[1]) == {"c1": "warm"}
