"""Runs of one call."""

from __future__ import annotations

import json
from typing import Any

from perdure import Agent, AgentRuns, Limits, ToolRegistry
from perdure.domain.content import InlineContent
from perdure.domain.events import ToolCallSucceeded
from perdure.testing import ScriptedModel, asks, says


def called(tools: ToolRegistry, tool: str, arguments: object = None, **changes: Any) -> AgentRuns:
    """Drive a run that makes one call."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    model = ScriptedModel([asks(tool, text), says("Done.")])
    agent = Agent("a", model, "v1", tools=tools, limits=Limits(first_delay=0.001), **changes)
    runs = AgentRuns.in_memory(agents=[agent])
    runs.advance(runs.start("a", "Go.", run_id="r", tenant="acme"))
    return runs


def result_of(runs: AgentRuns) -> InlineContent:
    (content,) = [event.content for event in runs.events("r") if isinstance(event, ToolCallSucceeded)]
    assert isinstance(content, InlineContent)
    return content
