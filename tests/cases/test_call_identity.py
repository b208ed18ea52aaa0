"""Calls are told apart by where they were asked for, and by nothing that a model or a provider chose."""

from __future__ import annotations

import json
from itertools import combinations, pairwise
from typing import Any

import pytest

from perdure import Agent, AgentRuns, Policy, ToolContext, ToolRegistry
from perdure.domain.events import ModelResponded, ToolCallStarted, ToolCallSucceeded
from perdure.domain.messages import AssistantMessage, Message, ToolResultsMessage, wire_ids
from perdure.testing import ScriptedModel, asks, says, together

EQUAL = [
    '{"a": 1, "b": {"x": 1, "y": 2}}',
    '{"b": {"y": 2, "x": 1}, "a": 1}',
    '{"a": 1.0, "b": {"x": 1, "y": 2}}',
    '{ "a" : 1 , "b" : { "x" : 1 , "y" : 2 } }',
    '{"a": 1, "b": {"x": 1, "y": 2}}',
]
UNICODE = ['{"a": "\u00e9", "b": {}}', '{"a": "e\u0301", "b": {}}', '{"a": "\\u00e9", "b": {}}']


class Seen:
    """What a tool was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []

    def tools(self) -> ToolRegistry:
        tools = ToolRegistry()

        @tools.tool(policy=Policy.RERUN_WITH_IDEMPOTENCY_KEY)
        def act(a: Any, b: dict[str, Any], ctx: ToolContext) -> str:
            self.calls.append((ctx.call_id, ctx.idempotency_key, a))
            return f"result of {ctx.call_id}"

        return tools


def run_of(*replies: Any) -> tuple[Seen, AgentRuns, ScriptedModel]:
    seen = Seen()
    model = ScriptedModel([*replies, says("Done.")])
    runs = AgentRuns.in_memory(agents=[Agent("a", model, "v1", tools=seen.tools())])
    runs.advance(runs.start("a", "Act.", run_id="r"))
    return seen, runs, model


@pytest.mark.parametrize("arguments", [EQUAL, UNICODE], ids=["equal", "unicode"])
def test_equal_arguments_are_different_calls(arguments: list[str]) -> None:
    """Calls with equal arguments in one step each run once, under keys of their own, as they were written."""
    seen, runs, _ = run_of(together(*(asks("act", text) for text in arguments)))
    with runs:
        responded = next(event for event in runs.events("r") if isinstance(event, ModelResponded))

    assert len(seen.calls) == len({call_id for call_id, _, _ in seen.calls}) == len(arguments)
    assert len({key for _, key, _ in seen.calls}) == len(arguments)
    assert [call.arguments for call in responded.message.tool_calls] == arguments


def test_the_same_call_in_the_next_step_is_another_one() -> None:
    """A model that asks for the same thing again gets it done again: it is not taken for a repeat."""
    seen, runs, _ = run_of(asks("act", EQUAL[0]), asks("act", EQUAL[0]))
    runs.close()

    assert len({call_id for call_id, _, _ in seen.calls}) == 2


def test_identity_does_not_depend_on_arguments() -> None:
    """The same place in the same run has the same id and key, whatever is asked for there."""
    keys = set()
    for text in EQUAL + UNICODE:
        seen, runs, _ = run_of(asks("act", text))
        runs.close()
        keys.update((call_id, key) for call_id, key, _ in seen.calls)

    assert len(keys) == 1


def test_two_runs_never_share_a_key() -> None:
    """The same place in another run has another key."""
    tools = Seen()
    model = ScriptedModel([asks("act", EQUAL[0]), says("Done.")])
    with AgentRuns.in_memory(agents=[Agent("a", model, "v1", tools=tools.tools())]) as runs:
        for run_id in ("r", "r:1", "r-1", "R"):
            runs.advance(runs.start("a", "Act.", run_id=run_id))

    assert len({key for _, key, _ in tools.calls}) == 4


CARELESS_IDS = {
    "empty": ["", ""],
    "none": [None, None],
    "the same in one step": ["x", "x"],
    "the same in every step": ["call_0", "call_1"],
    "in the form of ours": ["call_2_1_4e65d3fb", "call_1_1_00000000"],
    "very long": ["x" * 10_000, "y" * 10_000],
    "odd": ["\x00", "a\ud800b"],
}


@pytest.mark.parametrize("ids", CARELESS_IDS.values(), ids=CARELESS_IDS.keys())
def test_careless_ids_of_a_provider_mix_nothing_up(ids: list[str | None]) -> None:
    """Results, keys and ids on the wire are one to one with calls, whatever ids a provider sends."""
    arguments = [{"a": n, "b": {}} for n in range(4)]
    first, second = (
        together(*(asks("act", arguments[at + 2 * step], id=ids[at]) for at in (0, 1))) for step in (0, 1)
    )
    seen, runs, model = run_of(first, second)
    with runs:
        events = runs.events("r")
        messages = runs.state("r").messages()

    asked = [call for e in events if isinstance(e, ModelResponded) for call in e.message.tool_calls]
    assert [(json.loads(call.arguments)["a"]) for call in asked] == [0, 1, 2, 3]
    acted = {call_id: a for call_id, _, a in seen.calls}
    assert acted == {call.call_id: json.loads(call.arguments)["a"] for call in asked}
    assert len({event.idempotency_key for event in events if isinstance(event, ToolCallStarted)}) == 4
    brought = {
        event.call_id: event.content.for_model for event in events if isinstance(event, ToolCallSucceeded)
    }
    assert brought == {call.call_id: f"result of {call.call_id}" for call in asked}
    assert_wire_is_unambiguous(messages)
    for shorter, longer in combinations([request.messages for request in model.requests], 2):
        assert wire_ids(shorter).items() <= wire_ids(longer).items()


def assert_wire_is_unambiguous(messages: list[Message]) -> None:
    ids = wire_ids(messages)
    assert all(ids.values())
    assert len(set(ids.values())) == len(ids)
    for message, follows in pairwise(messages):
        if isinstance(message, AssistantMessage) and message.tool_calls:
            assert isinstance(follows, ToolResultsMessage)
            assert [r.call_id for r in follows.results] == [c.call_id for c in message.tool_calls]
