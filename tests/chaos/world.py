"""The outside world: a file of effects that no crash of a worker can take back."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Effect:
    """Something that a tool did, and cannot be undone."""

    tool: str
    run_id: str
    call_id: str
    attempt: int
    key: str
    pid: int


class World:
    """One line an effect; each line is written by one system call, so a kill leaves all of it or nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._path.touch()

    def do(self, effect: Effect) -> None:
        """Make an effect happen."""
        line = json.dumps(asdict(effect)).encode() + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def effects(self) -> list[Effect]:
        """All that happened so far, in order."""
        return [Effect(**json.loads(line)) for line in self._path.read_bytes().splitlines()]

    def happened(self, key: str) -> bool:
        """Whether the effect with this key happened."""
        # Without reading each line: in a long storm there are many, and every `verify` comes by here.
        return f'"key": {json.dumps(key)}'.encode() in self._path.read_bytes()
