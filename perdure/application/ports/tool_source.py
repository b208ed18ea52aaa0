"""The port to tools that live elsewhere: behind MCP, an API gateway, a plugin host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pydantic import JsonValue

from perdure.application.tool_context import ToolContext
from perdure.domain.tools import ToolSpec


class ToolSource(Protocol):
    """Tools whose list is fetched from somewhere. Users hand in their own.

    The list is asked for when a run starts, and pinned. A run that goes on is served by its pins: the list
    may be cold, empty or another by then, and is not asked for.
    """

    @property
    def name(self) -> str:
        """What runs are pinned to: another name is another source."""
        ...

    def list_tools(self) -> Sequence[ToolSpec]:
        """Return the tools that there are now. It may block, and raise what it likes."""
        ...

    async def call(self, tool: str, arguments: Mapping[str, JsonValue], context: ToolContext) -> object:
        """Run a tool with arguments that fit its pinned schema, and return its result.

        Raises:
            perdure.ToolError: It did not happen, and here is why. Anything else leaves the call in doubt.
        """
        ...
