"""A worker drives what it can serve, in turn, and leaves in order."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from perdure import Agent, AgentRuns, ConfigurationError, Limits, Policy, RunStatus, ToolRegistry, Worker
from perdure.application.ports.model import ModelRequest
from perdure.domain.errors import NewerLog
from perdure.domain.events import RunClaimed, ToolCallStarted
from perdure.domain.messages import Reply
from perdure.domain.run import AgentRun
from perdure.infrastructure.memory.clock import ManualClock
from perdure.infrastructure.memory.run_finder import MemoryRunFinder
from perdure.testing import ScriptedModel, asks, says


def clerk(model: object = None, *, version: str = "v1", tools: ToolRegistry | None = None) -> Agent:
    return Agent(
        "clerk",
        model=model or ScriptedModel([says("done")]),  # type: ignore[arg-type]
        prompt_version=version,
        tools=tools or ToolRegistry(),
        limits=Limits(first_delay=0.01),
    )


async def until(look: Callable[[], object], within: float = 20.0) -> None:
    deadline = time.monotonic() + within
    while not look():
        assert time.monotonic() < deadline, "not seen in time"
        await asyncio.sleep(0.005)


def working(runs: AgentRuns, meanwhile: Callable[[asyncio.Event], Awaitable[None]], **options: float) -> None:
    """Let a worker work while something else goes on; then ask it to stop, and wait for that."""

    async def both() -> None:
        stop = asyncio.Event()
        worker = Worker(runs, poll_interval=0.05, **{"grace": 60.0, **options})  # type: ignore[arg-type]
        serving = asyncio.create_task(worker.serve(stop))
        try:
            await meanwhile(stop)
        finally:
            stop.set()
            await asyncio.wait_for(serving, 20)

    asyncio.run(both())


def test_runs_are_driven_to_their_end_before_and_after_the_worker_came() -> None:
    """What waited already and what is started later are both found, and their leases given back."""
    with AgentRuns.in_memory(agents=[clerk()]) as runs:
        before = runs.start("clerk", "hello")

        async def meanwhile(stop: asyncio.Event) -> None:
            after = runs.start("clerk", "hello")
            await until(lambda: all(runs.state(run).is_finished for run in (before, after)))

        working(runs, meanwhile)
        assert runs.ports.leases.all() == []


def test_a_worker_without_agents_is_refused() -> None:
    """It could drive nothing; that is said at once."""
    with AgentRuns.in_memory() as runs, pytest.raises(ConfigurationError, match="agents"):
        Worker(runs)


def test_no_more_runs_than_allowed_are_driven_at_a_time_and_tenants_take_turns() -> None:
    """Ten runs of a big tenant stand first; a small tenant's run does not wait for them all."""
    going: list[str] = []
    most = [0]
    order: list[str] = []

    class Counting:
        name = "counting"

        async def respond(self, request: ModelRequest) -> Reply:
            going.append(request.run_id)
            order.append(request.run_id)
            most[0] = max(most[0], len(going))
            await asyncio.sleep(0.02)
            going.remove(request.run_id)
            return says("done")

    with AgentRuns.in_memory(agents=[clerk(Counting())]) as runs:
        big = [runs.start("clerk", "x", run_id=f"big-{n}", tenant="big") for n in range(10)]
        small = runs.start("clerk", "x", run_id="small", tenant="small")

        async def meanwhile(stop: asyncio.Event) -> None:
            await until(lambda: all(runs.state(run).is_finished for run in [*big, small]))

        working(runs, meanwhile, concurrency=2)
    assert most[0] == 2
    assert order.index("small") <= 1


