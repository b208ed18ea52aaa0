"""Appends of many runs from one event loop, several to a commit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from eventsourcing.persistence import StoredEvent
from psycopg.pq.abc import PGresult

from perdure.infrastructure.postgres.wire import BIGINT, BYTEA, TEXT, Wire, array

_MOST_EVENTS = 1_000
_MOST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Append:
    events: Sequence[StoredEvent]
    done: asyncio.Future[None]
    is_alone: bool = False

    @property
    def size(self) -> int:
        return sum(len(event.state) for event in self.events)


class GroupCommit:
    """One commit at a time is on its way; what comes meanwhile goes together into the next one.

    There is no timer and no added wait: an append that finds nothing under way is sent at once. When a
    commit of several is refused, each is sent again alone, so that only the one with the conflict fails.
    """

    def __init__(self, connect: Callable[[], Wire]) -> None:
        """Prepare; the first append connects.

        Args:
            connect: Makes a connected wire; it may block, and runs in a thread.
        """
        self._connect = connect
        self._wire: Wire | None = None
        self._waiting: deque[_Append] = deque()
        self._under_way: list[_Append] = []
        self._connecting: asyncio.Task[None] | None = None

    async def append(self, events: Sequence[StoredEvent]) -> None:
        """Write events of one stream, all or none.

        Raises:
            psycopg.errors.UniqueViolation: Other events stand there.
            psycopg.Error: They may not have been written.
        """
        append = _Append(events, asyncio.get_running_loop().create_future())
        self._waiting.append(append)
        self._send()
        await append.done

    async def close(self) -> Wire | None:
        """End, and hand over the wire if it can be used again."""
        if self._connecting is not None:
            await asyncio.wait({self._connecting})
        wire, self._wire = self._wire, None
        if wire is None:
            return None
        wire.detach()
        if not wire.is_usable:
            wire.close()
            return None
        return wire

    def _send(self) -> None:
        if self._under_way or self._connecting is not None:
            return
        group = self._next_group()
        if not group:
            return
        if self._wire is None:
            self._waiting.extendleft(reversed(group))
            self._connecting = asyncio.create_task(self._begin())
            return
        self._under_way = group
        events = [event for append in group for event in append.events]
        self._wire.run(
            (
                array(TEXT, [str(event.originator_id).encode() for event in events]),
                array(BIGINT, [event.originator_version for event in events]),
                array(TEXT, [event.topic.encode() for event in events]),
                array(BYTEA, [event.state for event in events]),
            ),
            self._answered,
        )

    def _next_group(self) -> list[_Append]:
        group: list[_Append] = []
        events = size = 0
        while self._waiting:
            append = self._waiting[0]
            if append.done.cancelled():
                self._waiting.popleft()
                continue
            events, size = events + len(append.events), size + append.size
            if group and (append.is_alone or events > _MOST_EVENTS or size > _MOST_BYTES):
                break
            group.append(self._waiting.popleft())
            if append.is_alone:
                break
        return group

    async def _begin(self) -> None:
        try:
            wire = await asyncio.to_thread(self._connect)
        except Exception as error:  # noqa: BLE001 - it belongs to those who wait
            self._connecting = None
            waiting, self._waiting = self._waiting, deque()
            for append in waiting:
                _end(append, error)
            return
        wire.attach(asyncio.get_running_loop())
        self._wire = wire
        self._connecting = None
        self._send()

    def _answered(self, _: PGresult | None, error: Exception | None) -> None:
        group, self._under_way = self._under_way, []
        is_refused = error is not None and self._wire is not None and self._wire.is_usable
        if is_refused and len(group) > 1:
            each = (replace(append, is_alone=True) for append in reversed(group))
            self._waiting.extendleft(each)
        else:
            for append in group:
                _end(append, error)
        if self._wire is not None and not self._wire.is_usable:
            self._wire.close()
            self._wire = None
        self._send()


def _end(append: _Append, error: Exception | None) -> None:
    if append.done.done():
        return
    if error is None:
        append.done.set_result(None)
    else:
        append.done.set_exception(error)
