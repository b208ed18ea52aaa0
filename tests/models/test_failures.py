"""What goes wrong on the way to a provider, and what of it may pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event

import pytest
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel

from perdure import ModelError
from perdure.domain.messages import TextPart, UserMessage
from perdure.infrastructure.models.failures import without_secrets
from perdure.infrastructure.models.pydantic_ai import PydanticAIModel
from tests.models.talking import QUESTION, ask, model, request_for
from tests.support.provider_answers import Answer, Drops, Fails, Hangs, Says
from tests.support.provider_requests import APIS, model_for
from tests.support.provider_server import KEY, ProviderServer, Received

each_api = pytest.mark.parametrize("api", APIS)


@each_api
@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
def test_what_may_pass_is_transient(api: str, status: int) -> None:
    """Overload, rate limits and failures of the provider may be tried again, and by the run alone."""
    with (
        ProviderServer(lambda _: Fails(status, "not now")) as server,
        pytest.raises(ModelError, match="not now") as raised,
    ):
        ask(model(api, server))

    assert raised.value.kind == "transient"
    assert len(server.requests) == 1


@each_api
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_cannot_pass_is_permanent(api: str, status: int) -> None:
    """A request, a key or a model that the provider refuses is refused again: a person is needed."""
    with (
        ProviderServer([Fails(status, "not like this")]) as server,
        pytest.raises(ModelError, match="not like this") as raised,
    ):
        ask(model(api, server))

    assert raised.value.kind == "permanent"
    assert raised.value.retry_after is None


@each_api
def test_the_wait_that_the_provider_asks_for(api: str) -> None:
    """Seconds in Retry-After are handed on to the run."""
    with (
        ProviderServer([Fails(429, "slow down", {"retry-after": "17"})]) as server,
        pytest.raises(ModelError) as raised,
    ):
        ask(model(api, server))

    assert (raised.value.kind, raised.value.retry_after) == ("transient", 17.0)


def test_an_empty_account_does_not_fill_itself() -> None:
    """A 429 that says that the quota is used up is permanent: no wait mends it."""
    with (
        ProviderServer([Fails(429, "You exceeded your quota", code="insufficient_quota")]) as server,
        pytest.raises(ModelError) as raised,
    ):
        ask(model("openai", server))

    assert raised.value.kind == "permanent"


@each_api
def test_a_dropped_connection_is_transient(api: str) -> None:
    """A connection that is closed without an answer may be tried again."""
    with ProviderServer([Drops()]) as server, pytest.raises(ModelError) as raised:
        ask(model(api, server))

    assert raised.value.kind == "transient"


@each_api
def test_a_provider_that_cannot_be_reached_is_transient(api: str) -> None:
    """Nobody listening at the address may be somebody soon."""
    with ProviderServer() as server:
        asked = model(api, server)

    with pytest.raises(ModelError) as raised:
        ask(asked)

    assert raised.value.kind == "transient"


@each_api
def test_a_provider_that_hangs_is_given_up_in_time(api: str) -> None:
    """The timeout of the request ends a call that brings no answer, as a transient failure."""
    with ProviderServer([Hangs()]) as server, pytest.raises(ModelError) as raised:
        ask(model(api, server), timeout=0.2)

    assert raised.value.kind == "transient"


@each_api
def test_a_wrong_key_is_permanent_and_not_shown(api: str) -> None:
    """The provider repeats the key in its error; ours does not."""
    wrong = "verysecretword-" + KEY[::-1]
    with ProviderServer([Says("Never.")]) as server, pytest.raises(ModelError, match="401") as raised:
        ask(model(api, server, key=wrong))

    assert raised.value.kind == "permanent"
    assert wrong not in str(raised.value)
    assert "verysecretword" not in f"{raised.value!r} {raised.value.__cause__!r}"


@pytest.mark.parametrize("wrap", [WrapperModel, lambda inner: FallbackModel(inner, inner)])
def test_a_wrong_key_inside_another_model_is_not_shown(wrap: Callable[[Model], Model]) -> None:
    """Keys of models inside a model are blotted out as well."""
    wrong = "verysecretword-" + KEY[::-1]
    with ProviderServer() as server, pytest.raises(ModelError, match="401") as raised:
        ask(PydanticAIModel(wrap(model_for("openai", server, wrong))))

    assert raised.value.kind == "permanent"
    assert "verysecretword" not in str(raised.value)


def test_a_key_in_the_environment_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment holds as a key is blotted out, whoever repeats it."""
    monkeypatch.setenv("SOME_PROVIDER_API_KEY", "verysecretword")
    with (
        ProviderServer([Fails(400, "not with verysecretword!")]) as server,
        pytest.raises(ModelError, match=r"not with \*\*\*!"),
    ):
        ask(model("openai", server))


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer ***"),
        ('{"x-api-key": "abcdef"}', '{"x-api-key": "***"}'),
        ("Incorrect API key provided: sk-proj-abcdefgh12", "Incorrect API key provided: ***"),
        ("the model gpt-5 is overloaded", "the model gpt-5 is overloaded"),
    ],
)
def test_what_looks_like_a_key_is_blotted_out(said: str, shown: str) -> None:
    """Keys and headers are blotted out wherever they stand; other text is left alone."""
    assert without_secrets(said) == shown


def test_a_conversation_that_breaks_a_rule_is_permanent() -> None:
    """The strict server refuses a bad conversation, and the error carries its reason."""
    with (
        ProviderServer([Says("Never.")]) as server,
        pytest.raises(ModelError, match="at least one message") as raised,
    ):
        ask(model("anthropic", server), [])

    assert raised.value.kind == "permanent"


@each_api
def test_one_model_serves_one_loop_after_another(api: str) -> None:
    """A model goes on working when the event loop that first used it has ended, as after `advance()`."""
    with ProviderServer(lambda _: Says("Sunny.")) as server:
        asked = model(api, server)
        texts = [
            part.text
            for _ in range(3)
            for part in ask(asked, [QUESTION, UserMessage(text="Now?")]).parts
            if isinstance(part, TextPart)
        ]

    assert texts == ["Sunny."] * 3


@each_api
def test_a_cancelled_call_ends(api: str) -> None:
    """A caller that gives up is let go at once, and the model still serves the next one."""

    async def give_up() -> None:
        request = asyncio.ensure_future(asyncio.to_thread(arrived.wait))
        asking = asyncio.ensure_future(asked.respond(request_for()))
        await request
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    answers = iter([Hangs(), Says("Sunny.")])
    arrived = Event()

    def script(_: Received) -> Answer:
        arrived.set()
        return next(answers)

    with ProviderServer(script) as server:
        asked = model(api, server)
        asyncio.run(give_up())
        reply = ask(asked)

    assert reply.parts
