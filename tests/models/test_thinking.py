"""What a provider wants back word for word, and what it must not get back."""

from __future__ import annotations

import json

import pytest
from pydantic_ai import messages as theirs

from perdure import ModelError
from perdure.domain.messages import (
    AssistantMessage,
    Message,
    OpaquePart,
    TextPart,
    ThinkingPart,
    UserMessage,
)
from perdure.infrastructure.models.answering import reply
from perdure.infrastructure.models.asking import conversation
from tests.models.talking import FAULTS, QUESTION, ask, model, recorded, results
from tests.support.provider_answers import Call, Says, Thought
from tests.support.provider_requests import APIS, provider_requests
from tests.support.provider_server import ProviderServer

each_api = pytest.mark.parametrize("api", APIS)
WITH_SIGNATURES = ("anthropic", "responses")


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


@pytest.mark.parametrize("api", WITH_SIGNATURES)
def test_thinking_behind_text_that_led_to_nothing(api: str) -> None:
    """Thinking at the end of an answer that was cut off is left out, and what stands before it is kept."""
    with ProviderServer([Says("Let me see.", thoughts=[Thought("s1", "Hm.")]), Says("Sunny.")]) as server:
        asked = model(api, server)
        step = recorded(ask(asked), 1)
        cut_off = AssistantMessage(parts=(*step.parts, step.parts[0]))
        ask(asked, [QUESTION, cut_off, UserMessage(text="Well?")])
        sent = server.requests[-1].text

    assert "Let me see." in sent
    assert sent.count('"s1"') == 1


def test_signed_text_comes_back_even_if_blank() -> None:
    """A signature may hang on text that is empty: it goes back in its place, word for word."""
    signed = theirs.TextPart("", provider_name="google", provider_details={"thought_signature": "c2lnbmVk"})
    call = theirs.ToolCallPart("weather", {"city": "Rome"}, tool_call_id="c1")

    step = recorded(reply(theirs.ModelResponse(parts=[signed, call], provider_name="google")), 1)
    rendered = conversation([QUESTION, step], "", "google")[1]

    assert rendered.parts == [signed, call]


def test_every_kind_of_part_survives_the_log() -> None:
    """What pydantic-ai hands over goes back as it came: files, tools of the provider, ids and details."""
    parts: list[theirs.ModelResponsePart] = [
        theirs.ThinkingPart("Hm.", id="rs_1", signature="s", provider_name="p", provider_details={"a": [1]}),
        theirs.NativeToolCallPart("web_search", {"q": "é"}, tool_call_id="w1", provider_name="p"),
        theirs.NativeToolReturnPart("web_search", [{"url": "u"}], tool_call_id="w1", provider_name="p"),
        theirs.FilePart(theirs.BinaryImage(b"\x00\xff", media_type="image/png"), id="f1", provider_name="p"),
        theirs.TextPart("Found.", id="msg_1", provider_name="p", provider_details={"phase": "final"}),
        theirs.ToolCallPart("weather", {"city": "é"}, tool_call_id="c1", id="fc_1", provider_name="p"),
    ]
    response = theirs.ModelResponse(
        parts=parts,
        model_name="m",
        provider_name="p",
        provider_url="https://example.com",
        provider_response_id="resp_1",
        provider_details={"finish_reason": "stop"},
        finish_reason="stop",
    )

    rendered = conversation([QUESTION, recorded(reply(response), 1)], "", "p")[1]

    assert isinstance(rendered, theirs.ModelResponse)
    assert rendered.parts == parts
    for name in ("model_name", "provider_name", "provider_url", "provider_response_id", "provider_details"):
        assert getattr(rendered, name) == getattr(response, name)


def test_what_cannot_be_read_any_more_is_permanent() -> None:
    """What a newer version kept and this one does not know is told to a person, and not tried again."""
    newer = {"pydantic_ai": {"part": {"part_kind": "hologram", "secret": "unknown form"}}}
    step = AssistantMessage(parts=(OpaquePart(opaque=newer), TextPart(text="Hello.")))

    with ProviderServer() as server, pytest.raises(ModelError, match="older than the one") as raised:
        ask(model("openai", server), [QUESTION, step, UserMessage(text="Go on.")])

    assert raised.value.kind == "permanent"
    assert "unknown form" not in str(raised.value)
    assert server.requests == []
