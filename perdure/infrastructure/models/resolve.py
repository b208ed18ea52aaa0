"""From the name of a model to the model."""

from __future__ import annotations

from perdure.application.ports.model import Model


def resolve_model(name: str) -> Model:
    """Return the model of a name such as `"openai:gpt-5"`, reached through pydantic-ai.

    Raises:
        MissingExtra: pydantic-ai, or the SDK of the provider, is not installed.
        ConfigurationError: No provider is known by this name.
    """
    # Loaded only when a model is named by text: the package behind it is optional and slow to import.
    from perdure.infrastructure.models.pydantic_ai import PydanticAIModel

    return PydanticAIModel(name)