def test_a_drain_lets_running_tools_end_and_starts_nothing_more() -> None:
    """The tool that runs gets its result on record; the next model call is left to the next worker."""
    entered, leave = threading.Event(), threading.Event()
    tools = ToolRegistry()

    @tools.tool
    def pay() -> str:
        """Pay."""
        entered.set()
        leave.wait(20)
        return "paid"

    model = ScriptedModel([asks("pay", {}), says("done")])
    with AgentRuns.in_memory(agents=[clerk(model, tools=tools)]) as runs:
        run_id = runs.start("clerk", "pay")

        async def meanwhile(stop: asyncio.Event) -> None:
            await until(entered.is_set)
            stop.set()
            await asyncio.sleep(0)
            leave.set()

        working(runs, meanwhile)
        state = runs.state(run_id)
        assert state.status is RunStatus.RUNNING
        assert [call.content.for_model for call in state.calls.values() if call.content] == ["paid"]
        assert len(model.requests) == 1
        assert runs.ports.leases.all() == []
        assert runs.advance(run_id).answer == "done"


def test_a_tool_that_outlives_the_grace_is_left_in_doubt() -> None:
    """The worker does not wait for ever; whoever takes the run next treats the call as one in doubt."""
    entered, leave = threading.Event(), threading.Event()
    tools = ToolRegistry()

    @tools.tool
    def pay() -> str:
        """Pay."""
        entered.set()
        leave.wait(20)
        return "paid"

    with AgentRuns.in_memory(agents=[clerk(ScriptedModel([asks("pay", {})]), tools=tools)]) as runs:
        run_id = runs.start("clerk", "pay")

        async def meanwhile(stop: asyncio.Event) -> None:
            await until(entered.is_set)

        working(runs, meanwhile, grace=0.05)
        leave.set()
        state = runs.advance(run_id)
        assert state.status is RunStatus.ESCALATED
        assert [call.doubt for call in state.in_doubt] == ["crash"]


def test_a_worker_leaves_runs_of_another_version_to_whoever_serves_them() -> None:
    """A rolling deploy: the new worker does not touch old runs while an old worker shows signs of life."""
    clock = ManualClock()
    with AgentRuns.in_memory(agents=[clerk(version="v1")], clock=clock) as old:
        run_id = old.start("clerk", "hello")
        new = _beside(old, clerk(version="v2"))
        old_offers = Worker(old)._offers
        old.ports.roster.announce("old", old_offers, ttl=30)

        async def meanwhile(stop: asyncio.Event) -> None:
            newer = new.start("clerk", "hello")
            await until(lambda: new.state(newer).is_finished)
            clock.move(20)
            old.ports.roster.announce("old", old_offers, ttl=30)
            other = new.start("clerk", "hello")
            await until(lambda: new.state(other).is_finished)

        working(new, meanwhile, unserved_grace=600)
        assert not [event for event in old.events(run_id) if isinstance(event, RunClaimed)]
        assert old.advance(run_id).answer == "done"


def test_a_run_that_nobody_serves_any_more_is_escalated_with_what_is_missing() -> None:
    """After the grace the run says what it needs; it is not substituted silently."""
    clock = ManualClock()
    with AgentRuns.in_memory(agents=[clerk(version="v1")], clock=clock) as old:
        run_id = old.start("clerk", "hello")
        old.ports.roster.announce("old", Worker(old)._offers, ttl=30)
        new = _beside(old, clerk(version="v2"))

        async def meanwhile(stop: asyncio.Event) -> None:
            clock.move(timedelta(minutes=5))
            other = new.start("clerk", "hello")
            await until(lambda: new.state(other).is_finished)
            assert new.state(run_id).status is RunStatus.RUNNING
            clock.move(timedelta(minutes=6))
            await until(lambda: new.state(run_id).status is RunStatus.ESCALATED, within=60)

        working(new, meanwhile, unserved_grace=600)
        escalation = new.state(run_id).escalation
        assert escalation is not None
        assert "'v1'" in escalation.message
        assert "'v2'" in escalation.message


