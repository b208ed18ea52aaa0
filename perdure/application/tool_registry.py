"""Tools, registered by a decorator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar, overload

from pydantic import ValidationError

from perdure.application.ports.tool_source import ToolSource
from perdure.application.tool_definition import FunctionTool, Tool, VerifyFunction, define, readable
from perdure.application.tool_sources import IncludedSource
from perdure.domain.errors import ToolDefinitionError
from perdure.domain.pins import ToolPin
from perdure.domain.tools import Policy, ToolContract

Function = TypeVar("Function", bound=Callable[..., Any])


class ToolRegistry:
    """The tools that an agent may be given."""

    def __init__(self) -> None:
        self._tools: dict[str, FunctionTool] = {}
        self._sources: dict[str, IncludedSource] = {}

    @overload
    def tool(self, function: Function, /) -> Function: ...
    @overload
    def tool(
        self,
        /,
        *,
        policy: Policy = ...,
        verify: VerifyFunction | None = ...,
        timeout: float = ...,
        settle: float = ...,
        key_ttl: timedelta = ...,
        max_attempts: int = ...,
        max_verifications: int = ...,
        name: str | None = ...,
        description: str | None = ...,
    ) -> Callable[[Function], Function]: ...
    def tool(
        self,
        function: Function | None = None,
        /,
        *,
        policy: Policy = Policy.ESCALATE_IF_UNKNOWN,
        verify: VerifyFunction | None = None,
        name: str | None = None,
        description: str | None = None,
        **terms: float | int | timedelta,
    ) -> Function | Callable[[Function], Function]:
        """Register a function as a tool, sync or async; it stays callable as before.

        Its docstring is what the model reads; its parameters become a JSON Schema. A parameter of type
        `ToolContext` is filled in.

        Args:
            function: The function, when the decorator is used without arguments.
            policy: What to do with a call whose end was not seen. Without one, a person decides.
            verify: For `VERIFY_THEN_DECIDE`: called with the same arguments (and the context, if it asks
                for it), returns a `Verdict`.
            name: The tool's name, if not the function's.
            description: What the model reads, if not the docstring.
            **terms: `timeout`, `settle` (seconds), `key_ttl`, `max_attempts`, `max_verifications`: see
                `perdure.domain.tools.ToolContract`.

        Raises:
            ToolDefinitionError: When the function cannot be a tool as written.
        """

        def register(function: Function) -> Function:
            contract = _contract(policy, terms)
            tool = define(function, contract, verify=verify, name=name, description=description)
            self._add(tool)
            return function

        return register if function is None else register(function)

    def _add(self, tool: FunctionTool) -> None:
        if tool.name in self._tools:
            raise ToolDefinitionError(
                f"there is a tool {tool.name!r} already: names are what the model calls tools by, "
                "give one of them another with @tools.tool(name=...)"
            )
        self._tools[tool.name] = tool

    def include(
        self,
        source: ToolSource,
        *,
        policies: Mapping[str, Policy] | None = None,
        **terms: float | int | timedelta,
    ) -> None:
        """Include the tools of a source, whatever they are when a run starts.

        Args:
            source: Where they are.
            policies: Policy by tool name; a tool without one is left to a person.
            **terms: As for `tool()`; they hold for all tools of the source.

        Raises:
            ToolDefinitionError: The source has a name that is taken, or a policy that needs `verify`.
            MissingExtra: Arguments cannot be checked: `jsonschema` is not installed.
        """
        if source.name in self._sources:
            raise ToolDefinitionError(f"there is a tool source {source.name!r} already")
        contracts = {name: _contract(policy, terms) for name, policy in (policies or {}).items()}
        default = _contract(Policy.ESCALATE_IF_UNKNOWN, terms)
        self._sources[source.name] = IncludedSource(source, contracts, default)

    def find(self, pin: ToolPin) -> Tool | None:
        """Return the tool that a run is pinned to, if it is at hand. Sources are not asked."""
        if pin.source is None:
            return self._tools.get(pin.name)
        source = self._sources.get(pin.source)
        return source.tool(pin) if source is not None else None

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the included sources."""
        return tuple(self._sources)

    def function_pins(self) -> tuple[ToolPin, ...]:
        """Return what a run keeps of the functions, in the order of registration."""
        return tuple(tool.pin() for tool in self._tools.values())

    def pins(self) -> tuple[ToolPin, ...]:
        """Return what a run that starts now keeps of all tools; sources are asked for their lists.

        Raises:
            ConfigurationError: A source cannot list its tools.
            ToolDefinitionError: Two tools have the same name.
        """
        pins = list(self.function_pins())
        for source in self._sources.values():
            pins += source.pins()
        names = [pin.name for pin in pins]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ToolDefinitionError(f"more than one tool is called {', '.join(twice)}: rename one")
        return tuple(pins)


def _contract(policy: Policy, terms: Mapping[str, float | int | timedelta]) -> ToolContract:
    try:
        return ToolContract.model_validate({"policy": policy, **terms})
    except ValidationError as error:
        raise ToolDefinitionError(f"the terms of a tool do not fit: {readable(error)}") from error
