"""Models by name: what they are pinned to, what they need, and how they are set."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from perdure import ConfigurationError, MissingExtra, ModelError
from perdure.infrastructure.models.pydantic_ai import PydanticAIModel
from perdure.infrastructure.models.resolve import resolve_model
from perdure.testing import ScriptedModel
from tests.models.talking import QUESTION, ask, model
from tests.support.provider_answers import Fails, Hangs, Says
from tests.support.provider_requests import model_for
from tests.support.provider_server import ProviderServer

NAMES = ["openai:gpt-5", "openai-chat:gpt-5", "anthropic:claude-sonnet-4-5"]


@pytest.fixture
def at_the_server(monkeypatch: pytest.MonkeyPatch) -> Callable[[ProviderServer], None]:
    """Return a function that has models given by name reach a server."""

    def at(server: ProviderServer) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)

    return at


@pytest.mark.parametrize("name", NAMES)
def test_a_model_by_name(name: str, at_the_server: Callable[[ProviderServer], None]) -> None:
    """A name is resolved to a model that is pinned to it, and that answers."""
    with ProviderServer([Says("Sunny.")]) as server:
        at_the_server(server)
        found = resolve_model(name)
        assert isinstance(found, PydanticAIModel)
        reply = ask(found)

    assert found.name == name
    assert len(reply.parts) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_model_by_name_leaves_retries_to_the_run(
    name: str, at_the_server: Callable[[ProviderServer], None]
) -> None:
    """One request is one request: the SDK behind a name does not retry by itself."""
    with ProviderServer(lambda _: Fails(500)) as server:
        at_the_server(server)
        with pytest.raises(ModelError):
            ask(PydanticAIModel(name))

    assert len(server.requests) == 1


def test_a_model_that_is_one_already() -> None:
    """What is a model already comes back as it is."""
    scripted = ScriptedModel(["Sunny."])

    assert resolve_model(scripted) is scripted


def test_the_name_of_a_given_model() -> None:
    """A given model is pinned to its provider and name, or to what the caller says."""
    with ProviderServer() as server:
        given = model_for("anthropic", server)

    assert PydanticAIModel(given).name == "anthropic:claude-sonnet-4-5"
    assert PydanticAIModel(given, name="house-model").name == "house-model"


def test_settings_go_with_every_request() -> None:
    """Settings of pydantic-ai reach the provider."""
    with ProviderServer([Says("Sunny.")]) as server:
        ask(model("anthropic", server, settings={"max_tokens": 123, "temperature": 0.5}))

    assert (server.bodies[0]["max_tokens"], server.bodies[0]["temperature"]) == (123, 0.5)


def test_the_shorter_timeout_counts() -> None:
    """A timeout in the settings that is shorter than the agent's ends the call."""
    with ProviderServer([Hangs()]) as server, pytest.raises(ModelError) as raised:
        ask(model("openai", server, settings={"timeout": 0.2}), [QUESTION], timeout=100.0)

    assert raised.value.kind == "transient"


def test_a_name_that_nobody_knows() -> None:
    """A name without a known provider is an error before anything runs, and says which name."""
    for name in ("nobody:gpt-5", "gpt-of-no-provider"):
        with pytest.raises(ConfigurationError, match=name):
            resolve_model(name)


@pytest.mark.parametrize("given", [None, 5, object()])
def test_what_is_no_model(given: object) -> None:
    """Neither a name nor a model of pydantic-ai is an error that says what it was."""
    with pytest.raises(ConfigurationError, match=type(given).__name__):
        PydanticAIModel(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*NAMES, "deepseek:deepseek-chat"])
def test_a_missing_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider whose key is not set is an error before anything runs, and names the variable."""
    variable = f"{name.partition(':')[0].removesuffix('-chat').upper()}_API_KEY"
    monkeypatch.delenv(variable, raising=False)

    with pytest.raises(ConfigurationError, match=variable):
        resolve_model(name)


@pytest.mark.parametrize(
    ("hidden", "name", "command"),
    [
        ("pydantic_ai", "openai:gpt-5", "pip install 'perdure[pydantic-ai]'"),
        ("openai", "openai:gpt-5", "pip install 'pydantic-ai-slim[openai]'"),
        ("anthropic", "anthropic:claude-sonnet-4-5", "pip install 'pydantic-ai-slim[anthropic]'"),
    ],
)
def test_what_is_not_installed(hidden: str, name: str, command: str) -> None:
    """A missing package is named by the command that installs it."""
    # In a process of its own: a module that was imported once cannot be hidden from those that hold it.
    program = f"""
import sys
sys.modules[{hidden!r}] = None
from perdure import MissingExtra
from perdure.infrastructure.models.resolve import resolve_model
try:
    resolve_model({name!r})
except MissingExtra as error:
    print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert command in ran.stdout
    assert issubclass(MissingExtra, ConfigurationError)


def test_perdure_does_not_load_pydantic_ai() -> None:
    """The optional package is not loaded until a model is named."""
    program = (
        "import sys, perdure, perdure.infrastructure.models.pydantic_ai; print('pydantic_ai' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert ran.stdout.strip() == "False"
