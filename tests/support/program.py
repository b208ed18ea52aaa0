"""The command line as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_PROGRAM = "from perdure.infrastructure.cli import main; main()"


def command(*arguments: str) -> list[str]:
    """What starts `perdure` with these arguments."""
    return [sys.executable, "-c", _PROGRAM, *arguments]


def environment(**more: str) -> dict[str, str]:
    """This process's environment without a terminal's size, and with more."""
    return {**{name: value for name, value in os.environ.items() if name != "COLUMNS"}, **more}


def perdure(
    *arguments: str, timeout: float = 120, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `perdure` to its end."""
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=dict(env) if env is not None else environment(),
    )


def processes_with(mark: str) -> list[int]:
    """Live processes whose environment holds a mark, this one left out."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            marked = mark.encode() in (entry / "environ").read_bytes()
            alive = (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            continue
        if marked and alive and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found
