"""Models of any provider, through the request interface of pydantic-ai; its agent loop is not used."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from perdure.application.ports.model import ModelRequest
from perdure.domain.errors import ConfigurationError, MissingExtra, ModelError
from perdure.domain.messages import Reply
from perdure.infrastructure.models.connection_loop import on_connection_loop

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings


class PydanticAIModel:
    """A model that pydantic-ai knows how to reach.

    Example:
        ```python
        PydanticAIModel("anthropic:claude-sonnet-4-5", settings={"max_tokens": 8_000})
        ```
    """

    def __init__(
        self, name_or_model: str | Model, *, settings: ModelSettings | None = None, name: str | None = None
    ) -> None:
        """Find the model; no request is made.

        Args:
            name_or_model: A name such as `"openai:gpt-5"`, or a model of pydantic-ai, which is used as it is,
                its client's own retries and timeouts included.
            settings: Settings of pydantic-ai that go with every request. The timeout of a request is the
                shorter of theirs and the agent's. A model given by name makes no retries inside a request
                unless they say otherwise: the run retries, and records it.
            name: What runs are pinned to; by default the name, or the model's provider and name.

        Raises:
            MissingExtra: pydantic-ai, or the SDK of the provider, is not installed.
            ConfigurationError: No provider is known by this name, or it has no key to go by; or what was
                given is neither a name nor a model of pydantic-ai.
        """
        self._settings: Mapping[str, Any] = settings or {}
        self._model = _model(name_or_model)
        self._is_ours = isinstance(name_or_model, str)
        if name is not None:
            self._name = name
        elif isinstance(name_or_model, str):
            self._name = name_or_model
        else:
            self._name = f"{name_or_model.system}:{name_or_model.model_name}"

    @property
    def name(self) -> str:
        """The name that runs are pinned to."""
        return self._name

    async def respond(self, request: ModelRequest) -> Reply:
        """Ask for the next message.

        Raises:
            ModelError: `permanent` when the provider refuses the request, the key or the model; `transient`
                for anything else, with the wait that the provider asked for.
        """
        from pydantic_ai.direct import model_request

        from perdure.infrastructure.models.answering import reply
        from perdure.infrastructure.models.asking import conversation, parameters
        from perdure.infrastructure.models.failures import model_error, secrets_of

        try:
            messages = conversation(request.messages, request.prompt, self._model.system)
            response = await on_connection_loop(
                lambda: model_request(
                    self._model,
                    messages,
                    model_settings=self._settings_for(request),
                    model_request_parameters=parameters(request.tools),
                )
            )
            return reply(response)
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever is raised here, the caller gets a ModelError
            # Not chained: the error underneath holds the request, and with it the key.
            raise model_error(error, secrets_of(self._model)) from None

    def _settings_for(self, request: ModelRequest) -> ModelSettings:
        settings = dict(self._settings)
        unsupported = self._model.unsupported_settings
        if self._is_ours and "max_retries" not in unsupported:
            settings.setdefault("max_retries", 0)
        for limit in ("timeout", "request_timeout"):
            given = settings.get(limit)
            if limit not in unsupported and (not isinstance(given, int | float) or given > request.timeout):
                settings[limit] = request.timeout
        return cast("ModelSettings", settings)


def _model(name_or_model: object) -> Model:
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import Model, infer_model
    except ImportError as error:
        raise MissingExtra(
            f"model {str(name_or_model)!r} is reached through pydantic-ai, which is not installed: "
            "pip install 'perdure[pydantic-ai]'"
        ) from error
    if not isinstance(name_or_model, str | Model):
        raise ConfigurationError(
            "a model is given by name, such as 'openai:gpt-5', or as a model of pydantic-ai, "
            f"not as {type(name_or_model).__name__}"
        )
    try:
        return infer_model(cast("str | Model", name_or_model))
    except ImportError as error:
        found = re.search(r"pydantic-ai-slim\[([\w-]+)\]", str(error))
        command = f"pip install 'pydantic-ai-slim[{found[1]}]'" if found else str(error)
        raise MissingExtra(
            f"model {name_or_model!r} needs the SDK of its provider, which is not installed: {command}"
        ) from error
    except (UserError, ValueError) as error:
        raise ConfigurationError(f"model {name_or_model!r} cannot be used: {error}") from error
