"""Conversations of perdure as they reach the providers, through the real SDKs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from threading import Thread

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from perdure.application.ports.model import ModelRequest
from perdure.domain.messages import AssistantMessage, Message, UserMessage
from perdure.domain.tools import ToolSpec
from perdure.infrastructure.models.pydantic_ai import PydanticAIModel
from tests.support.provider_answers import Says
from tests.support.provider_rules import Body
from tests.support.provider_server import KEY, ProviderServer

APIS = ("openai", "responses", "anthropic")


def model_for(api: str, server: ProviderServer, key: str = KEY) -> Model:
    """Return a model of pydantic-ai whose requests go to the server, without retries of the SDK's own."""
    if api == "anthropic":
        claude = AsyncAnthropic(api_key=key, base_url=server.url, max_retries=0)
        return AnthropicModel("claude-sonnet-4-5", provider=AnthropicProvider(anthropic_client=claude))
    gpt = AsyncOpenAI(api_key=key, base_url=f"{server.url}/v1", max_retries=0)
    kind = OpenAIChatModel if api == "openai" else OpenAIResponsesModel
    return kind("gpt-5", provider=OpenAIProvider(openai_client=gpt))


def provider_requests(
    messages: Sequence[Message], prompt: str = "", tools: Sequence[ToolSpec] = ()
) -> dict[str, Body]:
    """Render a conversation to the bodies that the providers get, faults and all.

    A conversation that ends with an answer is asked on, as it would be: with something that the user says.

    Returns:
        `"openai"` (chat completions), `"responses"` and `"anthropic"` -> the body of the request.
    """
    if messages and isinstance(messages[-1], AssistantMessage):
        messages = [*messages, UserMessage(text="And then?")]
    request = ModelRequest(
        run_id="run-1", step=1, prompt=prompt, messages=messages, tools=tools, timeout=30.0
    )
    return _Post.office().bodies(request)


class _Post:
    """A server that refuses nothing, and a thread whose event loop keeps the connections to it."""

    def __init__(self) -> None:
        self._server = ProviderServer(lambda _: Says("Understood."), strict=False)
        self._server.__enter__()
        self._loop = asyncio.new_event_loop()
        Thread(target=self._loop.run_forever, daemon=True).start()
        self._models = {api: PydanticAIModel(model_for(api, self._server)) for api in APIS}

    @staticmethod
    @cache
    def office() -> _Post:
        """Return the one of this process."""
        return _Post()

    def bodies(self, request: ModelRequest) -> dict[str, Body]:
        """Send a request to each provider, and return what came in."""
        return asyncio.run_coroutine_threadsafe(self._bodies(request), self._loop).result(timeout=60)

    async def _bodies(self, request: ModelRequest) -> dict[str, Body]:
        found: dict[str, Body] = {}
        for api, model in self._models.items():
            await model.respond(request)
            found[api] = self._server.requests.pop().body
        return found
