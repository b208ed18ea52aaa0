"""An event loop that outlives those of its callers, for connections that must."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from threading import Lock, Thread
from typing import TypeVar

Result = TypeVar("Result")

_lock = Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}


async def on_connection_loop(work: Callable[[], Coroutine[object, object, Result]]) -> Result:
    """Run work on the loop that keeps connections, and wait for it here; to be cancelled cancels the work.

    A client's connections belong to the event loop that opened them. Each call of `AgentRuns.advance()` is a
    loop of its own, and a client that was used in an ended one fails from then on.
    """
    context = copy_context()

    async def in_context() -> Result:
        return await asyncio.get_running_loop().create_task(work(), context=context)

    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(in_context(), _loop()))


def _loop() -> asyncio.AbstractEventLoop:
    process = os.getpid()  # a thread does not live on in a forked process
    with _lock:
        if process not in _loops:
            _loops.clear()
            _loops[process] = asyncio.new_event_loop()
            Thread(target=_loops[process].run_forever, name="perdure-models", daemon=True).start()
        return _loops[process]
