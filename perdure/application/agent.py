"""An agent: what a run is pinned to when it starts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from perdure.application.ports.model import Model
from perdure.application.tool_registry import ToolRegistry
from perdure.domain.budget import Budget
from perdure.domain.errors import ConfigurationError
from perdure.domain.moves import Limits
from perdure.domain.pins import Pins, ToolPin


@dataclass(frozen=True)
class Agent:
    """A definition: several versions of one agent may be registered side by side.

    Attributes:
        name: What runs are started by.
        model: A model, or its name (`"openai:gpt-5"`) for the `pydantic-ai` extra to reach.
        prompt_version: Change it whenever the prompt changes.
        prompt: The system prompt.
        tools: What it may do.
        budget: What each run may use, unless its start says otherwise.
        limits: How hard a run may try.
        model_timeout: Seconds that one model call may take.
    """

    name: str
    model: Model | str
    prompt_version: str
    prompt: str = ""
    tools: ToolRegistry = field(default_factory=ToolRegistry)
    budget: Budget = field(default_factory=Budget)
    limits: Limits = field(default_factory=Limits)
    model_timeout: float = 600.0

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9._:-]{1,128}", self.name):
            raise ConfigurationError(
                f"{self.name!r} is no name for an agent: letters, digits and . _ : - only, 128 at most"
            )
        if not self.prompt_version:
            raise ConfigurationError(f"agent {self.name!r}: give the prompt a version, such as 'v1'")
        if not self.model_timeout > 0:
            raise ConfigurationError(f"agent {self.name!r}: model_timeout is a number of seconds above 0")

    @property
    def model_name(self) -> str:
        """The name that runs are pinned to."""
        return self.model if isinstance(self.model, str) else self.model.name

    def pins(self, tools: tuple[ToolPin, ...]) -> Pins:
        """Return what a run with these tools is pinned to."""
        return Pins(
            model=self.model_name,
            prompt_version=self.prompt_version,
            prompt=self.prompt,
            tools=tools,
        )
