"""A run of a thousand steps: the log grows by what is new, and reading it back is cheap."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from perdure import AgentRuns, RunStatus
from perdure.application.registered_agents import RegisteredAgents
from perdure.domain.evolution import fold
from tests.support.cluster import Cluster
from tests.support.scenarios import Call, Scenario

STEPS = 1000


@pytest.fixture(scope="module")
def thousand() -> Cluster:
    """A run of a thousand steps and their answer."""
    cluster = Cluster(Scenario([[Call("look_up", 1)]] * STEPS))
    cluster.world.read_log = None
    with cluster.boot() as runs:
        runs.start("actor", "Act.", run_id="run-1")
        assert runs.advance("run-1").status is RunStatus.COMPLETED
    return cluster


def stored_bytes(cluster: Cluster, upto_step: int) -> int:
    stored = cluster.log.recorder.select_events("run-1")
    seen, total = 0, 0
    for event in stored:
        seen += event.topic == "perdure.model-responded"
        if seen > upto_step:
            break
        total += len(event.state) if seen else 0
    return total


def least(work: Callable[[], object]) -> float:
    """Return the least processor time that some work takes, in seconds."""

    def once() -> float:
        began = time.thread_time()
        work()
        return time.thread_time() - began

    return min(once() for _ in range(5))


def test_the_log_grows_by_what_is_new(thousand: Cluster) -> None:
    """A step takes as many bytes at the end of a thousand steps as at the end of fifty."""
    early, late = stored_bytes(thousand, 50) / 50, stored_bytes(thousand, STEPS) / STEPS

    assert late == pytest.approx(early, rel=0.1)


def test_a_cold_state_costs_little_more_than_reading_its_rows(
    thousand: Cluster, database_url: str, record_property: pytest.RecordProperty
) -> None:
    """Reading and folding three thousand events takes less than a second of processor time."""
    with AgentRuns.connect(database_url) as runs:
        events = thousand.office.events("run-1")
        for at in range(0, len(events), 500):
            runs.ports.store.append(events[at : at + 500])

        began = time.perf_counter()
        state = runs.state("run-1")
        record_property("seconds of a cold state", time.perf_counter() - began)
        assert (state.steps, state.status) == (STEPS + 1, RunStatus.COMPLETED)

        # Processor time of this thread: what else runs on the machine does not count.
        read = least(lambda: runs.events("run-1"))
        cold = least(lambda: runs.state("run-1"))

    print(  # noqa: T201 - shown with -rP; the numbers are for people
        f"\ncold state of {len(events)} events: {cold:.3f} s; their rows read and parsed: {read:.3f} s"
    )
    assert cold < 1.0
    assert cold < 10 * read


def test_folding_is_linear(thousand: Cluster) -> None:
    """Ten times the events take about ten times as long, not a hundred times."""
    events = thousand.office.events("run-1")

    few, many = least(lambda: fold("run-1", events[:300])), least(lambda: fold("run-1", events[:3000]))

    assert many < 30 * few


def test_the_messages_of_a_long_run_are_all_there(thousand: Cluster) -> None:
    """No message is lost or doubled: the conversation alternates from the first question to the answer."""
    kinds = [message.kind for message in thousand.office.state("run-1").messages()]

    assert kinds == ["user", *["assistant", "tool_results"] * STEPS, "assistant"]
    assert all(before != after for before, after in pairwise(kinds))


def test_the_agents_of_a_long_run_need_not_be_at_hand_to_look(thousand: Cluster) -> None:
    """Looking at a run takes its log, and nothing else."""
    office = AgentRuns(
        thousand.log,
        thousand.leases,
        thousand.clock,
        RegisteredAgents([], lambda name: pytest.fail(name)),
        lease_seconds=30,
    )
    with office:
        assert office.state("run-1", at=1500).steps == 500
