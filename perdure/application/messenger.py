"""Tells the drives of one event loop when somebody else wrote to their runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

from perdure.application.ports.event_store import EventStore
from perdure.domain.errors import LogUnavailable

log = logging.getLogger("perdure")


class Messenger:
    """Looks for what people wrote, once for all runs: a thousand open runs ask no more than one."""

    def __init__(self, store: EventStore, interval: float) -> None:
        """Prepare to look every so many seconds."""
        self._store = store
        self._interval = interval
        self._waiting: dict[str, asyncio.Event] = {}

    @contextmanager
    def letters_for(self, run_id: str) -> Generator[asyncio.Event]:
        """Lend an event that is set when somebody wrote to the run. Whoever waits clears it, then reads."""
        told = self._waiting[run_id] = asyncio.Event()
        try:
            yield told
        finally:
            del self._waiting[run_id]

    @asynccontextmanager
    async def at_work(self) -> AsyncGenerator[None]:
        """Look, meanwhile."""
        work = asyncio.create_task(self._look())
        try:
            yield
        finally:
            work.cancel()
            await asyncio.wait({work})

    async def _look(self) -> None:
        position: int | None = None
        while True:
            try:
                if position is None:
                    position = await asyncio.to_thread(self._store.position)
                    for told in self._waiting.values():  # these runs were loaded before that
                        told.set()
                elif self._waiting:
                    news = await asyncio.to_thread(self._store.told, position)
                    position = news.upto
                    for run_id in news.run_ids & self._waiting.keys():
                        self._waiting[run_id].set()
            except LogUnavailable as error:
                log.debug("no look at what people wrote: %s", error)
            await asyncio.sleep(self._interval)
