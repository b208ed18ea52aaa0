"""Content that providers, or UTF-8, have no form for."""

from __future__ import annotations

import json

import pytest

from perdure.domain.messages import (
    AssistantMessage,
    TextPart,
    ToolCallPart,
    UserMessage,
)
from tests.models.talking import FAULTS, QUESTION, TOOLS, ask, asked_for, model, recorded, results, told
from tests.support.provider_answers import Call, Says
from tests.support.provider_requests import APIS, provider_requests
from tests.support.provider_server import ProviderServer

each_api = pytest.mark.parametrize("api", APIS)
WITH_SIGNATURES = ("anthropic", "responses")
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


def test_arguments_that_are_nested_too_deep_to_read() -> None:
    """JSON of ten thousand levels is recorded, and goes back as text."""
    deep = '{"city": ' + "[" * 10_000 + "]" * 10_000 + "}"
    with ProviderServer([Says(calls=[Call("weather", deep, id="c1")]), Says("Sorry.")]) as server:
        asked = model("openai", server)
        step = recorded(ask(asked), 1)
        ask(asked, [QUESTION, step, results(step, "too deep", ok=False)])

    assert asked_for("openai", server.bodies[1])["c1"] == {"INVALID_JSON": deep}


@each_api
def test_a_name_that_no_tool_can_have(api: str) -> None:
    """A call of a tool that the model made up goes back under a name of the form that providers demand."""
    step = AssistantMessage(
        parts=(ToolCallPart(call_id="call_1_1_00000000", name="fs.read file/é", arguments="{}"),)
    )
    body = provider_requests([QUESTION, step, results(step, "no such tool", ok=False)], tools=TOOLS)[api]

    assert '"fs_read_file__"' in json.dumps(body)


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
