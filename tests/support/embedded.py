"""Clients of embedded servers as real processes, and what can be seen of servers from outside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from perdure.infrastructure.postgres.embedded import EmbeddedPostgres

_CLIENT = """
import sys
from pathlib import Path
from perdure.infrastructure.postgres.embedded import EmbeddedPostgres
server = EmbeddedPostgres.start(Path(sys.argv[1]), durable=False)
print(server.conninfo, flush=True)
sys.stdin.read()
"""


def start_here(directory: Path) -> EmbeddedPostgres:
    return EmbeddedPostgres.start(directory, durable=False)


@contextmanager
def starting_client(directory: Path) -> Generator[subprocess.Popen[str]]:
    """A process that starts or joins a server, and uses it until it is told to end, or killed."""
    with program(_CLIENT, directory) as process:
        yield process


@contextmanager
def client(directory: Path) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A process that uses the server, and the address that it has got."""
    with starting_client(directory) as process:
        yield process, line_of(process)


@contextmanager
def program(text: str, *arguments: object) -> Generator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", text, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line, "the process could not start"
    return line


def server_pid(directory: Path) -> int | None:
    """The server's process, as its pid file says; None when there is none."""
    try:
        return int((directory / "data" / "postmaster.pid").read_text().split()[0])
    except (FileNotFoundError, IndexError):
        return None


def is_alive(pid: int | None) -> bool:
    """Whether a process runs; a zombie does not."""
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def is_waited_for(lock: Path) -> bool:
    """Whether a process waits for the lock on a file."""
    inode = lock.stat().st_ino
    waiting = [line.split() for line in Path("/proc/locks").read_text().splitlines() if "->" in line]
    return any(words[-3].endswith(f":{inode}") for words in waiting)


def answers(conninfo: str) -> bool:
    try:
        with psycopg.connect(conninfo, connect_timeout=5) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


def processes_of(directory: Path, program: str = "") -> list[int]:
    """The processes that a directory is named to: its server, programs that start it, its reaper."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        names = {Path(word).name for word in words[:5]}
        programs = {program} if program else {"reaper.py", "pg_ctl", "postgres", "initdb"}
        if names & programs and any(word.startswith(str(directory)) for word in words):
            found.append(int(entry.name))
    return found


def reapers_of(directory: Path) -> list[int]:
    return processes_of(directory, "reaper.py")
