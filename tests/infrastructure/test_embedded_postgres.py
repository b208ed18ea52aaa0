"""The embedded server lives as long as somebody uses it, whatever happens to its users."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import DatabaseError
from perdure.infrastructure.postgres.embedded import EmbeddedPostgres, remove
from perdure.infrastructure.postgres.embedded.locks import FileLock
from tests.support.embedded import (
    answers,
    client,
    is_alive,
    is_waited_for,
    line_of,
    processes_of,
    program,
    reapers_of,
    server_pid,
    start_here,
    starting_client,
)
from tests.support.waiting import eventually

_EIGHT_CLIENTS = """
import os, sys
from pathlib import Path
from perdure.infrastructure.postgres.embedded import EmbeddedPostgres
for _ in range(8):
    if os.fork() == 0:
        server = EmbeddedPostgres.start(Path(sys.argv[1]), durable=False)
        os.write(1, f"{server.conninfo}\\n".encode())
        sys.stdin.read()
        os._exit(0)
sys.stdin.read()
"""
_PARENT = """
import os, sys
from pathlib import Path
from perdure.infrastructure.postgres.embedded import EmbeddedPostgres
server = EmbeddedPostgres.start(Path(sys.argv[1]), durable=False)
child = os.fork()
if child == 0:
    server.close()
    os.write(1, f"{os.getpid()}\\n".encode())
    sys.stdin.read()
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_server_is_started_joined_and_stopped_with_its_last_user(server_directory: Path) -> None:
    """The second user joins the first one's server; it stops when both have left, and starts again."""
    first = start_here(server_directory)
    pid = server_pid(server_directory)
    second = start_here(server_directory)
    assert server_pid(server_directory) == pid
    first.close()
    first.close()
    assert answers(second.conninfo)
    second.close()
    eventually(lambda: not is_alive(pid))
    with start_here(server_directory) as again:
        assert answers(again.conninfo)
        assert server_pid(server_directory) != pid


def test_a_killed_owner_leaves_no_server_behind(server_directory: Path) -> None:
    """SIGKILL of the only user stops the server, and the reaper with it."""
    with client(server_directory) as (process, conninfo):
        assert answers(conninfo)
        pid = server_pid(server_directory)
        process.send_signal(signal.SIGKILL)
        process.wait()
        eventually(lambda: not is_alive(pid))
    eventually(lambda: not reapers_of(server_directory))


def test_a_killed_user_does_not_take_the_server_from_the_others(server_directory: Path) -> None:
    """The one who started the server is killed: whoever joined it goes on."""
    with client(server_directory) as (process, conninfo):
        with start_here(server_directory):
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert answers(conninfo)
            pid = server_pid(server_directory)
        eventually(lambda: not is_alive(pid))


def test_a_server_whose_reaper_was_killed_gets_another_one(server_directory: Path) -> None:
    """The next user starts a new reaper, so that the server still stops in the end."""
    with start_here(server_directory):
        (reaper,) = eventually(lambda: reapers_of(server_directory))
        os.kill(reaper, signal.SIGKILL)
        eventually(lambda: not reapers_of(server_directory))
        start_here(server_directory).close()
        pid = server_pid(server_directory)
        eventually(lambda: reapers_of(server_directory))
    eventually(lambda: not is_alive(pid))


def test_a_pid_file_that_names_another_process_is_no_server(server_directory: Path) -> None:
    """After a crash the pid may be any program's: the server starts all the same, and that program lives."""
    start_here(server_directory).close()
    eventually(lambda: server_pid(server_directory) is None)
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    ) as other:
        pid_file = server_directory / "data" / "postmaster.pid"
        pid_file.write_text(f"{other.pid}\n{server_directory / 'data'}\n")
        pid_file.chmod(0o644)
        with start_here(server_directory) as server:
            assert answers(server.conninfo)
        assert other.poll() is None
        other.kill()


def test_a_killed_server_is_started_again_by_the_next_user(server_directory: Path) -> None:
    """The server process itself dies: its pid file is stale, and the next user is not held up by it."""
    with start_here(server_directory):
        pid = server_pid(server_directory)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not is_alive(pid))
        with start_here(server_directory) as again:
            assert answers(again.conninfo)


def test_a_start_that_fails_says_why_and_leaves_nothing_running(server_directory: Path) -> None:
    """A setting that PostgreSQL refuses is in the error, and no process is left."""
    with pytest.raises(DatabaseError, match="no_such_setting"):
        EmbeddedPostgres.start(server_directory, settings={"no_such_setting": "1"})
    assert not is_alive(server_pid(server_directory))
    assert not reapers_of(server_directory)


