"""Worker processes that can be killed, stopped and replaced."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Self

from tests.chaos.program import Settings, work

_CONTEXT = multiprocessing.get_context("forkserver")
# A killed worker is replaced at once: importing everything anew each time would be most of the work.
_CONTEXT.set_forkserver_preload(["tests.chaos.program"])


class Fleet:
    """So many workers; whoever dies is replaced."""

    def __init__(self, *settings: Settings) -> None:
        """Prepare a fleet with one worker for each of the settings."""
        self._settings = settings
        self._frozen: list[tuple[float, int]] = []
        self.freezes = 0
        self.workers: list[BaseProcess] = []
        self.deaths = 0

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
            if worker.pid is not None and worker.is_alive():
                os.kill(worker.pid, signal.SIGCONT)
                worker.kill()
        for worker in self.workers:
            worker.join(10)

    def fill_up(self) -> None:
        """Replace whoever is dead."""
        for place, settings in enumerate(self._settings):
            if place < len(self.workers) and self.workers[place].is_alive():
                continue
            process = _CONTEXT.Process(target=work, args=(settings,), daemon=True)
            process.start()
            self.workers[place : place + 1] = [process]

    def kill_one(self) -> int:
        """Kill a random worker with SIGKILL, see it die of that, and replace it; return its pid."""
        worker = random.choice(self.workers)
        pid = worker.pid
        assert pid is not None
        worker.kill()
        worker.join(10)
        assert worker.exitcode == -signal.SIGKILL, f"worker {pid} ended with {worker.exitcode}"
        self.deaths += 1
        self.fill_up()
        return pid

    def freeze_one(self, seconds: float) -> None:
        """Stop a random worker with SIGSTOP; `thaw()` lets it go on after so many seconds."""
        pid = random.choice(self.workers).pid
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
