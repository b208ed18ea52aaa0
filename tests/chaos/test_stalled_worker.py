"""A worker whose network swallows packets: nobody tells it that the connection is gone."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from perdure import Agent, AgentRuns, Policy, ToolContext, ToolRegistry, Worker
from perdure.application.ports.model import ModelRequest
from perdure.domain.events import RunClaimed
from perdure.domain.messages import Reply
from perdure.testing import asks, says
from tests.support.proxy import Proxy
from tests.support.waiting import eventually

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]

LEASE = 3.0
GRACE = 1.0
MARGIN = 15.0
"""Seconds that the documentation has process managers give a worker beyond its grace."""
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.chaos.test_stalled_worker"])


class AsksOnce:
    """Asks for one call, and is content with whatever it brings."""

    name = "asks-once"

    async def respond(self, request: ModelRequest) -> Reply:
        return asks("attend", {}) if request.step == 1 else says("done")


def connect(conninfo: str, here: Path) -> AgentRuns:
    tools = ToolRegistry()

    @tools.tool(policy=Policy.RERUN, timeout=60)
    async def attend(ctx: ToolContext) -> str:
        """Stay until told to leave, the first time."""
        (here / "began").touch()
        if ctx.attempt == 1:
            try:
                await asyncio.sleep(60)
            finally:
                (here / "left").write_text(str(time.time()))
                (here / "left").rename(here / "has left")
        return "attended"

    agent = Agent("attendant", model=AsksOnce(), prompt_version="v1", tools=tools)
    return AgentRuns.connect(conninfo, agents=[agent], lease_seconds=LEASE)


def work(conninfo: str, here: Path) -> None:
    with connect(conninfo, here) as runs:
        Worker(runs, poll_interval=0.2, grace=GRACE).run()


@contextmanager
def a_worker(conninfo: str, here: Path) -> Generator[BaseProcess]:
    process = _CONTEXT.Process(target=work, args=(conninfo, here), daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join(10)


def test_it_stops_before_its_lease_ends_and_another_goes_on(database_url: str, tmp_path: Path) -> None:
    """Its tool is cancelled while the run is still its own; what it hears later makes it write nothing."""
    with (
        connect(database_url, tmp_path) as office,
        Proxy(database_url) as proxy,
        a_worker(proxy.conninfo, tmp_path) as stalled,
    ):
        run_id = office.start("attendant", "go")
        eventually((tmp_path / "began").exists)
        proxy.stall()
        eventually((tmp_path / "has left").exists, within=2 * LEASE)
        lease = office.ports.leases.find(run_id)
        assert lease is not None
        assert lease.owner is not None
        assert float((tmp_path / "has left").read_text()) < lease.expires_at.timestamp()

        with a_worker(database_url, tmp_path) as heir:
            eventually(lambda: office.state(run_id).is_finished)
            claims = [event for event in office.events(run_id) if isinstance(event, RunClaimed)]
            assert [claim.worker.split(":")[1] for claim in claims] == [str(stalled.pid), str(heir.pid)]
            assert claims[1].left == "expired"
            assert claims[1].at >= lease.expires_at
            written = len(office.events(run_id))

        proxy.flow()
        # It works again: what it does next it does after all that it may have had to say.
        (tmp_path / "began").unlink()
        other = office.start("attendant", "go")
        eventually((tmp_path / "began").exists)
        assert len(office.events(run_id)) == written
        assert office.state(other).worker == claims[0].worker


@pytest.mark.parametrize("is_busy", [True, False], ids=["busy", "idle"])
def test_it_ends_when_it_is_asked_to(database_url: str, tmp_path: Path, is_busy: bool) -> None:
    """SIGTERM needs no network: the process is gone before its process manager loses patience."""
    with (
        connect(database_url, tmp_path) as office,
        Proxy(database_url) as proxy,
        a_worker(proxy.conninfo, tmp_path) as stalled,
    ):
        eventually(office.ports.roster.all)
        if is_busy:
            office.start("attendant", "go")
            eventually((tmp_path / "began").exists)
        proxy.stall()
        assert stalled.pid is not None
        os.kill(stalled.pid, signal.SIGTERM)
        stalled.join(GRACE + MARGIN)
        assert stalled.exitcode is not None, "it goes on"
