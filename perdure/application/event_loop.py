"""Running async work to its end from sync code."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, wait
from typing import Any, TypeVar

log = logging.getLogger("perdure")

T = TypeVar("T")
_PATIENCE = 1.0
"""Seconds for work that was cancelled to end in."""


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run async work in an event loop of its own, in this thread or, where that has a loop, beside it.

    Unlike `asyncio.run()` it ends even if something that was started on the way refuses to be cancelled.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_and_no_longer(work))
    return _beside(work)


def _beside(work: Coroutine[Any, Any, T]) -> T:
    # The caller's thread has a loop of its own, which cannot be used while this call blocks it.
    ended: Future[T] = Future()
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def until_cancelled() -> T:
        cancelled = asyncio.Event()
        begun.set_result((asyncio.get_running_loop(), cancelled))
        task, end = asyncio.create_task(work), asyncio.create_task(cancelled.wait())
        await asyncio.wait({task, end}, return_when=asyncio.FIRST_COMPLETED)
        task.cancel()
        return await task

    def run() -> None:
        try:
            ended.set_result(asyncio.run(_and_no_longer(until_cancelled())))
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller, whatever it is
            ended.set_exception(error)

    threading.Thread(target=run, name="perdure advance", daemon=True).start()
    try:
        return ended.result()
    except BaseException:
        if not ended.done():  # Ctrl-C, while waiting
            loop, cancelled = begun.result()
            loop.call_soon_threadsafe(cancelled.set)
            wait({ended})
        raise


async def _and_no_longer(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    finally:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            _, stubborn = await asyncio.wait(others, timeout=_PATIENCE)
            for task in stubborn:
                log.warning("%s does not end when cancelled: it ends with its event loop", task.get_coro())
                # `asyncio.run()` would wait for it for ever. See "Extending" in the asyncio documentation.
                asyncio._unregister_task(task)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
                with contextlib.suppress(RuntimeError):  # it does not mind even that
                    task.get_coro().close()
