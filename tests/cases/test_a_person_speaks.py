"""A person speaks while a worker drives the run: adds input, extends the budget, cancels."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure import AgentRuns, Budget, RunFinished, RunStatus
from perdure.application.ports.boundaries import Boundary
from perdure.domain.events import InputAdded, ModelResponded, ToolCallInDoubt, ToolCallStarted
from perdure.domain.messages import UserMessage
from tests.support.cluster import Cluster, FrozenProcess, Outcome
from tests.support.promises import violations
from tests.support.scenarios import Call, Scenario

Fact = Callable[[AgentRuns, str], object]
SCENARIO = Scenario([[Call("pay", 1), Call("send", 2)], [Call("order", 3)]], budget=Budget(steps=50))


def adds_input(runs: AgentRuns, run_id: str) -> object:
    return runs.add_input(run_id, "One more thing.", by="ann")


def extends_the_budget(runs: AgentRuns, run_id: str) -> object:
    return runs.extend_budget(run_id, steps=5, by="ann", reason="worth it")


def cancels(runs: AgentRuns, run_id: str) -> object:
    return runs.cancel(run_id, by="ann", reason="not needed")


def says_much_at_once(runs: AgentRuns, run_id: str) -> object:
    for _ in range(3):
        adds_input(runs, run_id)
        extends_the_budget(runs, run_id)
    return None


def boundaries() -> list[tuple[Boundary, str]]:
    cluster = Cluster(SCENARIO)
    return cluster.live(cluster.start()).processes[-1].passed[:-1]  # the last one is past the end


def spoken_at(boundary: tuple[Boundary, str], fact: Fact) -> Outcome:
    cluster = Cluster(SCENARIO)
    run_id = cluster.start()
    process = FrozenProcess(*boundary)
    driving = cluster.freeze(run_id, process)
    fact(cluster.office, run_id)
    process.thaw.set()
    driving.result(timeout=20)
    return cluster.outcome(run_id)


BOUNDARIES = boundaries()


@pytest.mark.parametrize("fact", [adds_input, extends_the_budget, says_much_at_once])
def test_what_a_person_says_at_any_moment_is_taken_in(fact: Fact) -> None:
    """Wherever the worker is, its results are recorded, nothing falls in doubt, and the run ends well."""
    last_append = max(at for at, (where, _) in enumerate(BOUNDARIES) if where is Boundary.BEFORE_APPEND)
    for at, boundary in enumerate(BOUNDARIES):
        if at > last_append:
            continue  # the run has ended by then
        outcome = spoken_at(boundary, fact)

        assert violations(outcome) == [], boundary
        assert outcome.state.status is RunStatus.COMPLETED, boundary
        assert not [e for e in outcome.events if isinstance(e, ToolCallInDoubt)], boundary
        assert all(times == 1 for times in outcome.world.times().values()), boundary
        assert_input_is_shown_once(outcome)


@pytest.mark.parametrize("boundary", BOUNDARIES[:-1], ids=lambda boundary: ":".join(boundary))
def test_a_cancellation_at_any_moment_lets_running_tools_end(boundary: tuple[Boundary, str]) -> None:
    """What was started is seen to its end and recorded, nothing new is started, and then the run stops."""
    outcome = spoken_at(boundary, cancels)

    assert violations(outcome) == []
    assert outcome.state.status is RunStatus.CANCELLED
    started = {event.call_id for event in outcome.events if isinstance(event, ToolCallStarted)}
    assert started == set(outcome.world.times())
    assert outcome.state.in_doubt == ()
    assert not [event for event in outcome.events if isinstance(event, ToolCallInDoubt)]
    asked = [event.seq for event in outcome.events if type(event).__name__ == "CancelRequested"]
    late = [e for e in outcome.events if isinstance(e, ToolCallStarted) and e.seq > asked[0]]
    assert [event.seq for event in late] == []


def test_input_that_comes_while_the_run_completes_keeps_it_going() -> None:
    """The model had said its last word, and is asked once more, with what came in between."""
    boundary = next(passed for passed in BOUNDARIES if "RunCompleted" in passed[1])

    outcome = spoken_at(boundary, adds_input)

    responses = [event for event in outcome.events if isinstance(event, ModelResponded)]
    assert len(responses) == len(SCENARIO.steps) + 2
    assert outcome.state.status is RunStatus.COMPLETED


def test_nobody_speaks_to_a_run_that_has_ended() -> None:
    """Input, budget and cancellation of a finished run are errors, and write nothing."""
    cluster = Cluster(SCENARIO)
    run_id = cluster.start()
    before = cluster.live(run_id).events

    for fact in (adds_input, extends_the_budget, cancels):
        with pytest.raises(RunFinished):
            fact(cluster.office, run_id)
    assert cluster.office.events(run_id) == before


def assert_input_is_shown_once(outcome: Outcome) -> None:
    added = [event for event in outcome.events if isinstance(event, InputAdded)]
    messages = outcome.state.messages()
    shown = [m for m in messages if isinstance(m, UserMessage) and m.text == "One more thing."]
    assert len(shown) == len(added)
    last = outcome.requests[-1][1].messages
    assert [m for m in last if m == UserMessage(text="One more thing.")] == shown
