"""A process dies at every point between two writes; another one goes on."""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.support.cluster import Cluster, Outcome
from tests.support.promises import violations
from tests.support.scenarios import TOOLS, Call, Scenario, one_call, several_steps


def lived(scenario: Scenario, *crashes: int) -> Outcome:
    cluster = Cluster(scenario)
    return cluster.live(cluster.start(), crashes=crashes)


def boundaries_of(outcome: Outcome) -> int:
    return len(outcome.processes[-1].passed)


def boundaries_that_differ(scenario: Scenario, count: int) -> list[int]:
    """Leave out boundaries at which a death leaves log and world as a death at an earlier one does."""
    found: dict[tuple[int, int], int] = {}
    for crash_at in range(1, count + 1):
        cluster = Cluster(scenario)
        died = cluster.die(cluster.start(), crash_at)
        found.setdefault((len(died.events), len(died.world.effects)), crash_at)
    return list(found.values())


@pytest.mark.parametrize("tool", TOOLS)
def test_a_crash_at_any_boundary_changes_neither_answer_nor_effects(tool: str) -> None:
    """Wherever a process dies, the run ends as the uninterrupted one, and every policy keeps its promise."""
    scenario = several_steps(tool)
    uninterrupted = lived(scenario)
    assert violations(uninterrupted) == []

    for crash_at in range(1, boundaries_of(uninterrupted) + 1):
        crashed = lived(scenario, crash_at)

        assert violations(crashed, uninterrupted) == [], f"crashed at boundary {crash_at}"


@pytest.mark.parametrize("tool", TOOLS)
def test_a_crash_during_recovery_changes_nothing_either(tool: str) -> None:
    """The process that takes over may die at any point as well: every pair of deaths ends the same."""
    scenario = one_call(tool)
    uninterrupted = lived(scenario)

    for first in boundaries_that_differ(scenario, boundaries_of(uninterrupted)):
        second = 0
        while True:
            second += 1
            crashed = lived(scenario, first, second)
            assert violations(crashed, uninterrupted) == [], f"crashed at {first}, then at {second}"
            if not crashed.processes[-2].is_dead:
                break


@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
def test_a_crash_among_parallel_calls_does_not_depend_on_which_ended_first(order: tuple[int, ...]) -> None:
    """Three calls of one step end in every order, the process dies between any two writes of the step."""
    after = dict(zip(order[1:], order, strict=False))
    scenario = Scenario(
        [[Call(tool, n, after=after.get(n, 0)) for n, tool in enumerate(("send", "pay", "order"), start=1)]]
    )
    uninterrupted = lived(scenario)
    ended = [event.call_id for event in uninterrupted.events if type(event).__name__ == "ToolCallSucceeded"]
    assert [int(call_id.split("_")[2]) for call_id in ended] == list(order)

    for crash_at in range(1, boundaries_of(uninterrupted) + 1):
        crashed = lived(scenario, crash_at)

        assert violations(crashed, uninterrupted) == [], f"crashed at boundary {crash_at}"


def test_three_e_mails_in_one_step_killed_in_the_third() -> None:
    """The first two e-mails, whose results are on record, are not sent again, nor even asked about."""
    scenario = Scenario([[Call("pay", 1), Call("pay", 2, after=1), Call("pay", 3, after=2)]])
    uninterrupted = lived(scenario)
    passed = uninterrupted.processes[-1].passed
    third = max(at for at, (boundary, _) in enumerate(passed, start=1) if boundary == "after_tool")

    crashed = lived(scenario, third)

    assert violations(crashed, uninterrupted) == []
    asked = [event.calls for event in crashed.events if type(event).__name__ == "RunEscalated"]
    assert [[call_id.split("_")[2] for call_id in calls] for calls in asked] == [["3"]]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_process_that_dies_again_and_again_is_not_followed_for_ever(tool: str) -> None:
    """A run whose processes all die without bringing anything new is left to a person, effects intact."""
    scenario = one_call(tool)
    cluster = Cluster(scenario)
    run_id = cluster.start()
    after_claim = 4  # the claim is on record, and nothing else

    outcome = cluster.live(run_id, crashes=[after_claim] * scenario.limits.barren_claims)

    assert outcome.state.escalation is not None
    assert outcome.state.escalation.why == "quarantine"
    assert outcome.world.effects == []
    assert violations(outcome) == []
