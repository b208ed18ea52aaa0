"""One writer: a process that lost its run writes nothing more, whenever it wakes up."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from perdure import OwnershipLost, RunIsOwned, RunStatus
from perdure.application.ports.boundaries import Boundary
from perdure.domain.events import RunClaimed, ToolCallSucceeded
from tests.support.cluster import LEASE, Cluster, FrozenProcess, Process
from tests.support.promises import violations
from tests.support.scenarios import TOOLS, Call, Scenario, one_call

APPENDS = [
    "RunClaimed",
    "ModelResponded,ToolCallStarted",
    "ToolCallSucceeded",
    "ModelResponded,RunCompleted",
]


def test_an_expired_lease_is_claimed_under_a_higher_epoch() -> None:
    """Each claim is on record with its worker, its epoch, and how the run was left before."""
    cluster = Cluster(one_call("look_up"))
    run_id = cluster.start()
    cluster.die(run_id, 10)
    outcome = cluster.live(run_id)

    claims = [event for event in outcome.events if isinstance(event, RunClaimed)]
    assert [(claim.epoch, claim.left) for claim in claims] == [(1, "new"), (2, "expired")]
    assert len({claim.worker for claim in claims}) == 2


def test_a_live_lease_is_respected() -> None:
    """Nobody drives a run that another process holds; the error says who does."""
    cluster = Cluster(one_call("look_up"))
    run_id = cluster.start()
    process = FrozenProcess(Boundary.BEFORE_TOOL)
    driving = cluster.freeze(run_id, process)

    with cluster.boot() as other, pytest.raises(RunIsOwned, match=r"is held by '.+' until"):
        other.advance(run_id)
    process.thaw.set()

    assert driving.result(timeout=20).status is RunStatus.COMPLETED
    assert violations(cluster.outcome(run_id)) == []


@pytest.mark.parametrize("append", APPENDS)
@pytest.mark.parametrize("tool", TOOLS)
def test_a_late_append_of_a_stale_process_is_refused(tool: str, append: str) -> None:
    """Frozen before any of its appends and overtaken, a process stops, and the log is the other's alone."""
    cluster = Cluster(one_call(tool))
    run_id = cluster.start()
    frozen = FrozenProcess(Boundary.BEFORE_APPEND, append)
    driving = cluster.freeze(run_id, frozen)
    cluster.clock.jump(LEASE + 1)
    overtaken = cluster.live(run_id)
    assert overtaken.state.status is RunStatus.COMPLETED

    frozen.thaw.set()

    assert isinstance(driving.exception(timeout=20), OwnershipLost)
    outcome = cluster.outcome(run_id)
    assert outcome.events == overtaken.events
    assert violations(outcome) == []


@pytest.mark.parametrize("append", APPENDS[:3])
def test_a_stale_process_stops_even_if_the_other_did_nothing_yet(append: str) -> None:
    """The claim alone is enough to keep the first process out."""
    cluster = Cluster(one_call("pay"))
    run_id = cluster.start()
    frozen = FrozenProcess(Boundary.BEFORE_APPEND, append)
    driving = cluster.freeze(run_id, frozen)
    cluster.clock.jump(LEASE + 1)
    claimed = FrozenProcess(Boundary.AFTER_APPEND, "RunClaimed")
    heir = cluster.freeze(run_id, claimed)
    before = cluster.office.events(run_id)

    frozen.thaw.set()

    assert isinstance(driving.exception(timeout=20), OwnershipLost)
    assert cluster.office.events(run_id) == before
    claimed.thaw.set()
    heir.result(timeout=20)
    assert violations(cluster.outcome(run_id)) == []


def test_two_decisions_at_the_same_version_have_one_winner() -> None:
    """The loser does not reload and append on top: what it was about to start never starts."""
    cluster = Cluster(one_call("pay"))
    run_id = cluster.start()
    decision = "ModelResponded,ToolCallStarted"
    first = FrozenProcess(Boundary.BEFORE_APPEND, decision)
    driving = cluster.freeze(run_id, first)
    cluster.clock.jump(LEASE + 1)
    second = FrozenProcess(Boundary.AFTER_APPEND, decision)
    winning = cluster.freeze(run_id, second)

    first.thaw.set()
    assert isinstance(driving.exception(timeout=20), OwnershipLost)
    second.thaw.set()

    assert winning.result(timeout=20).status is RunStatus.COMPLETED
    assert first.passed[-1][0] == "before_release"
    assert (Boundary.BEFORE_TOOL, "call_1_1_4e65d3fb") not in first.passed
    assert violations(cluster.outcome(run_id)) == []


