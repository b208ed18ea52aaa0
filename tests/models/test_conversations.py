"""Conversations through the real SDKs, with a server that is as strict as the providers."""

from __future__ import annotations

import json

import pytest

from perdure.domain.messages import (
    AssistantMessage,
    Message,
    TextPart,
    ToolCallPart,
    UserMessage,
)
from perdure.domain.tools import ToolSpec
from tests.models.talking import FAULTS, QUESTION, TOOLS, ask, asked_for, model, recorded, results, told
from tests.support.provider_answers import Call, Says
from tests.support.provider_requests import APIS, provider_requests
from tests.support.provider_server import ProviderServer

each_api = pytest.mark.parametrize("api", APIS)


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


def test_a_refusal_is_an_answer() -> None:
    """What a model says in declining is its answer, not an empty message."""
    with ProviderServer([Says(refusal="I cannot help with that.")]) as server:
        reply = ask(model("openai", server))

    assert recorded(reply, 1).text == "I cannot help with that."
    assert reply.finish_reason == "content_filter"


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


@each_api
def test_a_conversation_that_the_assistant_opens(api: str) -> None:
    """A greeting before the first question is accepted, though some providers want the user first."""
    greeting = AssistantMessage(parts=(TextPart(text="How may I help?"),))
    body = provider_requests([greeting, QUESTION], prompt="You help.")[api]

    assert FAULTS[api](body) == []
    assert json.dumps(body).index("How may I help?") < json.dumps(body).index(QUESTION.text)


@each_api
@pytest.mark.parametrize("given", ["functions.weather:0", "é", "a b", "x" * 80])
def test_ids_of_another_provider(api: str, given: str) -> None:
    """An id whose form only its own provider accepts is replaced where another one is asked."""
    call = ToolCallPart(call_id="call_1_1_00000000", provider_call_id=given, name="weather", arguments="{}")
    step = AssistantMessage(parts=(call,))
    body = provider_requests([QUESTION, step, results(step, "warm")], tools=TOOLS)[api]

    assert FAULTS[api](body) == []
    assert told(api, body) == {"call_1_1_00000000": "warm"}


def test_odd_ids_go_back_to_their_own_provider() -> None:
    """A provider that makes ids of an odd form gets them back as they were."""
    script = [Says(calls=[Call("weather", {}, id="functions.weather:0")]), Says("Done.")]
    with ProviderServer(script) as server:
        asked = model("openai", server)
        step = recorded(ask(asked), 1)
        ask(asked, [QUESTION, step, results(step, "warm")])

    assert told("openai", server.bodies[1]) == {"functions.weather:0": "warm"}
