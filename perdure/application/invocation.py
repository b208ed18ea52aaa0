"""Calling functions of users, sync or async."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from perdure.application.attempts import CancelledItself, going_on

log = logging.getLogger("perdure")


async def invoke(function: Callable[..., Any], arguments: Mapping[str, object], what: str) -> object:
    """Call a sync or async function; a sync one gets a thread of its own.

    A thread cannot be cancelled: when nobody waits for it any more it is left to end, and what it brings
    then is logged and dropped.

    Args:
        function: What to call.
        arguments: By name.
        what: Run and call, for the log, the thread's name and `attempts.goes_on()`.
    """
    if is_async(function):
        return await function(**arguments)
    outcome: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    context = contextvars.copy_context()
    thread = threading.Thread(
        target=context.run,
        args=(_call_and_tell, outcome, function, arguments, what),
        name=f"perdure {what}",
        daemon=True,
    )
    thread.start()
    result = await outcome
    return await cast("Awaitable[object]", result) if inspect.isawaitable(result) else result


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine; instances with an async `__call__` included."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004 - it is called, not asked whether it could be
    )


def _call_and_tell(
    outcome: asyncio.Future[object],
    function: Callable[..., object],
    arguments: Mapping[str, object],
    what: str,
) -> None:
    result: object = None
    error: BaseException | None = None
    with going_on(what):
        try:
            result = function(**arguments)
        except BaseException as raised:  # noqa: BLE001 - it belongs to whoever waits, whatever it is
            error = raised
    if isinstance(error, asyncio.CancelledError):
        error = CancelledItself()  # on the other side it would look as if whoever waits had been cancelled
    elif isinstance(error, StopIteration):
        error = RuntimeError(f"it raised {error!r}")  # a future refuses it, and nobody would hear of the end

    def tell() -> None:
        if outcome.done():
            ending = "raised" if error is not None else "returned"
            log.warning("%s %s when nobody waited any more: dropped", what, ending)
        elif error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(result)

    try:
        outcome.get_loop().call_soon_threadsafe(tell)
    except RuntimeError:
        log.warning("%s ended after its process had stopped waiting: dropped", what)