def test_a_run_that_cannot_be_read_does_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log written by a newer version is left to newer workers, and looked at again later."""
    with AgentRuns.in_memory(agents=[clerk()]) as runs:
        newer = runs.start("clerk", "hello", run_id="newer")
        plain = runs.start("clerk", "hello", run_id="plain")
        read = runs.ports.store.read

        def refusing(run_id: str, **options: int) -> object:
            if run_id == newer:
                raise NewerLog("from the future")
            return read(run_id, **options)

        monkeypatch.setattr(runs.ports.store, "read", refusing)

        async def meanwhile(stop: asyncio.Event) -> None:
            await until(lambda: runs.state(plain).is_finished)

        working(runs, meanwhile)
        monkeypatch.undo()
        assert runs.state(newer).version == 1


def test_a_person_who_decides_wakes_the_run_up() -> None:
    """A resolved run goes on at once, without waiting for the next sweep."""
    tools = ToolRegistry()

    @tools.tool(policy=Policy.ESCALATE_IF_UNKNOWN)
    def pay() -> str:
        """Pay."""
        raise ConnectionError("no answer")

    model = ScriptedModel([asks("pay", {}), says("done")])
    with AgentRuns.in_memory(agents=[clerk(model, tools=tools)]) as runs:
        run_id = runs.start("clerk", "pay")

        async def meanwhile(stop: asyncio.Event) -> None:
            from perdure import Resolution

            await until(lambda: runs.state(run_id).status is RunStatus.ESCALATED)
            (call,) = runs.state(run_id).in_doubt
            runs.resolve(run_id, call.call_id, Resolution.succeeded("paid"), by="ann", reason="seen")
            await until(lambda: runs.state(run_id).is_finished)

        working(runs, meanwhile)
        starts = [event for event in runs.events(run_id) if isinstance(event, ToolCallStarted)]
        assert len(starts) == 1


def test_runs_that_lost_workers_are_driven_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may be the one that kills: the others wait until it has brought something; fresh runs do not."""
    at_once: list[set[str]] = []
    asked: set[str] = set()
    let_go = threading.Event()

    class Holding:
        name = "holding"

        async def respond(self, request: ModelRequest) -> Reply:
            asked.add(request.run_id)
            at_once.append(set(asked))
            await asyncio.to_thread(let_go.wait, 20)
            asked.discard(request.run_id)
            return says("done")  # type: ignore[return-value]

    looks: list[object] = []
    find = MemoryRunFinder.find
    monkeypatch.setattr(
        MemoryRunFinder, "find", lambda self, **wanted: looks.append(wanted) or find(self, **wanted)
    )
    with AgentRuns.in_memory(agents=[clerk(Holding())]) as runs:
        for run_id in ("suspect-1", "suspect-2", "fresh"):
            runs.start("clerk", "x", run_id=run_id)
        for run_id in ("suspect-1", "suspect-2"):
            run = AgentRun.from_events(run_id, runs.events(run_id))
            for epoch in (1, 2, 3):
                run.claim(f"lost-{epoch}", epoch, "new" if epoch == 1 else "expired", runs.ports.clock.now())
            runs.ports.store.append(run.pending)
            runs.ports.leases.claim(run_id, "lost-3", ttl=0.001, above=2)
            assert len(run.state.barren_claims) == 2

        async def meanwhile(stop: asyncio.Event) -> None:
            await until(lambda: "fresh" in asked and len(asked) == 2)
            before = len(looks)
            await until(lambda: len(looks) > before + 5)
            let_go.set()
            await until(lambda: all(runs.state(r).is_finished for r in ("suspect-1", "suspect-2", "fresh")))

        working(runs, meanwhile)
    assert not any({"suspect-1", "suspect-2"} <= together for together in at_once)


def _beside(runs: AgentRuns, agent: Agent) -> AgentRuns:
    """Another process on the same log, leases and roster."""
    from perdure.application.registered_agents import RegisteredAgents
    from perdure.infrastructure.models.resolve import resolve_model

    ports = runs.ports
    return AgentRuns(
        runs.log,
        ports.leases,
        ports.clock,
        RegisteredAgents([agent], resolve_model),
        lease_seconds=30,
        roster=ports.roster,
    )