def test_eight_processes_that_start_at_once_share_one_server(server_directory: Path) -> None:
    """Whoever comes first makes the data directory; nobody fails, and there is one server."""
    with program(_EIGHT_CLIENTS, server_directory) as starters:
        told = {line_of(starters) for _ in range(8)}
        assert len(told) == 1
        assert answers(told.pop())
        pid = server_pid(server_directory)
        assert len(reapers_of(server_directory)) == 1
    eventually(lambda: not is_alive(pid))
    eventually(lambda: not processes_of(server_directory))


def test_a_client_killed_while_it_makes_the_data_leaves_a_directory_that_starts(
    server_directory: Path,
) -> None:
    """What initdb left unfinished is thrown away by the next start, also if initdb is still at work."""
    with starting_client(server_directory) as process:
        eventually(lambda: list((server_directory / "data.incomplete").glob("*")), every=0.001)
        process.kill()
        process.wait()
        with start_here(server_directory) as server:
            assert answers(server.conninfo)
    assert not (server_directory / "data.incomplete").exists()


def test_a_client_killed_while_its_server_starts_leaves_no_server_behind(server_directory: Path) -> None:
    """Nobody came to use the server that was on its way: it is stopped all the same."""
    start_here(server_directory).close()
    eventually(lambda: not processes_of(server_directory))
    with starting_client(server_directory) as process:
        eventually(lambda: processes_of(server_directory, "pg_ctl"), every=0.001)
        process.kill()
        process.wait()
    eventually(lambda: not processes_of(server_directory))
    with start_here(server_directory) as server:
        assert answers(server.conninfo)


def test_a_client_killed_while_it_replaces_a_killed_server_leaves_none_behind(server_directory: Path) -> None:
    """The reaper of the killed server does not look for the new one before it is there."""
    first = start_here(server_directory)
    pid = server_pid(server_directory)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with starting_client(server_directory) as process:
        eventually(lambda: processes_of(server_directory, "pg_ctl"), every=0.001)
        process.kill()
        process.wait()
        first.close()
    eventually(lambda: not processes_of(server_directory))


def test_a_forked_child_does_not_keep_the_server(server_directory: Path) -> None:
    """The parent is killed and its child lives on, which never asked for the server: the server stops."""
    with program(_PARENT, server_directory) as parent:
        child = int(line_of(parent))
        try:
            pid = server_pid(server_directory)
            assert is_alive(pid), "the child's close() took the server from its parent"
            assert len(reapers_of(server_directory)) == 1
            os.kill(parent.pid, signal.SIGKILL)
            eventually(lambda: not is_alive(pid))
            assert is_alive(child)
        finally:
            os.kill(child, signal.SIGKILL)


def test_the_reaper_is_not_stopped_by_what_stops_its_clients(server_directory: Path) -> None:
    """Ctrl-C, a closed terminal and SIGTERM do not reach or end it: it leaves behind its last client."""
    with start_here(server_directory):
        pid = server_pid(server_directory)
        (reaper,) = reapers_of(server_directory)
        assert os.getsid(reaper) != os.getsid(0)
        for stopping in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            os.kill(reaper, stopping)
        streams = [Path(f"/proc/{reaper}/fd/{stream}").readlink() for stream in range(3)]
        assert streams == [Path(os.devnull)] * 3
        assert reapers_of(server_directory) == [reaper]
    eventually(lambda: not is_alive(pid))
    eventually(lambda: not is_alive(reaper))


def test_the_reaper_signals_no_process_but_the_server(server_directory: Path) -> None:
    """The server was killed and its pid is another program's by now: that program is left alone."""
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as other:
        with start_here(server_directory):
            pid = server_pid(server_directory)
            assert pid is not None
            pid_file = server_directory / "data" / "postmaster.pid"
            rest = pid_file.read_text().splitlines()[1:]
            os.kill(pid, signal.SIGKILL)
            eventually(lambda: not processes_of(server_directory, "postgres"))
            pid_file.write_text("\n".join([str(other.pid), *rest]))
        eventually(lambda: not processes_of(server_directory))
        assert other.poll() is None
        other.kill()


def test_no_server_starts_while_processes_of_the_last_one_live(server_directory: Path) -> None:
    """A backend may outlive a killed server by a moment: two servers never work on the same data."""
    start_here(server_directory).close()
    eventually(lambda: not processes_of(server_directory))
    with FileLock(server_directory / ".server.lock") as backend:
        backend.take()
        with starting_client(server_directory) as process:
            eventually(lambda: is_waited_for(server_directory / ".server.lock"))
            assert server_pid(server_directory) is None
            backend.close()
            assert answers(line_of(process))


def test_a_server_made_anew_is_not_stopped_by_the_reaper_of_the_removed_one(server_directory: Path) -> None:
    """A user of the removed server leaves late: whoever uses the new one does not notice."""
    directory = server_directory / "anew"
    late = start_here(directory)
    (old,) = reapers_of(directory)
    remove(directory)
    with start_here(directory) as server:
        late.close()
        eventually(lambda: not is_alive(old))
        assert answers(server.conninfo)
    eventually(lambda: not processes_of(directory))
