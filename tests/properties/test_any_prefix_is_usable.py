"""A log cut after any event is what a crash may leave: it folds, and the loop goes on from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from perdure import Limits
from perdure.domain.calls import CallStatus
from perdure.domain.events import Event
from perdure.domain.evolution import evolve, fold
from perdure.domain.state import RunState
from tests.support.cluster import LEASE, Cluster, Outcome
from tests.support.promises import violations
from tests.support.scenarios import BEHAVIOURS, TOOLS, Call, Scenario
from tests.support.world import World

RUN = "run-1"


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Draw a run: up to four steps of up to three calls, each tool behaving as it likes."""
    steps = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    call = st.builds(
        Call,
        tool=st.sampled_from(list(TOOLS)),
        n=st.integers(0, 9),
        does=st.sampled_from(["works", "works", *BEHAVIOURS]),
        verify=st.sampled_from(["knows", "knows", "unknown", "raises"]),
    )
    return Scenario(
        [[draw(call) for _ in range(count)] for count in steps],
        limits=Limits(parallel_calls=draw(st.sampled_from([1, 2, 8])), first_delay=0.001, longest_delay=0.01),
        timeout=0.02,
        max_attempts=2,
    )


def uninterrupted(scenario: Scenario) -> Outcome:
    cluster = Cluster(scenario)
    return cluster.live(cluster.start(RUN))


def world_at(state: RunState, whole: World, in_flight_acted: bool) -> World:
    """Return the world as it was when the log stood at this state.

    What is on record about an attempt tells whether it had acted; of one in flight, nobody knows.
    """

    def had_happened(call_id: str, attempt: int) -> bool:
        call = state.calls.get(call_id)
        if call is None:
            return int(call_id.split("_")[1]) <= state.steps
        in_flight = call.status is CallStatus.STARTED and attempt == call.attempt
        return attempt <= call.attempt and (in_flight_acted or not in_flight)

    return World([effect for effect in whole.effects if had_happened(effect.call_id, effect.attempt)])


def resumed(scenario: Scenario, events: Sequence[Event], world: World) -> Outcome:
    """Let a fresh process go on from a log, and from the world as the log's process left it."""
    cluster = Cluster(scenario, world=world)
    cluster.office.ports.store.append(events)
    cluster.clock.jump(2 * LEASE)
    return cluster.live(RUN)


cuts = st.lists(st.tuples(st.integers(0, 999), st.booleans()), min_size=1, max_size=4, unique=True)
"""Where to cut, in thousandths of the log, and whether what was in flight there had acted."""


@given(scenario=scenarios(), cuts=cuts)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_run_cut_anywhere_goes_on_to_the_same_end(scenario: Scenario, cuts: list[tuple[int, bool]]) -> None:
    """Every prefix folds to what the whole was there; resumed, it ends as the whole did, promises kept."""
    whole = uninterrupted(scenario)
    assert violations(whole) == []
    states = [fold(RUN, whole.events[:end]) for end in range(len(whole.events) + 1)]
    stepwise = RunState(RUN)
    for state, event in zip(states[1:], whole.events, strict=True):
        stepwise = evolve(stepwise, event)
        assert stepwise == state

    for thousandths, acted in cuts:
        end = 1 + len(whole.events) * thousandths // 1000
        world = world_at(states[end], whole.world, acted)
        note(f"cut after {end} of {len(whole.events)}; what was in flight acted: {acted}")
        cut = resumed(scenario, whole.events[:end], world)

        compared = replace(whole, world=cut.world) if not acted else whole
        assert violations(cut, compared) == []
