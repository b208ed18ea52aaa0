"""Work of users in this process: under a time limit, and known of for as long as it goes on.

Nothing can stop a thread, or a coroutine that does not want to end. So whoever waits gives up after a
while and leaves the work alone; and whoever wants to start it again can ask whether it still goes on.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

log = logging.getLogger("perdure")


class CancelledItself(Exception):
    """The work ended as cancelled, and nobody had asked for that."""


_guard = threading.Lock()
_going_on: Counter[str] = Counter()
_under_way: set[asyncio.Task[None]] = set()
"""An event loop holds its tasks weakly: without this, work that nobody waits for could vanish midway."""


@contextmanager
def going_on(what: str) -> Generator[None]:
    """Let `goes_on()` know of work while it lasts, in whatever thread that is."""
    with _guard:
        _going_on[what] += 1
    try:
        yield
    finally:
        with _guard:
            _going_on[what] -= 1
            if _going_on[what] == 0:
                del _going_on[what]


def goes_on(what: str) -> bool:
    """Whether work of this name goes on in this process, be it that nobody waits for it any more."""
    with _guard:
        return what in _going_on


@dataclass(frozen=True, slots=True)
class Ending:
    """How work ended: with a value, or with what it raised."""

    value: object = None
    error: BaseException | None = None


class Attempt:
    """Work that has begun, in a task of its own.

    Attributes:
        ending: How it ended, once it has; `TimeoutError` when its time was up before, and `CancelledItself`
            when it was cancelled from within.
        until: When its time is up, by the event loop's clock.
    """

    def __init__(
        self,
        work: Callable[[], Coroutine[Any, Any, object]],
        seconds: float,
        what: str,
        on_end: Callable[[], None],
    ) -> None:
        """Begin.

        Args:
            work: Begins the work.
            seconds: How long it may take; it is asked to end then, and left alone.
            what: Run and call, for the log and for `goes_on()`.
            on_end: Called once it has ended, unless it was left alone before.
        """
        loop = asyncio.get_running_loop()
        self.ending: Ending | None = None
        self.until = loop.time() + seconds
        self._what = what
        self._on_end = on_end
        self._is_left_alone = False
        self._timer = loop.call_later(seconds, self._time_is_up, seconds)
        self._task = loop.create_task(self._contained(work))
        _under_way.add(self._task)
        self._task.add_done_callback(_under_way.discard)

    def leave_alone(self) -> None:
        """Ask it to end, and hear no more of it: what it brings from here on is logged and dropped."""
        if self.ending is None:
            self._is_left_alone = True
            self._timer.cancel()
            self._task.cancel()

    def _time_is_up(self, seconds: float) -> None:
        self._task.cancel()
        self._end(Ending(error=TimeoutError(f"no end within {seconds:g} s")))

    async def _contained(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        # What a task raises beyond Exception would end the event loop, and all runs in it.
        with going_on(self._what):
            try:
                ending = Ending(value=await work())
            except asyncio.CancelledError:
                ending = Ending(error=CancelledItself())
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits, whatever it is
                ending = Ending(error=error)
        if self.ending is None and not self._is_left_alone:
            self._timer.cancel()
            self._end(ending)
        elif not isinstance(ending.error, CancelledItself):
            how = "raised" if ending.error is not None else "returned"
            log.warning("%s %s when nobody waited any more: dropped", self._what, how)

    def _end(self, ending: Ending) -> None:
        self.ending = ending
        self._on_end()
