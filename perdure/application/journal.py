"""A run being worked on: decisions are made on its state, and are real once they are stored."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from perdure.application.ports.boundaries import Boundaries, Boundary
from perdure.application.ports.event_store import EventStore, EventWriter
from perdure.domain.errors import LogConflict, LogUnavailable, OwnershipLost
from perdure.domain.events import Event, RunClaimed
from perdure.domain.moves import Limits
from perdure.domain.run import AgentRun
from perdure.domain.state import RunState

log = logging.getLogger("perdure")

T = TypeVar("T")


class Hold(Protocol):
    """A worker's hold on a run."""

    @property
    def is_taken(self) -> bool:
        """Whether somebody else is known to have taken the run."""
        ...

    def vouch_at_least(self, seconds: float) -> None:
        """Let the lease be renewed for that long, or longer, even if nothing is heard from the run."""
        ...


class Journal:
    """Decides on a run's state and stores what was decided, one decision at a time.

    A refused append looks at what stands there. Another claim: this worker lost the run, and
    `OwnershipLost` goes up. Facts from people: they are taken in, and the decision is made again.
    """

    def __init__(
        self,
        run: AgentRun,
        store: EventStore,
        writer: EventWriter,
        hold: Hold,
        boundaries: Boundaries,
        limits: Limits,
    ) -> None:
        self._run = run
        self._store = store
        self._writer = writer
        self._hold = hold
        self._boundaries = boundaries
        self._limits = limits
        self._turn = asyncio.Lock()

    @property
    def state(self) -> RunState:
        """The state of the run; everything in it is stored, except while a decision is being stored."""
        return self._run.state

    async def record(self, decide: Callable[[AgentRun], T]) -> T:
        """Make a decision and store its events, in one commit.

        Args:
            decide: Gives commands to the run. It is called again when others wrote meanwhile, so it does
                nothing else.

        Returns:
            What `decide` returned, once what it decided is durable.

        Raises:
            OwnershipLost: Another worker claimed the run; nothing was stored.
        """
        async with self._turn:
            while True:
                try:
                    outcome = decide(self._run)
                except BaseException:
                    self._run.rebase(())
                    raise
                if not self._run.pending:
                    return outcome
                try:
                    await self._until_answered(self._append)
                except LogConflict as conflict:
                    self._take_in(await self._until_answered(self._read_news), conflict)
                    continue
                self._run.committed()
                return outcome

    async def take_in_news(self) -> bool:
        """Take in what others stored since the last commit; say whether there was anything.

        Raises:
            OwnershipLost: Another worker claimed the run.
            LogUnavailable: The event store cannot be reached.
        """
        async with self._turn:
            news = await self._read_news()
            if news:
                self._take_in(news, None)
            return bool(news)

    def _take_in(self, news: Sequence[Event], conflict: LogConflict | None) -> None:
        for event in news:
            if isinstance(event, RunClaimed):
                raise OwnershipLost(
                    f"run {self._run.id!r} was claimed by {event.worker!r} (epoch {event.epoch}); "
                    "this worker wrote nothing after that"
                ) from conflict
        if not news and conflict is not None:
            raise conflict
        self._run.rebase(news)

    async def _read_news(self) -> Sequence[Event]:
        return await asyncio.to_thread(self._store.read, self._run.id, after=self._run.stored_version)

    async def _append(self) -> None:
        events = self._run.pending
        names = ",".join(type(event).__name__ for event in events)
        self._boundaries.reached(Boundary.BEFORE_APPEND, self._run.id, names)
        await self._writer.append(events)
        self._boundaries.reached(Boundary.AFTER_APPEND, self._run.id, names)

    async def _until_answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        # Asking again is always safe: the very same events at the very same versions are written once, and
        # after somebody else's claim they are refused. So a result is offered for as long as it takes, even
        # past the end of the lease, until somebody else is known to have the run.
        for repeats in itertools.count(1):
            delay = self._limits.delay(repeats).total_seconds()
            self._hold.vouch_at_least(delay)
            try:
                return await ask()
            except LogUnavailable as error:
                if self._hold.is_taken:
                    raise OwnershipLost(f"run {self._run.id!r}: {error}; another worker has it") from error
                log.warning(
                    "run %s: the event store cannot be reached, trying again: %s", self._run.id, error
                )
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
        raise AssertionError("unreachable")
