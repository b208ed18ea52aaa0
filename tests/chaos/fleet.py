"""Worker processes that can be killed, stopped and replaced."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Collection
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Self

from tests.chaos.program import GRACE, NO_DATABASE, Settings, work

_CONTEXT = multiprocessing.get_context("forkserver")
# A killed worker is replaced at once: importing everything anew each time would be most of the work.
_CONTEXT.set_forkserver_preload(["tests.chaos.program"])
_LAST_WORDS = 15.0
"""Seconds beyond its grace in which a worker that was asked to go has to be gone."""


class Fleet:
    """So many workers; whoever dies is replaced.

    Attributes:
        workers: The processes, in the order of their settings.
        deaths: Workers that were killed.
        freezes: How often one was stopped for a while.
        faults: Workers that ended when nobody had asked them to, or did not when somebody had.
    """

    def __init__(self, *settings: Settings) -> None:
        """Prepare a fleet with one worker for each of the settings."""
        self._settings = settings
        self._frozen: list[tuple[float, int]] = []
        self.workers: list[BaseProcess] = []
        self.deaths = 0
        self.freezes = 0
        self.faults: list[str] = []

    def __enter__(self) -> Self:
        self.fill_up()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for worker in self.workers:
            worker.kill()
        for worker in self.workers:
            worker.join(10)

    def fill_up(self) -> None:
        """Replace whoever is dead."""
        for place, settings in enumerate(self._settings):
            if place < len(self.workers):
                worker = self.workers[place]
                if worker.is_alive():
                    continue
                if worker.exitcode not in (-signal.SIGKILL, NO_DATABASE):
                    self.faults.append(f"worker {worker.pid} ended by itself, with {worker.exitcode}")
            process = _CONTEXT.Process(target=work, args=(settings,), daemon=True)
            process.start()
            self.workers[place : place + 1] = [process]

    def kill_one(self) -> None:
        """Kill a random worker with SIGKILL, see it die of that, and replace it."""
        worker = random.choice([worker for worker in self.workers if worker.is_alive()])
        worker.kill()
        worker.join(10)
        if worker.exitcode == -signal.SIGKILL:
            self.deaths += 1
        self.fill_up()

    def freeze_one_of(self, pids: Collection[int], seconds: float) -> None:
        """Stop a random one of some workers with SIGSTOP; `thaw()` lets it go on after so many seconds."""
        alive = [worker.pid for worker in self.workers if worker.is_alive() and worker.pid in pids]
        if not alive:
            return
        pid = random.choice(alive)
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        self._frozen.append((time.monotonic() + seconds, pid))
        self.freezes += 1

    def thaw(self) -> int:
        """Let workers go on whose time has come, and return how many are frozen still."""
        now = time.monotonic()
        for due, pid in self._frozen:
            if due <= now and any(worker.pid == pid and worker.is_alive() for worker in self.workers):
                os.kill(pid, signal.SIGCONT)
        self._frozen = [entry for entry in self._frozen if entry[0] > now]
        return len(self._frozen)

    def send_home(self) -> None:
        """Ask all workers to go, and take note of those that do not, or not in order."""
        while self.thaw():
            time.sleep(0.05)
        for worker in self.workers:
            worker.terminate()
        deadline = time.monotonic() + GRACE + _LAST_WORDS
        for worker in self.workers:
            worker.join(max(0.0, deadline - time.monotonic()))
            # Whoever was replaced a moment ago may not listen to signals yet.
            if worker.exitcode not in (0, -signal.SIGTERM, NO_DATABASE):
                self.faults.append(f"worker {worker.pid} was asked to go, and ended with {worker.exitcode}")
