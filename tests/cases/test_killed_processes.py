"""Real processes are killed on a real PostgreSQL; another one goes on."""

from __future__ import annotations

import pytest

from perdure import RunStatus
from perdure.application.ports.boundaries import Boundary
from perdure.domain.events import RunClaimed
from tests.support.cluster import Cluster
from tests.support.mortal import killed_and_resumed
from tests.support.promises import violations
from tests.support.scenarios import TOOLS, Call, Scenario

KILLS = {
    "holding a lease only": (Boundary.AFTER_CLAIM, ""),
    "with the model's answer in hand": (Boundary.BEFORE_APPEND, "ModelResponded,ToolCallStarted"),
    "with the start on record": (Boundary.AFTER_APPEND, "ModelResponded,ToolCallStarted"),
    "with the effect done": (Boundary.AFTER_TOOL, ""),
    "with the result on record": (Boundary.AFTER_APPEND, "ToolCallSucceeded"),
    "at the very end": (Boundary.BEFORE_RELEASE, ""),
}


def a_run_of(tool: str) -> Scenario:
    """A call alone, and two in parallel; timeouts that are over when the next process comes."""
    return Scenario([[Call(tool, 1)], [Call(tool, 2), Call("look_up", 3)]], timeout=0.5)


@pytest.mark.parametrize("kill", KILLS.values(), ids=KILLS.keys())
@pytest.mark.parametrize("tool", TOOLS)
def test_a_killed_process_changes_neither_answer_nor_effects(
    tool: str, kill: tuple[Boundary, str], database_url: str
) -> None:
    """Killed where it matters, the run ends as it would have, and every policy keeps its promise."""
    scenario = a_run_of(tool)
    cluster = Cluster(scenario)
    uninterrupted = cluster.live(cluster.start())

    outcome = killed_and_resumed(database_url, scenario, [kill])

    assert outcome.state.status is RunStatus.COMPLETED
    assert violations(outcome, uninterrupted) == []


@pytest.mark.parametrize("tool", ["order", "send", "pay"])
def test_killed_again_and_again(tool: str, database_url: str) -> None:
    """One process after the other is killed in the same step, each a little further on."""
    scenario = a_run_of(tool)
    cluster = Cluster(scenario)
    uninterrupted = cluster.live(cluster.start())

    outcome = killed_and_resumed(database_url, scenario, list(KILLS.values())[1:5])

    assert violations(outcome, uninterrupted) == []
    claims = [event for event in outcome.events if isinstance(event, RunClaimed)]
    assert [claim.epoch for claim in claims] == sorted({claim.epoch for claim in claims})
