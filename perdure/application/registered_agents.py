"""The agents at hand, several versions of one name side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perdure.application.agent import Agent
from perdure.application.ports.model import Model
from perdure.domain.errors import ConfigurationError
from perdure.domain.pins import Pins, differences


class RegisteredAgents:
    """Finds the agent for a new run, and the one that a run is pinned to."""

    def __init__(self, agents: Sequence[Agent], resolve_model: Callable[[str], Model]) -> None:
        """Register agents, and find their models: a model that cannot be had is an error now, not later.

        Raises:
            ConfigurationError: Two agents cannot be told apart, or a model cannot be had.
        """
        self._agents = tuple(agents)
        self._models = {
            id(agent): resolve_model(agent.model) if isinstance(agent.model, str) else agent.model
            for agent in agents
        }
        self._standing = {id(agent): agent.pins(agent.tools.function_pins()) for agent in agents}
        seen: set[tuple[str, str, str]] = set()
        for agent in agents:
            identity = (agent.name, agent.model_name, agent.prompt_version)
            if identity in seen:
                raise ConfigurationError(
                    f"agent {agent.name!r} is registered twice with model {agent.model_name!r} and prompt "
                    f"version {agent.prompt_version!r}: give one of them another version"
                )
            seen.add(identity)

    @property
    def all(self) -> tuple[Agent, ...]:
        """The agents, in the order of registration."""
        return self._agents

    def standing(self, agent: Agent) -> Pins:
        """Return the pins of an agent without the tools of its sources, which are not asked."""
        return self._standing[id(agent)]

    def model(self, agent: Agent) -> Model:
        """Return the model of a registered agent."""
        return self._models[id(agent)]

    def pins(self, agent: Agent) -> Pins:
        """Return what a run that starts now is pinned to; tool sources are asked for their lists.

        Raises:
            ConfigurationError: A source cannot say.
        """
        return agent.pins(agent.tools.pins()) if agent.tools.sources else self._standing[id(agent)]

    def newest(self, name: str, prompt_version: str | None = None) -> Agent:
        """Return the agent that a new run gets: the last one registered under this name.

        Raises:
            ConfigurationError: None is registered.
        """
        for agent in reversed(self._agents):
            if agent.name == name and prompt_version in (None, agent.prompt_version):
                return agent
        version = f" with prompt version {prompt_version!r}" if prompt_version is not None else ""
        names = ", ".join(sorted({agent.name for agent in self._agents})) or "none"
        raise ConfigurationError(f"no agent {name!r}{version} is registered (registered: {names})")

    def serving(self, name: str, pins: Pins) -> tuple[Agent | None, tuple[str, ...]]:
        """Find the agent that can go on with a run.

        Returns:
            The agent and nothing; or None and what is missing, compared with the nearest one.
        """
        missing: tuple[str, ...] | None = None
        for agent in self._agents:
            if agent.name == name:
                found = differences(pins, self._standing[id(agent)], sources=agent.tools.sources)
                if not found:
                    return agent, ()
                if missing is None or len(found) < len(missing):
                    missing = found
        return None, missing or (f"agent {name!r}: not registered",)
