"""From what an agent names as its model to the model."""

from __future__ import annotations

from perdure.application.ports.model import Model


def resolve_model(spec: str | Model) -> Model:
    """Return the model of a name such as `"openai:gpt-5"`, reached through pydantic-ai.

    Anything but a name is a model already, and comes back as it is.

    Raises:
        MissingExtra: pydantic-ai, or the SDK of the provider, is not installed.
        ConfigurationError: No provider is known by this name, or it has no key to go by.
    """
    if not isinstance(spec, str):
        return spec
    # Loaded only when a model is named by text: the package behind it is optional and slow to import.
    from perdure.infrastructure.models.pydantic_ai import PydanticAIModel

    return PydanticAIModel(spec)
