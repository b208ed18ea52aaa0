"""Workers as processes: signals, runs that kill them, and what the command line does with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure import AgentRuns, RunStatus
from perdure.domain.events import RunClaimed
from tests.support.waiting import eventually

APP = '''
import asyncio, os, signal, time
from pathlib import Path
from perdure import Agent, AgentRuns, Limits, Policy, ToolRegistry
from perdure.testing import ScriptedModel, asks, says

tools = ToolRegistry()
HERE = Path(os.environ["HERE"])

@tools.tool(policy=Policy.RERUN)
def crash() -> str:
    """Kill the worker, as running out of memory would."""
    os.kill(os.getpid(), signal.SIGKILL)

@tools.tool(policy=Policy.RERUN)
def wait() -> str:
    """Wait for a file."""
    (HERE / "waiting").touch()
    while not (HERE / "go").exists():
        time.sleep(0.01)
    return "waited"

@tools.tool(policy=Policy.RERUN)
async def swallow() -> str:
    """Go on, whoever cancels it."""
    (HERE / "waiting").touch()
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass

@tools.tool(policy=Policy.RERUN)
async def block() -> str:
    """Block the event loop, as a forgotten `await` does."""
    (HERE / "waiting").touch()
    while True:
        time.sleep(0.01)

def agent(name, *script):
    return Agent(name, model=ScriptedModel(script), prompt_version="v1", tools=tools,
                 limits=Limits(first_delay=0.05, barren_claims=3))

agents = [agent("killer", asks("crash", {})), agent("swallower", asks("swallow", {})),
          agent("blocker", asks("block", {})),
          agent("waiter", asks("wait", {}), says("done")),
          agent("plain", says("done"))]

def runs():
    return AgentRuns.connect(agents=agents, lease_seconds=0.8)
'''


@contextmanager
def a_worker(here: Path, database_url: str, *options: str) -> Generator[subprocess.Popen[str]]:
    (here / "an_app.py").write_text(APP)
    program = "from perdure.infrastructure.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "worker", "an_app:runs", "--poll-interval", "0.1", *options],
        cwd=here,
        env={**os.environ, "HERE": str(here), "PERDURE_DATABASE_URL": database_url},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_url: str) -> Generator[AgentRuns]:
    """The application as a client sees it."""
    monkeypatch.setenv("HERE", str(tmp_path))
    monkeypatch.setenv("PERDURE_DATABASE_URL", database_url)
    names: dict[str, object] = {}
    exec(APP, names)  # noqa: S102 - the very program that the workers run
    with names["runs"]() as runs:  # type: ignore[operator]
        yield runs


def test_a_run_that_kills_its_worker_is_set_aside_and_the_others_go_on(
    app: AgentRuns, tmp_path: Path, database_url: str
) -> None:
    """Whoever takes it dies; after a few it is left to a person, with the workers that were lost named."""
    killer = app.start("killer", "x", run_id="killer")
    deaths = 0
    for _ in range(10):
        with a_worker(tmp_path, database_url) as worker:
            eventually(
                lambda: worker.poll() is not None or app.state(killer).status is RunStatus.ESCALATED,
                within=40,
            )
            if app.state(killer).status is RunStatus.ESCALATED:
                break
            assert worker.returncode == -signal.SIGKILL
            deaths += 1
    state = app.state(killer)
    assert state.escalation is not None
    assert state.escalation.why == "quarantine"
    assert deaths == 3
    claims = [event for event in app.events(killer) if isinstance(event, RunClaimed)]
    assert all(claim.worker in state.escalation.message for claim in claims[:3])
    plain = app.start("plain", "x")
    with a_worker(tmp_path, database_url):
        eventually(lambda: app.state(plain).is_finished, within=40)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_the_exit_code_is_zero(
    app: AgentRuns, tmp_path: Path, database_url: str, number: signal.Signals
) -> None:
    """The running tool ends, its result is on record, and the run is free for others at once."""
    run_id = app.start("waiter", "x")
    with a_worker(tmp_path, database_url) as worker:
        eventually((tmp_path / "waiting").exists, within=40)
        worker.send_signal(number)
        eventually(lambda: "draining" in (worker.stderr.readline() if worker.stderr else ""))
        (tmp_path / "go").touch()
        assert worker.wait(20) == 0
    state = app.state(run_id)
    assert state.status is RunStatus.RUNNING
    assert [call.status for call in state.calls.values()] == ["succeeded"]
    lease = app.ports.leases.find(run_id)
    assert lease is not None
    assert lease.owner is None


def test_a_second_signal_waits_for_nothing(app: AgentRuns, tmp_path: Path, database_url: str) -> None:
    """A tool that would keep the worker for its whole grace is left behind."""
    app.start("waiter", "x")
    with a_worker(tmp_path, database_url, "--grace", "600") as worker:
        eventually((tmp_path / "waiting").exists, within=40)
        worker.send_signal(signal.SIGTERM)
        eventually(lambda: "draining" in (worker.stderr.readline() if worker.stderr else ""))
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(20) == 0


def test_a_tool_that_swallows_its_cancellation_does_not_keep_the_worker(
    app: AgentRuns, tmp_path: Path, database_url: str
) -> None:
    """It gets its grace like any other, and the worker leaves in order."""
    run_id = app.start("swallower", "x")
    with a_worker(tmp_path, database_url, "--grace", "0.1") as worker:
        eventually((tmp_path / "waiting").exists, within=40)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(20) == 0
    lease = app.ports.leases.find(run_id)
    assert lease is not None
    assert lease.owner is None


def test_a_worker_that_cannot_stop_is_ended(app: AgentRuns, tmp_path: Path, database_url: str) -> None:
    """The event loop is blocked for good: two signals end the process all the same, with code 1."""
    app.start("blocker", "x")
    with a_worker(tmp_path, database_url, "--grace", "600") as worker:
        eventually((tmp_path / "waiting").exists, within=40)
        worker.send_signal(signal.SIGTERM)
        worker.send_signal(signal.SIGINT)
        assert worker.wait(20) == 1
