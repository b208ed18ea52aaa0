"""Locks that the kernel gives back when a process is gone, however it died."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

if sys.platform != "win32":
    import fcntl

_open: set[int] = set()


class FileLock:
    """An advisory lock on a file (`flock`).

    The lock belongs to the open file, not to the process. A program that is started does not get it, unless
    it is handed the descriptor. A forked child would share it and hold it for as long as it lives, so the
    child's copy is closed: what is locked stays locked by the parent alone.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._path = path
        self._descriptor = os.open(path, flags, 0o600)
        _open.add(self._descriptor)
        self._process = os.getpid()

    @property
    def descriptor(self) -> int:
        """The open file: a program that inherits it keeps the lock until it ends.

        Raises:
            ValueError: The lock was closed, or belongs to the process that this one was forked from.
        """
        if self._descriptor < 0 or self._process != os.getpid():
            raise ValueError("the lock was closed")
        return self._descriptor

    def share(self) -> None:
        """Take it together with others; wait while somebody has it alone."""
        fcntl.flock(self.descriptor, fcntl.LOCK_SH)

    def take(self) -> None:
        """Take it alone; wait while anybody has it."""
        fcntl.flock(self.descriptor, fcntl.LOCK_EX)

    def try_to_take(self) -> bool:
        """Take it alone if nobody has it."""
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def is_current(self) -> bool:
        """Whether the file still stands at its path; a lock on a deleted one keeps nobody out."""
        try:
            return os.path.samestat(os.fstat(self.descriptor), self._path.stat())
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Give it back; closing twice is no error."""
        descriptor, self._descriptor = self._descriptor, -1
        # In a forked child the number may by now be that of another file.
        if descriptor >= 0 and self._process == os.getpid():
            _open.discard(descriptor)
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _leave_to_parent() -> None:
    for descriptor in _open:
        os.close(descriptor)
    _open.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_leave_to_parent)
