"""Work of users in this process: under a time limit, and known of for as long as it goes on.

Nothing can stop a thread, or a coroutine that does not want to end. So whoever waits gives up after a
while and leaves the work alone; and whoever wants to start it again can ask whether it still goes on.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

log = logging.getLogger("perdure")

T = TypeVar("T")


class CancelledItself(Exception):
    """The work ended as cancelled, and nobody had asked for that."""


@dataclass(frozen=True, slots=True)
class _Ended(Generic[T]):
    value: T | None = None
    error: BaseException | None = None


_guard = threading.Lock()
_going_on: Counter[str] = Counter()
_left_alone: set[asyncio.Task[Any]] = set()
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


async def within(seconds: float, work: Coroutine[Any, Any, T], what: str) -> T:
    """Wait for work of a user, and for no longer than that even if it does not let itself be cancelled.

    Args:
        seconds: How long to wait at most.
        work: The work; it gets a task of its own.
        what: Run and call, for the log and for `goes_on()`.

    Raises:
        TimeoutError: It has not ended in time; it was asked to, and is left alone.
        CancelledItself: It was cancelled from within.
        BaseException: Whatever it raised.
    """
    task = asyncio.create_task(_contained(work, what))
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        _leave_alone(task, what)
        raise
    if not task.done():
        _leave_alone(task, what)
        raise TimeoutError(f"no end within {seconds:g} s")
    if task.cancelled():
        raise CancelledItself
    ended = task.result()
    if ended.error is not None:
        raise ended.error
    return ended.value  # pyright: ignore[reportReturnType] - there is a value where there is no error


async def _contained(work: Coroutine[Any, Any, T], what: str) -> _Ended[T]:
    # What a task raises beyond Exception would end the event loop, and all runs in it.
    with going_on(what):
        try:
            return _Ended(value=await work)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits, whatever it is
            return _Ended(error=error)


def _leave_alone(task: asyncio.Task[_Ended[T]], what: str) -> None:
    def tell(ended: asyncio.Task[_Ended[T]]) -> None:
        _left_alone.discard(ended)
        if not ended.cancelled():
            how = "raised" if ended.result().error is not None else "returned"
            log.warning("%s %s when nobody waited any more: dropped", what, how)

    _left_alone.add(task)
    task.add_done_callback(tell)
    task.cancel()
