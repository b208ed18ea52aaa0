"""The loop: the one path of fresh and resumed runs.

It asks the run what it needs, gets it, and puts what came back on record together with what follows from
it. So a step with one tool call takes two commits: the response with the started marker, and the result.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from perdure.application.activities import Activities, Activity, Command, nothing
from perdure.application.attempts import Attempt
from perdure.application.journal import Journal
from perdure.application.lease_keeper import HeldLease
from perdure.application.ports.clock import Clock
from perdure.domain.calls import CallStatus
from perdure.domain.errors import LogUnavailable, OwnershipLost, RunFinished
from perdure.domain.moves import Act, AskModel, Limits, Move, Rest
from perdure.domain.run import AgentRun
from perdure.domain.state import RunState
from perdure.domain.tools import Toolbox

log = logging.getLogger("perdure")

Key = tuple[str, str, int]
"""What an activity is for: ("model", "", step), ("tool", call id, attempt), ("verify", call id, asked)."""
T = TypeVar("T")


class Drain:
    """Asks loops to end early: nothing new is started, running tools get some time."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self._until = 0.0

    def request(self, grace: float) -> None:
        """Ask all loops that were given this drain to end.

        Args:
            grace: Seconds for running tools to end in.
        """
        self._until = asyncio.get_running_loop().time() + grace
        self.requested.set()

    @property
    def seconds_left(self) -> float:
        """Seconds left for running tools."""
        return max(0.0, self._until - asyncio.get_running_loop().time())


class _BroughtBack:
    """What activities brought back, as one command that can say what it is about."""

    def __init__(self, commands: Mapping[Key, Command]) -> None:
        self._commands = commands

    def __call__(self, run: AgentRun) -> None:
        for command in self._commands.values():
            command(run)

    def __str__(self) -> str:
        return ", ".join(f"{kind} {call_id or number}" for kind, call_id, number in self._commands)