def test_a_stale_process_does_not_release_the_lease_of_the_next(caplog: pytest.LogCaptureFixture) -> None:
    """Giving up is not giving back: the lease that the other holds stays where it is."""
    cluster = Cluster(one_call("pay"))
    run_id = cluster.start()
    frozen = FrozenProcess(Boundary.AFTER_TOOL)
    driving = cluster.freeze(run_id, frozen)
    cluster.clock.jump(LEASE + 1)
    holding = FrozenProcess(Boundary.AFTER_APPEND, "RunClaimed")
    heir = cluster.freeze(run_id, holding)
    with caplog.at_level(logging.WARNING, "perdure"):
        frozen.thaw.set()
        assert isinstance(driving.exception(timeout=20), OwnershipLost)

    lease = cluster.leases.find(run_id)
    assert lease is not None
    assert lease.is_live
    assert lease.epoch == 2
    assert any(run_id in line and "call_1_1_4e65d3fb" in line for line in caplog.messages), caplog.messages
    holding.thaw.set()
    heir.result(timeout=20)


def test_a_tool_can_ask_whether_its_process_still_owns_the_run() -> None:
    """`ensure_owned()` stops a tool that woke up too late, and the effect does not happen."""
    cluster = Cluster(Scenario([[Call("pay", 1)]]))
    run_id = cluster.start()
    context = []
    right = cluster.world.act

    def act(tool: str, n: int, ctx: object) -> str:
        context.append(ctx)
        ctx.ensure_owned()  # type: ignore[attr-defined]
        return right(tool, n, ctx)  # type: ignore[arg-type]

    cluster.world.act = act  # type: ignore[method-assign]
    frozen = FrozenProcess(Boundary.BEFORE_TOOL)
    driving = cluster.freeze(run_id, frozen)
    cluster.clock.jump(LEASE + 1)

    frozen.thaw.set()

    assert isinstance(driving.exception(timeout=20), OwnershipLost)
    assert cluster.world.effects == []
    assert len(context) == 1


@pytest.mark.parametrize("fact", ["completed", "cancelled", "escalated"])
def test_a_claim_that_finds_nothing_to_do_writes_nothing(fact: str) -> None:
    """A run that came to rest between the look and the claim is released as it is."""
    scenario = one_call("pay")
    cluster = Cluster(replace(scenario, steps=[[Call("pay", 1, "acts_then_raises")]]))
    run_id = cluster.start()
    late = FrozenProcess(Boundary.BEFORE_CLAIM)
    driving = cluster.freeze(run_id, late)
    if fact == "cancelled":
        cluster.office.cancel(run_id, by="ann", reason="not needed")
    elif fact == "completed":
        cluster.live(run_id)
    else:
        with cluster.boot(Process()) as runs:
            runs.advance(run_id)
    before = cluster.office.events(run_id)

    late.thaw.set()

    assert driving.result(timeout=20).status.value == fact
    assert cluster.office.events(run_id) == before
    lease = cluster.leases.find(run_id)
    assert lease is not None
    assert lease.owner is None


def test_a_result_that_came_back_as_the_lease_ran_out_is_still_offered() -> None:
    """Nobody else has claimed the run, so the log takes the result; then the process stops."""
    cluster = Cluster(one_call("pay"))
    run_id = cluster.start()
    frozen = FrozenProcess(Boundary.AFTER_TOOL)
    driving = cluster.freeze(run_id, frozen)
    held = cluster.runs_of(frozen).keeper._held[run_id]

    held.lose(taken=False)
    frozen.thaw.set()

    assert isinstance(driving.exception(timeout=20), OwnershipLost)
    assert any(isinstance(event, ToolCallSucceeded) for event in cluster.office.events(run_id))
    outcome = cluster.live(run_id)
    assert outcome.state.status is RunStatus.COMPLETED
    assert violations(outcome) == []
