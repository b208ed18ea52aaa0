"""The tools of one run: those it is pinned to, served by what is registered now."""

from __future__ import annotations

from perdure.application.tool_definition import Tool
from perdure.application.tool_registry import ToolRegistry
from perdure.domain.pins import Pins
from perdure.domain.tools import ToolContract


class PinnedTools:
    """What the domain asks about the tools of a run: a `Toolbox`."""

    def __init__(self, pins: Pins, registry: ToolRegistry) -> None:
        self._pins = pins
        self._registry = registry

    def find(self, name: str) -> Tool | None:
        """Return the tool, if the run is pinned to one of this name and it is at hand."""
        pin = self._pins.tool(name)
        return self._registry.find(pin) if pin is not None else None

    def contract(self, name: str) -> ToolContract | None:
        """Return the contract of a tool, or None when the run has no such tool."""
        tool = self.find(name)
        return tool.contract if tool is not None else None

    def refusal(self, name: str, arguments: str) -> str | None:
        """Say why a call must not start, in words for the model, or None when it may."""
        tool = self.find(name)
        if tool is None:
            known = ", ".join(pin.name for pin in self._pins.tools) or "none"
            return f"There is no tool {name!r}. The tools are: {known}."
        try:
            tool.bind(arguments)
        except ValueError as error:
            return f"The arguments do not fit the tool, which was not started: {error}"
        return None
