"""SIGTERM and SIGINT as orders to stop, and the end of a process that cannot obey them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Generator

log = logging.getLogger("perdure")

_LAST_PATIENCE = 5.0
"""Seconds after a second signal."""


@contextlib.contextmanager
def stop_signals(stop: asyncio.Event, stop_now: asyncio.Event, *, patience: float) -> Generator[None]:
    """Set `stop` at the first signal and `stop_now` at the second; end the process if that does not end it.

    A tool may block the event loop, or a thread that nobody can stop: such a process exits with code 1.

    Args:
        stop: Set at the first signal.
        stop_now: Set at the second.
        patience: Seconds from the first signal until the process is ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    orders = iter(((stop, "draining", patience), (stop_now, "at once", _LAST_PATIENCE)))
    ended = threading.Event()

    def asked(*_: object) -> None:
        event, how, seconds = next(orders, (stop_now, "at once", _LAST_PATIENCE))
        threading.Thread(target=_end_after, args=(seconds, ended), name="perdure end", daemon=True).start()
        # No log from here: the signal may have come in the middle of another line.
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_obey, event, how)

    # Not `loop.add_signal_handler()`: it calls only while the loop turns.
    before = {number: signal.signal(number, asked) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        ended.set()
        for number, handler in before.items():
            signal.signal(number, handler)


def _obey(event: asyncio.Event, how: str) -> None:
    log.info("asked to stop: %s", how)
    event.set()


def _end_after(seconds: float, ended: threading.Event) -> None:
    if not ended.wait(seconds):
        log.critical("something here does not stop: the process ends now, and its leases run out")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
