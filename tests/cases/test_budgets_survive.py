"""Killed at 90% of a budget and resumed, a run stops at 100%, and not at 190%."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from perdure import Budget, RunStatus
from perdure.domain.events import ModelResponded, RunStarted
from tests.support.cluster import Cluster
from tests.support.promises import violations
from tests.support.scenarios import TOOLS, USAGE, Call, Scenario

ENDLESS = Scenario([[Call("look_up", n)] for n in range(1, 40)])


def boundary_of_step(scenario: Scenario, step: int) -> int:
    """Return the boundary at which the results of a step are about to be recorded."""
    cluster = Cluster(scenario)
    passed = cluster.live(cluster.start()).processes[-1].passed
    results = [at for at, (where, what) in enumerate(passed, start=1) if "Succeeded" in what]
    return results[2 * (step - 1)]  # before and after the append


@pytest.mark.parametrize("kills", [1, 3])
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    "budget", [Budget(steps=10), Budget(tokens=10 * USAGE.tokens)], ids=["steps", "tokens"]
)
def test_steps_and_tokens_are_counted_over_all_processes(budget: Budget, tool: str, kills: int) -> None:
    """However often it was killed near the end of its budget, the run makes ten model calls in all."""
    scenario = Scenario([[Call(tool, n)] for n in range(1, 40)], budget=budget)
    ninth = boundary_of_step(scenario, 9)
    cluster = Cluster(scenario)
    run_id = cluster.start()

    outcome = cluster.live(run_id, crashes=[ninth, *[6] * (kills - 1)])

    assert outcome.state.escalation is not None
    assert outcome.state.escalation.why == "budget"
    assert (outcome.state.steps, outcome.state.tokens) == (10, 10 * USAGE.tokens)
    assert violations(outcome) == []


def test_the_deadline_is_that_of_the_first_process() -> None:
    """A run that was killed at 90% of its time has the other 10% left, time between processes included."""
    scenario = replace(ENDLESS, budget=Budget(wall_clock=timedelta(seconds=1000)))
    cluster = Cluster(scenario)
    run_id = cluster.start()
    cluster.die(run_id, boundary_of_step(scenario, 5))
    cluster.clock.jump(840)  # with the lease that ran out, 900 seconds have passed
    cluster.die(run_id, 40)
    assert cluster.office.state(run_id).status is RunStatus.RUNNING
    cluster.clock.jump(100)

    outcome = cluster.live(run_id)

    started = outcome.events[0]
    assert isinstance(started, RunStarted)
    assert outcome.state.deadline == started.at + timedelta(seconds=1000)
    assert outcome.state.escalation is not None
    assert outcome.state.escalation.why == "deadline"
    responded = [event for event in outcome.events if isinstance(event, ModelResponded)]
    assert all(event.at < outcome.state.deadline for event in responded)
    assert violations(outcome) == []


@pytest.mark.parametrize("tool", ["order", "send", "pay"])
def test_a_call_in_doubt_is_settled_after_the_deadline_and_not_started_again(tool: str) -> None:
    """Past the deadline nothing is started; what may have happened is still found out."""
    scenario = Scenario([[Call(tool, 1)]], budget=Budget(wall_clock=timedelta(seconds=1000)))
    uninterrupted = Cluster(scenario)
    passed = uninterrupted.live(uninterrupted.start()).processes[-1].passed
    after_tool = next(at for at, (where, _) in enumerate(passed, start=1) if where == "after_tool")
    cluster = Cluster(scenario)
    run_id = cluster.start()
    cluster.die(run_id, after_tool)
    cluster.clock.jump(2000)

    outcome = cluster.live(run_id)

    assert len(outcome.world.effects) == 1
    assert outcome.state.escalation is not None
    assert outcome.state.escalation.why == "deadline"
    assert violations(outcome) == []


def test_an_extension_adds_to_what_was_used() -> None:
    """More budget is more, not new: a run that was stopped at 10 of 10 steps stops at 13 of 13."""
    scenario = replace(ENDLESS, budget=Budget(steps=10))
    cluster = Cluster(scenario)
    run_id = cluster.start()
    cluster.live(run_id)

    cluster.office.extend_budget(run_id, steps=3, by="ann", reason="nearly there")
    outcome = cluster.live(run_id, crashes=[15])

    assert (outcome.state.steps, outcome.state.budget.steps) == (13, 13)
    assert violations(outcome) == []


def test_the_step_that_spends_the_last_of_the_budget_runs_its_tools() -> None:
    """A decision that was paid for is carried out; the model call after it is what is refused."""
    scenario = replace(ENDLESS, budget=Budget(steps=1))
    cluster = Cluster(scenario)

    outcome = cluster.live(cluster.start())

    assert len(outcome.world.effects) == 1
    assert outcome.state.step is not None
    assert outcome.state.step.is_settled
