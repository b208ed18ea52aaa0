"""What is written, and when: the decision before the act, the result before the next question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from perdure.application import agent_runs
from perdure.application.ports.boundaries import Boundary
from perdure.application.ports.event_store import EventStore, Told
from perdure.domain.events import Event
from tests.support.cluster import Cluster, Process
from tests.support.scenarios import TOOLS, Call, Scenario


class CountingStore(EventStore):
    """Keeps what was committed together."""

    def __init__(self, store: EventStore, told: list[str]) -> None:
        self._store = store
        self._told = told

    def append(self, events: Sequence[Event]) -> None:
        self._store.append(events)
        self._told.append("commit " + "+".join(type(event).__name__ for event in events))

    def read(self, run_id: str, *, after: int = 0, upto: int | None = None) -> Sequence[Event]:
        return self._store.read(run_id, after=after, upto=upto)

    def position(self) -> int:
        return self._store.position()

    def told(self, after: int) -> Told:
        return self._store.told(after)

    def run_ids(self, *, after: str = "", limit: int = 1000) -> Sequence[str]:
        return self._store.run_ids(after=after, limit=limit)


class Telling(Process):
    """Tells of model calls and tools, between the commits."""

    def __init__(self, told: list[str]) -> None:
        super().__init__()
        self._told = told

    def reached(self, boundary: Boundary, run_id: str, detail: str) -> None:
        super().reached(boundary, run_id, detail)
        if boundary is Boundary.BEFORE_MODEL:
            self._told.append(f"model {detail}")
        if boundary is Boundary.BEFORE_TOOL:
            self._told.append("tool")


def told_of(scenario: Scenario) -> list[str]:
    cluster = Cluster(scenario)
    run_id = cluster.start()
    told: list[str] = []
    with cluster.boot(Telling(told)) as runs:
        ports = replace(runs.ports, store=CountingStore(runs.ports.store, told))
        agent_runs.AgentRuns(ports, runs.agents, runs.keeper).advance(run_id)
    return told


@pytest.mark.parametrize("tool", TOOLS)
def test_decision_then_act_then_result_then_the_next_question(tool: str) -> None:
    """A run of two steps writes exactly this, in exactly this order, and nothing before a model call."""
    assert told_of(Scenario([[Call(tool, 1)]])) == [
        "commit RunClaimed",
        "model 1",
        "commit ModelResponded+ToolCallStarted",
        "tool",
        "commit ToolCallSucceeded",
        "model 2",
        "commit ModelResponded+RunCompleted",
    ]


@pytest.mark.parametrize("steps", [1, 7])
def test_a_step_with_one_tool_is_two_commits(steps: int) -> None:
    """Beyond the claim and the last answer there are two commits a step, and no more."""
    told = told_of(Scenario([[Call("pay", n)] for n in range(steps)]))

    assert len([line for line in told if line.startswith("commit")]) == 2 + 2 * steps


def test_parallel_calls_are_started_in_the_commit_of_the_decision() -> None:
    """All that is about to run is marked in one commit; each end is written as it comes."""
    told = told_of(Scenario([[Call("pay", 1), Call("send", 2, after=1), Call("order", 3, after=2)]]))

    assert told[2] == "commit ModelResponded+ToolCallStarted+ToolCallStarted+ToolCallStarted"
    assert told[6:9] == ["commit ToolCallSucceeded"] * 3
    assert told[9] == "model 2"


def test_no_more_calls_run_at_a_time_than_allowed() -> None:
    """With a limit of two, the third call is marked and started only when one of the first has ended."""
    scenario = Scenario([[Call("pay", 1), Call("pay", 2, after=1), Call("pay", 3)]])
    scenario = replace(scenario, limits=scenario.limits.model_copy(update={"parallel_calls": 2}))

    told = told_of(scenario)

    assert told[2] == "commit ModelResponded+ToolCallStarted+ToolCallStarted"
    assert told[5] == "commit ToolCallSucceeded+ToolCallStarted"
    assert told[6] == "tool"
