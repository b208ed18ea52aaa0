"""A worker: finds runs, drives many side by side, and gives them back when it is asked to go."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from perdure.application.agent_loop import Drain
from perdure.application.agent_runs import AgentRuns
from perdure.application.event_loop import run_to_end
from perdure.application.passing_over import PassingOver
from perdure.application.ports.roster import Offer
from perdure.application.ports.run_finder import Candidate
from perdure.application.shift import Shift, shift
from perdure.application.stop_signals import stop_signals
from perdure.domain.errors import (
    ConfigurationError,
    LogUnavailable,
    OwnershipLost,
    PerdureError,
    RunIsOwned,
)
from perdure.domain.pins import differences
from perdure.domain.run import AgentRun

log = logging.getLogger("perdure")


_LAST_WORDS = 5.0
"""Seconds after the grace in which what is known is put on record and leases are given back."""
_HARD_END = 12.0
"""Seconds after the grace at which a process that has not ended by itself is ended."""
_SUSPICIOUS = 2
"""Workers lost with a run in a row, from which on it may be the run that kills them."""


class Worker:
    """Drives runs until it is told to stop.

    It claims only runs that its agents can serve. A run that no live worker can serve is left to a person
    after `unserved_grace`, with what is missing spelled out.
    """

    def __init__(
        self,
        runs: AgentRuns,
        *,
        concurrency: int = 64,
        poll_interval: float = 1.0,
        grace: float = 30.0,
        unserved_grace: float = 600.0,
    ) -> None:
        """Prepare to work.

        Args:
            runs: Connected runs, with the agents that this worker serves.
            concurrency: Runs driven at the same time, at most.
            poll_interval: Seconds between looks for runs, should the bell not ring.
            grace: Seconds that running tools get when the worker is asked to stop.
            unserved_grace: Seconds that a run may find no worker that can serve it, before a person is asked.

        Raises:
            ConfigurationError: No agents, or a number that makes no sense.
        """
        if not runs.agents.all:
            raise ConfigurationError("a worker needs agents: AgentRuns.connect(..., agents=[...])")
        if concurrency < 1 or poll_interval <= 0 or grace < 0 or unserved_grace < 0:
            raise ConfigurationError("concurrency and poll_interval are above 0, graces are not below")
        self._runs = runs
        self._ports = runs.ports
        self._concurrency = concurrency
        self._poll_interval = poll_interval
        self._grace = grace
        self._unserved_grace = unserved_grace
        self._offers = [
            Offer(agent=agent.name, pins=runs.agents.standing(agent), sources=agent.tools.sources)
            for agent in runs.agents.all
        ]
        self._versions = {(o.agent, o.pins.model, o.pins.prompt_version) for o in self._offers}
        self._next_sweep = 0.0
        self._driving: dict[str, tuple[asyncio.Task[None], str | None]] = {}
        self._passing_over = PassingOver(first_delay=poll_interval)
        self._suspect: AgentRun | None = None

    # -- running -----------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until SIGTERM or SIGINT; a second signal does not wait for running tools.

        For the main thread of a process that does nothing else: what does not stop in time (a tool that
        blocks the event loop, say) is ended with the process, which then exits with code 1.
        """
        run_to_end(self._run_with_signals())

    async def _run_with_signals(self) -> None:
        stop, now = asyncio.Event(), asyncio.Event()
        with stop_signals(stop, now, patience=self._grace + _HARD_END):
            await self.serve(stop, now)

    async def serve(self, stop: asyncio.Event, stop_now: asyncio.Event | None = None) -> None:
        """Work until `stop` is set; for hosts with a loop of their own.

        Args:
            stop: Set it to drain: no new runs, and running tools get their grace.
            stop_now: Set it as well to wait for nothing.
        """
        stop_now = stop_now if stop_now is not None else asyncio.Event()
        loop = asyncio.get_running_loop()
        rung = asyncio.Event()
        rung.set()
        end_listening = self._ports.bell.listen(lambda: _set_from_thread(loop, rung))
        drain = Drain()
        stopping = asyncio.create_task(stop.wait())
        # At once, in the middle of a look for runs as well: what is found then is not begun.
        stopping.add_done_callback(lambda _: drain.request(self._grace))
        presence = asyncio.create_task(self._be_present())
        log.info("worker %s: at most %d runs at a time", self._runs.keeper.owner, self._concurrency)
        try:
            async with shift(self._ports.store, drain) as shared:
                try:
                    await self._look_for_runs(stopping, rung, shared)
                    await self._wait_for_runs(stop_now, drain)
                finally:
                    await _cancelled(*(task for task, _ in self._driving.values()))
        finally:
            await _cancelled(stopping, presence)
            await asyncio.to_thread(end_listening)
            with contextlib.suppress(LogUnavailable):
                await asyncio.to_thread(self._ports.roster.leave, self._runs.keeper.owner)

    async def _wait_for_runs(self, stop_now: asyncio.Event, drain: Drain) -> None:
        at_once = asyncio.create_task(stop_now.wait())
        while self._driving and not at_once.done():
            tasks = {task for task, _ in self._driving.values()}
            left = drain.seconds_left + _LAST_WORDS
            ended, _ = await asyncio.wait(
                {*tasks, at_once}, timeout=left, return_when=asyncio.FIRST_COMPLETED
            )
            if not ended:
                log.warning("runs that do not come to an end are left: %s", ", ".join(sorted(self._driving)))
                break
        await _cancelled(at_once)

    # -- finding -----------------------------------------------------------------------------------

    async def _look_for_runs(self, stopping: asyncio.Task[bool], rung: asyncio.Event, shift: Shift) -> None:
        position: int | None = None
        full_look = 0.0
        while not stopping.done():
            rung.clear()
            pause = self._poll_interval
            try:
                if self._has_room:
                    store = self._ports.store
                    if position is None:
                        position = await asyncio.to_thread(store.position)
                    is_due = time.monotonic() >= full_look
                    told = await asyncio.to_thread(store.told, position)
                    position = told.upto
                    if is_due or told.run_ids:
                        await self._take_what_is_there(shift)
                        full_look = time.monotonic() + self._poll_interval
            except LogUnavailable as error:
                log.warning("no runs can be found now: %s", error)
            ringing = asyncio.create_task(rung.wait())
            tasks = {task for task, _ in self._driving.values()}
            waiting = {ringing, stopping} if self._has_room else {stopping, *tasks}
            await asyncio.wait(waiting, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            await _cancelled(ringing)

    @property
    def _has_room(self) -> bool:
        return len(self._driving) < self._concurrency

    async def _take_what_is_there(self, shift: Shift) -> None:
        now = time.monotonic()
        passing_over: dict[str, int | None] = {**self._passing_over.now(), **dict.fromkeys(self._driving)}
        # Now and then all runs are looked at: some may be pinned to what nobody serves any more.
        everything = now >= self._next_sweep
        if everything:
            self._next_sweep = now + 30 * self._poll_interval
        found = await asyncio.to_thread(
            self._ports.finder.find,
            versions=None if everything else self._versions,
            passing_over=passing_over,
            limit=self._concurrency - len(self._driving),
        )
        for candidate in () if shift.drain.requested.is_set() else self._in_fair_order(found):
            task = asyncio.create_task(self._drive(candidate, shift))
            self._driving[candidate.run_id] = task, candidate.tenant

    def _in_fair_order(self, found: Sequence[Candidate]) -> list[Candidate]:
        served = Counter(tenant for _, tenant in self._driving.values())
        return sorted(found, key=lambda candidate: served[candidate.tenant])

    # -- driving -----------------------------------------------------------------------------------

    async def _drive(self, candidate: Candidate, shift: Shift) -> None:
        run_id, version = candidate.run_id, candidate.version
        try:
            run = await self._runs.driver.load(run_id)
            version = run.version
            if run.state.is_resting or self._has_to_wait(run):
                self._passing_over.note(run_id, version)
                return
            agent, missing = self._runs.agents.serving(run.state.agent, run.state.pins)
            if agent is None and not await self._nobody_serves(run):
                log.debug("run %s is left to workers that can serve it: %s", run_id, "; ".join(missing))
                self._passing_over.note(run_id, version)
                return
            try:
                await self._runs.driver.advance(run, shift)
            finally:
                version = run.version
            self._passing_over.forget(run_id)
        except RunIsOwned:
            pass
        except OwnershipLost as error:
            log.warning("%s", error)
        except PerdureError as error:
            log.warning("run %s is left for now: %s", run_id, error)
            self._passing_over.note(run_id, version)
        except Exception:
            log.exception("run %s is left for now", run_id)
            self._passing_over.note(run_id, version)
        finally:
            self._driving.pop(run_id, None)

    def _has_to_wait(self, run: AgentRun) -> bool:
        """Whether it may be this run that kills workers, and another such run is under way here.

        All runs of a worker look alike when it dies. Those that were there again and again are driven one at
        a time, so that the innocent ones get through, and only the one that kills is set aside.
        """
        if len(run.state.barren_claims) < _SUSPICIOUS:
            return False
        other = self._suspect
        if other is not None and other.id in self._driving and other.state.barren_claims:
            return True
        self._suspect = run
        return False

    async def _nobody_serves(self, run: AgentRun) -> bool:
        """Whether no worker could serve the run for longer than the grace."""
        state = run.state
        since = state.at
        for worker in await asyncio.to_thread(self._ports.roster.all):
            for offer in worker.offers:
                serves = offer.agent == state.agent and not differences(
                    state.pins, offer.pins, sources=offer.sources
                )
                if serves and (since is None or worker.until > since):
                    since = worker.until
        grace = timedelta(seconds=self._unserved_grace)
        return since is not None and self._ports.clock.now() >= since + grace

    async def _be_present(self) -> None:
        ttl = self._runs.keeper.ttl
        while True:
            try:
                owner = self._runs.keeper.owner
                await asyncio.to_thread(self._ports.roster.announce, owner, self._offers, ttl=ttl)
            except LogUnavailable as error:
                log.warning("no sign of life could be given: %s", error)
            await asyncio.sleep(ttl / 3)


async def _cancelled(*tasks: asyncio.Task[object]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_LAST_WORDS)


def _set_from_thread(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(event.set)