class AgentLoop:
    """Drives one claimed run until it rests."""

    def __init__(
        self,
        journal: Journal,
        activities: Activities,
        tools: Toolbox,
        clock: Clock,
        hold: HeldLease,
        limits: Limits,
        lost: asyncio.Event,
        told: asyncio.Event,
    ) -> None:
        """Prepare to drive.

        Args:
            journal: The run.
            activities: Its model and tools.
            tools: What the plan may ask about them.
            clock: The store's clock.
            hold: This worker's hold on the run.
            limits: How hard to try.
            lost: Set when the hold is lost.
            told: Set when somebody else wrote to the run.
        """
        self._journal = journal
        self._activities = activities
        self._tools = tools
        self._clock = clock
        self._hold = hold
        self._limits = limits
        self._lost = lost
        self._told = told
        self._under_way: dict[Key, tuple[Activity, Attempt]] = {}
        self._stirred = asyncio.Event()

    async def drive(self, drain: Drain) -> RunState:
        """Go on until the run rests, or until it is asked to drain.

        Raises:
            OwnershipLost: Another worker took the run, or the lease could not be renewed.
        """
        signals = self._told_of(self._lost, self._stop_what_runs), self._told_of(drain.requested)
        self._watcher = self._watching()
        command: Command = nothing
        try:
            while not drain.requested.is_set():
                move = await self._decide(command)
                if isinstance(move, Rest):
                    return self._journal.state
                command = await self._perform(move)
            return await self._drain(drain, command)
        finally:
            self._stop_what_runs()
            for task in (self._watcher, *signals):
                task.cancel()
            await asyncio.gather(self._watcher, *signals, return_exceptions=True)

    def _told_of(self, event: asyncio.Event, then: Callable[[], None] | None = None) -> asyncio.Task[Any]:
        # At once, whatever the drive is waiting for then: the store may be what cannot be reached.
        def tell(task: asyncio.Task[Any]) -> None:
            if then is not None and not task.cancelled():
                then()
            self._stirred.set()

        task = asyncio.create_task(event.wait())
        task.add_done_callback(tell)
        return task

    async def _drain(self, drain: Drain, command: Command) -> RunState:
        # Nothing is planned any more: a call marked as started here would be in doubt for the next owner.
        await self._record(command)
        for key in [key for key in self._under_way if key[0] != "tool"]:
            self._leave(key)
        while self._under_way and drain.seconds_left > 0:
            self._hold.vouch(drain.seconds_left)
            await self._until_stirred(drain.seconds_left)
            await self._stop_if_lost()
            await self._record(self._brought_back())
        return self._journal.state

    def _stop_what_runs(self) -> None:
        # The watcher too: while it waits for an answer nothing can be put on record.
        self._watcher.cancel()
        for _, attempt in self._under_way.values():
            attempt.leave_alone()

    def _leave(self, key: Key) -> None:
        _, attempt = self._under_way.pop(key)
        attempt.leave_alone()

    async def _stop_if_lost(self) -> None:
        if self._lost.is_set():
            # What has come back by now is still offered: the log takes it unless somebody else has claimed.
            await self._record(self._brought_back())
            raise OwnershipLost(f"the lease of run {self._journal.state.run_id!r} was lost")

    async def _until_stirred(self, seconds: float | None) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(seconds, self._stirred.set) if seconds is not None else None
        try:
            await self._stirred.wait()
        finally:
            self._stirred.clear()
            if timer is not None:
                timer.cancel()

    async def _decide(self, command: Command) -> Move:
        def decide(run: AgentRun) -> Move:
            command(run)
            return run.advance(self._clock.now(), self._tools, self._limits)

        try:
            return await self._record(decide, of=command)
        except RunFinished:
            self._log_dropped(command, "it had ended meanwhile")
            return Rest()

    async def _record(self, decide: Callable[[AgentRun], T], of: Command | None = None) -> T:
        try:
            return await self._journal.record(decide)
        except OwnershipLost:
            self._log_dropped(of if of is not None else decide, "another worker took it")
            raise

    def _log_dropped(self, command: Callable[[AgentRun], object], why: str) -> None:
        if command is not nothing:
            run_id = self._journal.state.run_id
            log.warning("run %s: what came back was not recorded: %s (%s)", run_id, why, command)

    async def _perform(self, move: AskModel | Act) -> Command:
        await self._stop_if_lost()
        wanted = self._wanted(move)
        for key in self._under_way.keys() - wanted.keys():
            self._leave(key)
        for key, about in wanted.items():
            if key not in self._under_way:
                activity = about()
                self._under_way[key] = activity, activity.begin(self._stirred.set)
        wait = self._seconds_until(move)
        now = asyncio.get_running_loop().time()
        silence = max((attempt.until - now for _, attempt in self._under_way.values()), default=wait or 0.0)
        self._hold.vouch(silence)

        await self._until_stirred(wait)
        await self._stop_if_lost()
        if self._watcher.done():
            self._watcher.result()
            self._watcher = self._watching()
        return self._brought_back()

    def _wanted(self, move: AskModel | Act) -> dict[Key, Callable[[], Activity]]:
        state, activities = self._journal.state, self._activities
        if isinstance(move, AskModel):
            return {("model", "", move.step): partial(activities.ask_model, state)}
        wanted: dict[Key, Callable[[], Activity]] = {}
        for call in state.calls.values():
            if call.status is CallStatus.STARTED:
                wanted["tool", call.call_id, call.attempt] = partial(activities.run_tool, state, call)
            elif call.call_id in move.verify:
                wanted["verify", call.call_id, call.verifications] = partial(activities.verify, state, call)
        return wanted

    def _seconds_until(self, move: AskModel | Act) -> float | None:
        if isinstance(move, AskModel) or move.wake_at is None:
            return None
        return max(0.0, (move.wake_at - self._clock.now()).total_seconds())

    def _brought_back(self) -> Command:
        commands: dict[Key, Command] = {}
        for key, (activity, attempt) in list(self._under_way.items()):
            if attempt.ending is not None:
                del self._under_way[key]
                commands[key] = activity.concluded(attempt.ending)
        return _BroughtBack(commands) if commands else nothing

    def _watching(self) -> asyncio.Task[None]:
        watcher = asyncio.create_task(self._watch())
        watcher.add_done_callback(lambda _: self._stirred.set())
        return watcher

    async def _watch(self) -> None:
        """Take in what people wrote meanwhile; return when they did."""
        while True:
            await self._told.wait()
            self._told.clear()
            try:
                if await self._journal.take_in_news():
                    return
            except LogUnavailable as error:
                log.debug("run %s: no look at what people wrote: %s", self._journal.state.run_id, error)
                self._told.set()
                await asyncio.sleep(self._limits.first_delay)
