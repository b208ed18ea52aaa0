"""Takes a run, drives it until it rests, and gives it back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from perdure.application.activities import Activities
from perdure.application.agent_loop import AgentLoop
from perdure.application.journal import Journal
from perdure.application.pinned_tools import PinnedTools
from perdure.application.ports.boundaries import Boundary
from perdure.domain.errors import OwnershipLost, RunNotFound
from perdure.domain.moves import Limits
from perdure.domain.run import AgentRun
from perdure.domain.state import RunState

if TYPE_CHECKING:
    from perdure.application.agent import Agent
    from perdure.application.lease_keeper import HeldLease, LeaseKeeper
    from perdure.application.ports import Ports
    from perdure.application.registered_agents import RegisteredAgents
    from perdure.application.shift import Shift


class Driver:
    """Drives runs, one at a time or many side by side in one event loop."""

    def __init__(self, ports: Ports, keeper: LeaseKeeper, agents: RegisteredAgents) -> None:
        self._ports = ports
        self._keeper = keeper
        self._agents = agents

    async def load(self, run_id: str) -> AgentRun:
        """Rebuild a run from its log.

        Raises:
            RunNotFound: There is no such run.
        """
        run = AgentRun.from_events(run_id, await asyncio.to_thread(self._ports.store.read, run_id))
        if run.version == 0:
            raise RunNotFound(f"there is no run {run_id!r}")
        return run

    async def advance(self, run: AgentRun, shift: Shift) -> RunState:
        """Claim a run, drive it until it rests, and release it.

        A run that rests already is returned as it is, and nothing is written. One that no agent at hand can
        serve is escalated.

        Args:
            run: The run as it was loaded; what was written since is taken in.
            shift: What the drives of this event loop share.

        Raises:
            RunIsOwned: Somebody drives it.
            OwnershipLost: Another worker took it over.
        """
        if run.state.is_resting:
            return run.state
        lost = asyncio.Event()
        loop = asyncio.get_running_loop()
        # Before the claim, which reads the log: what is written from then on is told.
        with shift.messenger.letters_for(run.id) as told:
            held = await asyncio.to_thread(self._claim, run, lambda: _set_from_thread(loop, lost))
            try:
                return await self._drive(run, shift, held, lost, told)
            finally:
                self._ports.boundaries.reached(Boundary.BEFORE_RELEASE, run.id, "")
                await asyncio.shield(asyncio.to_thread(self._keeper.release, held))

    def _claim(self, run: AgentRun, lose: Callable[[], None]) -> HeldLease:
        self._ports.boundaries.reached(Boundary.BEFORE_CLAIM, run.id, "")
        self._ports.clock.synchronise()
        held = self._keeper.claim(run.id, above=run.state.epoch, lose=lose)
        try:
            self._ports.boundaries.reached(Boundary.AFTER_CLAIM, run.id, "")
            run.rebase(self._ports.store.read(run.id, after=run.version))
        except BaseException:
            self._keeper.release(held)
            raise
        return held

    async def _drive(
        self, run: AgentRun, shift: Shift, held: HeldLease, lost: asyncio.Event, told: asyncio.Event
    ) -> RunState:
        if run.state.is_resting:
            return run.state
        lease = held.lease
        agent, missing = self._agents.serving(run.state.agent, run.state.pins)
        limits = agent.limits if agent is not None else Limits()
        journal = Journal(run, self._ports.store, shift.writer, held, self._ports.boundaries, limits)

        def claim(run: AgentRun) -> None:
            if not run.state.is_resting:
                run.claim(lease.owner, lease.epoch, lease.left, self._ports.clock.now())

        await journal.record(claim)
        if agent is None:
            return await self._escalate(journal, missing)
        activities = self._activities(agent, run.state, held)
        loop = AgentLoop(
            journal, activities, activities.tools, self._ports.clock, held, agent.limits, lost, told
        )
        return await loop.drive(shift.drain)

    def _activities(self, agent: Agent, state: RunState, held: HeldLease) -> Activities:
        tools = PinnedTools(state.pins, agent.tools)

        def require_ownership() -> None:
            if not self._ports.leases.holds(held.lease):
                self._keeper.give_up(held, "it has ended")
                raise OwnershipLost(f"run {state.run_id!r} is no longer held by this worker")

        ports, model = self._ports, self._agents.model(agent)
        return Activities(agent, model, tools, ports.clock, ports.boundaries, require_ownership)

    async def _escalate(self, journal: Journal, missing: tuple[str, ...]) -> RunState:
        def decide(run: AgentRun) -> None:
            if not run.state.is_resting:
                run.escalate(
                    "pins",
                    "What the run is pinned to is not here: " + "; ".join(missing),
                    "Deploy the missing version and resume the run, or abandon it.",
                    self._ports.clock.now(),
                )

        await journal.record(decide)
        return journal.state


def _set_from_thread(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody drives the run any more
        loop.call_soon_threadsafe(event.set)
