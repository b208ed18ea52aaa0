"""One writer, on a real PostgreSQL: the log itself keeps a stale process out."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import psycopg
import pytest

from perdure import AgentRuns, OwnershipLost, Resolution, RunIsOwned, RunState, RunStatus
from perdure.application.ports.boundaries import Boundary
from perdure.domain.events import RunClaimed
from tests.support.cluster import DEADLINE, FrozenProcess, Outcome, Process
from tests.support.promises import violations
from tests.support.scenarios import Call, Scenario
from tests.support.world import World

SCENARIO = Scenario([[Call("pay", 1)]])


def boot(url: str, world: World, process: Process) -> AgentRuns:
    agent, _ = SCENARIO.agent(SCENARIO.tools(world))
    return AgentRuns.connect(url, agents=[agent], boundaries=process)


def frozen(url: str, world: World, process: FrozenProcess) -> Future[RunState]:
    driving = Future[RunState]()

    def drive() -> None:
        with boot(url, world, process) as runs:
            try:
                driving.set_result(runs.advance("run-1"))
            except BaseException as error:  # noqa: BLE001 - it is what the test asks about
                driving.set_exception(error)

    threading.Thread(target=drive, daemon=True).start()
    assert process.is_frozen.wait(DEADLINE)
    return driving


@pytest.mark.parametrize(
    "append", ["RunClaimed", "ModelResponded,ToolCallStarted", "ToolCallSucceeded", "RunCompleted"]
)
def test_a_stale_process_writes_nothing(append: str, database_url: str) -> None:
    """Frozen before an append and overtaken by a process that finishes the run, it stops without a trace."""
    world = World()
    process = FrozenProcess(Boundary.BEFORE_APPEND, append)
    with boot(database_url, world, Process()) as runs:
        runs.start("actor", "Act.", run_id="run-1")
        driving = frozen(database_url, world, process)
        with pytest.raises(RunIsOwned):
            runs.advance("run-1")
        with psycopg.connect(database_url) as connection:
            connection.execute("UPDATE perdure.leases SET expires_at = clock_timestamp()")
        state = runs.advance("run-1")
        while state.status is RunStatus.ESCALATED:
            assert state.escalation is not None
            for call_id in state.escalation.calls:
                runs.resolve("run-1", call_id, _looked_up(world, call_id), by="ann", reason="looked")
            state = runs.advance("run-1")
        before = runs.events("run-1")

        process.thaw.set()
        assert isinstance(driving.exception(timeout=DEADLINE), OwnershipLost)

        assert runs.events("run-1") == before
        assert violations(Outcome(SCENARIO, world, before, runs.state("run-1"), requests=[])) == []
    claims = [event for event in before if isinstance(event, RunClaimed)]
    epochs = [claim.epoch for claim in claims]
    assert epochs == sorted(set(epochs))


def _looked_up(world: World, call_id: str) -> Resolution:
    effect = world.of_call(call_id)
    return Resolution.succeeded(effect.result) if effect else Resolution.rerun()
