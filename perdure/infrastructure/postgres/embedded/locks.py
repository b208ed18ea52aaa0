"""Locks that the kernel gives back when a process is gone, however it died."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class FileLock:
    """An advisory lock on a file (`flock`).

    The lock belongs to the open file: a forked child shares it, a program that is started does not, because
    the descriptor is closed then.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor: int | None = os.open(path, flags, 0o600)

    def share(self) -> None:
        """Take it together with others; wait while somebody has it alone."""
        self._take(fcntl.LOCK_SH)

    def take(self) -> None:
        """Take it alone; wait while anybody has it."""
        self._take(fcntl.LOCK_EX)

    def try_to_take(self) -> bool:
        """Take it alone if nobody has it."""
        try:
            self._take(fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Give it back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _take(self, how: int) -> None:
        if self._descriptor is None:
            raise ValueError("the lock was closed")
        fcntl.flock(self._descriptor, how)
