"""What the log refused to workers, in a file that no crash of a worker can take back."""

from __future__ import annotations

import os
from pathlib import Path

from perdure import LogConflict, LogUnavailable, PerdureError


class Refusals:
    """One line a refusal: that others had written first, or why the store could not write at all."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note_those_of_this_process(self) -> None:
        """Note whatever is refused to this process from now on, whichever way it asks."""

        def noting(error: PerdureError, *args: object) -> None:
            Exception.__init__(error, *args)
            self._note(f"{type(error).__name__}: {error}")

        for kind in (LogConflict, LogUnavailable):
            kind.__init__ = noting  # type: ignore[assignment]

    @property
    def conflicts(self) -> int:
        """Appends that were refused because others had written first."""
        return self.count(LogConflict.__name__)

    def count(self, words: str) -> int:
        """Count refusals with these words in their reason."""
        return sum(words in line for line in self._lines())

    def _lines(self) -> list[str]:
        return self._path.read_text(errors="replace").splitlines() if self._path.exists() else []

    def _note(self, reason: str) -> None:
        line = " ".join(reason.split()).encode(errors="replace") + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
