"""Odd text from people and programs: stored and shown as it is, or refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure import (
    Agent,
    AgentRuns,
    Budget,
    InvalidInput,
    PerdureError,
    Resolution,
    RunStatus,
    ToolRegistry,
    Verdict,
)
from perdure.domain.messages import Reply, TextPart, ThinkingPart, ToolRequest
from perdure.testing import ScriptedModel, asks, says
from tests.support.scenarios import Scenario
from tests.support.world import World

LONE = "a\ud800b"
ODD = ["Grüße 日本語 \U0001f600", "nul \x00", "\u202e\u2028\x1b", "e\u0301"]

Saying = Callable[[AgentRuns, str], object]


def starts_with(where: str) -> Saying:
    def start(runs: AgentRuns, text: str) -> object:
        given: dict[str, Any] = {"messages": "Go."}
        given[where] = {text: "x"} if where == "labels" else text
        return runs.start("actor", **given)

    return start


SAYINGS: dict[str, Saying] = {
    "input": starts_with("messages"),
    "tenant": starts_with("tenant"),
    "parent": starts_with("parent"),
    "label": starts_with("labels"),
    "more input": lambda runs, text: runs.add_input("r", text),
    "whose input": lambda runs, text: runs.add_input("r", "x", by=text),
    "a reason": lambda runs, text: runs.extend_budget("r", steps=1, by="ann", reason=text),
    "a name": lambda runs, text: runs.cancel("r", by=text, reason="x"),
}


def open_run(url: str) -> AgentRuns:
    scenario = Scenario([])
    agent, _ = scenario.agent(scenario.tools(World()))
    runs = AgentRuns.connect(url, agents=[agent])
    runs.start("actor", "Go.", run_id="r", budget=Budget(steps=9))
    return runs


def test_text_without_a_utf_8_form_is_refused(database_url: str) -> None:
    """A lone surrogate in anything that a person or a program says is an error, and nothing is written."""
    with open_run(database_url) as runs:
        for say in SAYINGS.values():
            with pytest.raises(InvalidInput, match="lone surrogate"):
                say(runs, LONE)
        assert runs.ports.store.run_ids() == ["r"]
        assert len(runs.events("r")) == 1


def test_any_other_text_is_stored_as_it_is(database_url: str) -> None:
    """Characters of all kinds, said in every place, come back unchanged from PostgreSQL."""
    with open_run(database_url) as runs:
        for text in ODD:
            for name, say in SAYINGS.items():
                if name == "a name":
                    continue  # it would end the run
                run_id = say(runs, text)
                run_id = run_id if isinstance(run_id, str) else "r"
                stored = str([event.model_dump() for event in runs.events(run_id)])

                assert repr(text)[1:-1] in stored, (name, text)


def test_what_a_model_says_is_stored_whatever_it_is(database_url: str) -> None:
    """A model's text with lone surrogates is written with escapes: a run never stops for that."""
    reply = Reply(
        parts=(
            ThinkingPart(text=LONE, opaque={"x": LONE, LONE: [LONE]}),
            TextPart(text=LONE),
            ToolRequest(name=LONE, arguments=f'{{"n": "{LONE}"}}', provider_call_id=LONE),
        ),
        finish_reason=LONE,
        model=LONE,
    )
    agent = Agent("a", ScriptedModel([reply, says(LONE)]), "v1", tools=ToolRegistry())
    with AgentRuns.connect(database_url, agents=[agent]) as runs:
        state = runs.advance(runs.start("a", "Go.", run_id="r"))
        read = runs.state("r")

    assert state.status is RunStatus.COMPLETED
    assert read == state
    assert read.answer == "a\\ud800b"


DEEP: Any = "x"
for _ in range(10_000):
    DEEP = [DEEP]


@pytest.mark.parametrize("make", [Verdict.landed, Resolution.succeeded], ids=["verdict", "resolution"])
def test_results_too_deep_to_store_are_refused_where_they_are_made(make: Callable[[Any], object]) -> None:
    """Ten thousand levels are an error of ours, and not one of Python's recursion."""
    with pytest.raises(PerdureError):
        make(DEEP)


def test_arguments_ten_thousand_deep_are_refused_before_the_tool_runs(database_url: str) -> None:
    """The model is told; what it wrote is on record; the log can be read."""
    tools, calls = ToolRegistry(), []

    @tools.tool
    def act(thing: Any) -> str:
        calls.append(thing)
        return "ok"

    text = '{"thing": ' + "[" * 10_000 + "]" * 10_000 + "}"
    agent = Agent("a", ScriptedModel([asks("act", text), says("Done.")]), "v1", tools=tools)
    with AgentRuns.connect(database_url, agents=[agent]) as runs:
        state = runs.advance(runs.start("a", "Go.", run_id="r"))
        told = [result for m in runs.state("r").messages() for result in getattr(m, "results", ())]

    assert state.status is RunStatus.COMPLETED
    assert calls == []
    assert [result.ok for result in told] == [False]
