"""A rolling deploy of real worker processes: old and new side by side, and old runs in flight."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from perdure import Agent, AgentRuns, Policy, Resolution, RunState, RunStatus, ToolRegistry, Worker
from perdure.application.ports.model import ModelRequest
from perdure.domain.events import RunClaimed, RunEscalated
from perdure.domain.messages import Reply
from perdure.testing import asks, says
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(120)

UNSERVED_GRACE = 1.5
STEPS = 3
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.cases.test_rolling_deploy_processes"])


class Clerk:
    """Files a paper in each step, and then says so."""

    name = "clerk-model"

    async def respond(self, request: ModelRequest) -> Reply:
        tool = request.tools[0].name
        return asks(tool, {"paper": request.step}) if request.step <= STEPS else says("filed")


def agent(version: str, here: Path) -> Agent:
    """The agent of a release: the new one has another prompt, and its tool has another name."""
    tools = ToolRegistry()

    @tools.tool(name="file_paper" if version == "v1" else "archive_paper", policy=Policy.RERUN, timeout=60)
    def file_paper(paper: int) -> str:
        """File a paper; papers of the old release wait for the test."""
        if version == "v1":
            (here / f"at-{paper}").touch()
            while not (here / f"go-{paper}").exists():
                time.sleep(0.01)
        return f"filed {paper}"

    return Agent("clerk", model=Clerk(), prompt_version=version, tools=tools)


def connect(conninfo: str, here: Path, version: str) -> AgentRuns:
    return AgentRuns.connect(conninfo, agents=[agent(version, here)], lease_seconds=1.0)


def work(conninfo: str, here: Path, version: str) -> None:
    with connect(conninfo, here, version) as runs:
        Worker(runs, poll_interval=0.05, grace=20, unserved_grace=UNSERVED_GRACE).run()


Deploy = Callable[[str], BaseProcess]


@contextmanager
def a_worker(conninfo: str, here: Path, version: str) -> Generator[BaseProcess]:
    process = _CONTEXT.Process(target=work, args=(conninfo, here, version), daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join(10)


@pytest.fixture
def deploy(database_url: str, tmp_path: Path) -> Generator[Deploy]:
    """Starts a worker of a release."""
    with ExitStack() as workers:
        yield lambda version: workers.enter_context(a_worker(database_url, tmp_path, version))


def asked_to_go(worker: BaseProcess) -> None:
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGTERM)


def of_all(office: AgentRuns, run_ids: Sequence[str]) -> list[RunState]:
    return [office.state(run_id) for run_id in run_ids]


def claimers(office: AgentRuns, run_id: str) -> list[str]:
    return [event.worker.split(":")[1] for event in office.events(run_id) if isinstance(event, RunClaimed)]


def test_runs_of_the_old_release_stay_with_old_workers_and_then_say_what_is_missing(
    database_url: str, tmp_path: Path, deploy: Deploy
) -> None:
    """None is escalated while an old worker lives, each is afterwards, and goes on once v1 is back."""
    with connect(database_url, tmp_path, "v1") as old_office, connect(database_url, tmp_path, "v2") as office:
        first, second = deploy("v1"), deploy("v1")
        eventually(lambda: len(office.ports.roster.all()) == 2)
        old = [old_office.start("clerk", "file", run_id=f"old-{number}") for number in range(6)]
        eventually((tmp_path / "at-1").exists)

        # The new release comes; one of the old workers goes in order, and its runs go to the other.
        newcomer = deploy("v2")
        asked_to_go(first)
        (tmp_path / "go-1").touch()
        first.join(30)
        assert first.exitcode == 0
        eventually(lambda: all(claimers(office, run)[-1] == str(second.pid) for run in old))

        # For longer than anybody may be unserved, the new workers see runs that they cannot serve.
        grace_began = office.ports.clock.now()
        served = 0
        while (office.ports.clock.now() - grace_began).total_seconds() < 2 * UNSERVED_GRACE:
            new = office.start("clerk", "file", run_id=f"new-{served}")
            eventually(lambda run=new: office.state(run).is_finished)
            served += 1
            assert claimers(office, new) == [str(newcomer.pid)]
        assert {state.status for state in of_all(office, old)} == {RunStatus.RUNNING}
        pids = {pid for run in old for pid in claimers(office, run)}
        assert pids <= {str(first.pid), str(second.pid)}
        assert str(newcomer.pid) not in pids

        # The last old worker goes: now each run says what it misses.
        asked_to_go(second)
        (tmp_path / "go-2").touch()
        second.join(30)
        assert second.exitcode == 0
        eventually(lambda: all(state.status is RunStatus.ESCALATED for state in of_all(office, old)))
        for state in of_all(office, old):
            assert state.escalation is not None
            assert state.escalation.why == "pins"
            for missing in ("'v1'", "'v2'", "file_paper"):
                assert missing in state.escalation.message

        # Deployed again, and told to go on, it finishes what it had begun; nobody had to guess.
        (tmp_path / "go-3").touch()
        deploy("v1")
        for run_id in old:
            office.resolve(run_id, None, Resolution.resume(), by="ann", reason="v1 is back")
        eventually(lambda: all(state.is_finished for state in of_all(office, old)))
        assert {state.answer for state in of_all(office, old)} == {"filed"}


def test_a_lost_old_worker_is_no_reason_to_escalate_while_another_lives(
    database_url: str, tmp_path: Path, deploy: Deploy
) -> None:
    """One old worker is killed in the middle of a deploy: the other takes over, and nobody is asked."""
    with connect(database_url, tmp_path, "v1") as office:
        victim = deploy("v1")
        run_id = office.start("clerk", "file", run_id="old-0")
        eventually((tmp_path / "at-1").exists)
        heir, _ = deploy("v1"), deploy("v2")
        eventually(lambda: len(office.ports.roster.all()) == 3)
        victim.kill()
        for paper in range(1, STEPS + 1):
            (tmp_path / f"go-{paper}").touch()
        eventually(lambda: office.state(run_id).is_finished)
        assert claimers(office, run_id) == [str(victim.pid), str(heir.pid)]
        assert not [event for event in office.events(run_id) if isinstance(event, RunEscalated)]
