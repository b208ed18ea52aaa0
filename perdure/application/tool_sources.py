"""Tools of a source, served by the pins of the run that uses them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic import JsonValue
from pydantic_core import from_json

from perdure.application.ports.tool_source import ToolSource
from perdure.application.tool_context import ToolContext
from perdure.domain.errors import ConfigurationError, MissingExtra, ToolDefinitionError
from perdure.domain.pins import ToolPin
from perdure.domain.tools import Policy, ToolContract, Verdict


class IncludedSource:
    """A source, and on what terms its tools are run."""

    def __init__(
        self, source: ToolSource, contracts: Mapping[str, ToolContract], default: ToolContract
    ) -> None:
        for name, contract in contracts.items():
            if contract.policy is Policy.VERIFY_THEN_DECIDE:
                raise ToolDefinitionError(
                    f"tool {name!r} of source {source.name!r}: there is no verify to ask; "
                    "wrap the tool in a function of your own, or choose another policy"
                )
        self._source = source
        self._contracts = contracts
        self._default = default
        self._validator = _validator()

    def pins(self) -> list[ToolPin]:
        """Ask the source for its tools.

        Raises:
            ConfigurationError: It cannot say.
        """
        try:
            listed = self._source.list_tools()
        except Exception as error:
            raise ConfigurationError(
                f"tool source {self._source.name!r} cannot list its tools, so no run can start: {error}"
            ) from error
        return [
            ToolPin(
                name=spec.name,
                description=spec.description,
                parameters=spec.parameters,
                policy=self._contract(spec.name).policy,
                source=self._source.name,
            )
            for spec in listed
        ]

    def tool(self, pin: ToolPin) -> SourceTool:
        """Return a tool as a run is pinned to it."""
        return SourceTool(pin, self._contract(pin.name), self._source, self._validator(pin.parameters))

    def _contract(self, name: str) -> ToolContract:
        return self._contracts.get(name, self._default)


@dataclass(frozen=True, slots=True)
class SourceTool:
    """A pinned tool of a source."""

    pin: ToolPin
    contract: ToolContract
    source: ToolSource
    validator: Any

    def bind(self, arguments: str) -> dict[str, object]:
        """Check arguments against the pinned schema and return them.

        Raises:
            ValueError: When they do not fit.
        """
        bound = from_json(arguments.strip() or "{}", allow_inf_nan=False)
        faults = [
            f"{'.'.join(map(str, fault.absolute_path)) or 'arguments'}: {fault.message}"
            for fault in self.validator.iter_errors(bound)
        ]
        if not isinstance(bound, dict):
            faults.insert(0, "arguments: not a JSON object")
        if faults:
            raise ValueError("; ".join(faults))
        return cast("dict[str, object]", bound)

    async def run(self, arguments: str, context: ToolContext) -> object:
        """Have the source run it."""
        bound = cast("dict[str, JsonValue]", self.bind(arguments))
        return await self.source.call(self.pin.name, bound, context)

    async def ask(self, arguments: str, context: ToolContext) -> object:  # noqa: ARG002 - it has no verify
        """Say that it cannot be told."""
        return Verdict.unknown(evidence="tools of a source have no verify")


def _validator() -> Callable[[Mapping[str, JsonValue]], Any]:
    try:
        module = importlib.import_module("jsonschema")
    except ImportError as error:
        raise MissingExtra(
            "tool sources need jsonschema to check arguments: pip install 'perdure[sources]'"
        ) from error
    return cast("Callable[[Mapping[str, JsonValue]], Any]", module.Draft202012Validator)
