"""The embedded server lives as long as somebody uses it, whatever happens to its users."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from perdure import DatabaseError, MissingExtra
from perdure.infrastructure.postgres.embedded import EmbeddedPostgres, binaries, find_binaries, remove
from perdure.infrastructure.postgres.embedded.places import socket_directory
from tests.support.waiting import eventually

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


def server_pid(directory: Path) -> int | None:
    """The server's process, as its pid file says; None when there is none."""
    try:
        return int((directory / "data" / "postmaster.pid").read_text().split()[0])
    except (FileNotFoundError, IndexError):
        return None


def is_alive(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def answers(conninfo: str) -> bool:
    try:
        with psycopg.connect(conninfo, connect_timeout=5) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


@contextmanager
def client(directory: Path, **options: object) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A process that uses the server until it is told to end, or killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", _CLIENT, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )
    try:
        assert process.stdout is not None
        conninfo = process.stdout.readline().strip()
        assert conninfo, "the client could not start"
        yield process, conninfo
    finally:
        process.kill()
        process.communicate()


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
    eventually(lambda: not _reapers_of(server_directory))


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
        (reaper,) = eventually(lambda: _reapers_of(server_directory))
        os.kill(reaper, signal.SIGKILL)
        eventually(lambda: not _reapers_of(server_directory))
        start_here(server_directory).close()
        pid = server_pid(server_directory)
        eventually(lambda: _reapers_of(server_directory))
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


def test_eight_processes_that_start_at_once_share_one_server(server_directory: Path) -> None:
    """Whoever comes first makes the data directory; nobody fails, and there is one server."""
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", _CLIENT, str(server_directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    try:
        told = {starter.stdout.readline().strip() for starter in starters if starter.stdout is not None}
        assert len(told) == 1
        assert answers(told.pop())
        pid = server_pid(server_directory)
    finally:
        for starter in starters:
            starter.communicate()
    eventually(lambda: not is_alive(pid))


def test_a_first_start_that_was_killed_half_way_does_not_spoil_the_directory(server_directory: Path) -> None:
    """What initdb left unfinished is thrown away by the next start."""
    unfinished = server_directory / "data.incomplete"
    unfinished.mkdir()
    (unfinished / "PG_VERSION").write_text("18\n")
    with start_here(server_directory) as server:
        assert answers(server.conninfo)
    assert not unfinished.exists()


def test_data_of_another_major_version_is_refused_and_left_alone(server_directory: Path) -> None:
    """The error names both versions, and nothing was changed."""
    start_here(server_directory).close()
    eventually(lambda: server_pid(server_directory) is None)
    version = server_directory / "data" / "PG_VERSION"
    version.write_text("11\n")
    with pytest.raises(DatabaseError, match=r"PostgreSQL 11.*PostgreSQL \d+.*PERDURE_POSTGRES_BIN"):
        start_here(server_directory)
    assert version.read_text() == "11\n"


def test_a_path_too_long_for_a_socket_gets_a_short_private_one(server_directory: Path) -> None:
    """The socket goes elsewhere, into a directory that only the server's account can enter."""
    directory = server_directory / ("long" * 25)
    with start_here(directory) as server:
        assert answers(server.conninfo)
        sockets = socket_directory(directory)
        assert directory not in sockets.parents
        assert sockets.stat().st_mode & 0o077 == 0
    remove(directory)
    assert not sockets.exists()


def test_a_socket_directory_of_somebody_else_is_not_used(server_directory: Path) -> None:
    """A directory that others can enter, where the socket should go, is refused: it could be a trap."""
    directory = server_directory / ("trap" * 25)
    sockets = socket_directory(directory)
    sockets.mkdir(mode=0o777)
    sockets.chmod(0o777)
    try:
        with pytest.raises(DatabaseError, match="private"):
            start_here(directory)
    finally:
        sockets.rmdir()


def test_removing_stops_the_server_and_leaves_nothing(server_directory: Path) -> None:
    """Data, sockets and locks are gone, and so is the server, even while somebody uses it."""
    directory = server_directory / "whole"
    server = start_here(directory)
    pid = server_pid(directory)
    remove(directory)
    assert not directory.exists()
    assert not is_alive(pid)
    server.close()
    eventually(lambda: not _reapers_of(directory))


def test_only_an_embedded_server_is_removed(server_directory: Path) -> None:
    """A directory that holds something else is left as it is."""
    (server_directory / "mine.txt").write_text("precious")
    with pytest.raises(DatabaseError, match="holds no embedded server"):
        remove(server_directory)
    assert (server_directory / "mine.txt").exists()


def test_the_server_listens_on_no_network(server_directory: Path) -> None:
    """There is no TCP socket to reach it by."""
    with start_here(server_directory) as server, psycopg.connect(server.conninfo) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)


def test_a_start_that_fails_says_why_and_leaves_nothing_running(server_directory: Path) -> None:
    """A setting that PostgreSQL refuses is in the error, and no process is left."""
    with pytest.raises(DatabaseError, match="no_such_setting"):
        EmbeddedPostgres.start(server_directory, settings={"no_such_setting": "1"})
    assert not is_alive(server_pid(server_directory))
    assert not _reapers_of(server_directory)


def test_without_programs_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wheel and no system PostgreSQL: the message has the command and the other way out."""
    monkeypatch.setattr(binaries, "_wheel", lambda: None)
    monkeypatch.setattr(binaries, "_system", list)
    with pytest.raises(MissingExtra, match=r"perdure\[embedded\].*PERDURE_DATABASE_URL"):
        find_binaries()


def test_programs_named_by_the_user_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A named directory is used, and one without the programs is refused rather than passed over."""
    found = find_binaries()
    monkeypatch.setenv("PERDURE_POSTGRES_BIN", str(found.directory))
    assert find_binaries().source == "named by the user"
    with pytest.raises(DatabaseError, match="does not hold"):
        find_binaries(tmp_path)


def test_system_programs_serve_where_there_is_no_wheel(
    monkeypatch: pytest.MonkeyPatch, server_directory: Path
) -> None:
    """The programs of the operating system start the server too, where they are installed."""
    monkeypatch.setattr(binaries, "_wheel", lambda: None)
    try:
        found = find_binaries()
    except MissingExtra:
        pytest.skip("this machine has no PostgreSQL of its own")
    assert found.source == "the system"
    with EmbeddedPostgres.start(server_directory, durable=False) as server:
        assert answers(server.conninfo)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_as_root_the_server_runs_as_nobody(server_directory: Path) -> None:
    """PostgreSQL refuses root; the account without rights is the one that runs it."""
    with start_here(server_directory):
        pid = server_pid(server_directory)
        assert Path(f"/proc/{pid}").stat().st_uid == pwd.getpwnam("nobody").pw_uid


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_runs_the_server_as_itself(server_directory: Path) -> None:
    """Without root no other account is needed, and a directory that cannot be written is an error."""
    daemon = pwd.getpwnam("daemon")
    directory = server_directory / "theirs"
    directory.mkdir(mode=0o755)
    report = (
        "import os, sys; from pathlib import Path\n"
        "from perdure.infrastructure.postgres.embedded import EmbeddedPostgres\n"
        "from perdure import DatabaseError\n"
        "try: EmbeddedPostgres.start(Path(sys.argv[1]))\n"
        "except DatabaseError as error: print(error)\n"
        "else: print('started', os.geteuid())\n"
    )

    def as_daemon(python: str, program: str) -> str:
        try:
            return subprocess.run(
                [python, "-c", program, str(directory)],
                user=daemon.pw_uid,
                group=daemon.pw_gid,
                extra_groups=[],
                capture_output=True,
                text=True,
                check=False,
                cwd="/",
                env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)},
            ).stdout
        except PermissionError:
            return ""

    # The interpreter of root may lie in a home that nobody else can enter; the system's may do.
    pythons = [sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"]
    runnable = [python for python in pythons if as_daemon(python, "import perdure; print(1)")]
    if not runnable:
        pytest.skip("no Python of this version can be run by another user")
    assert "cannot write to" in as_daemon(runnable[0], report)
    os.chown(directory, daemon.pw_uid, daemon.pw_gid)
    assert f"started {daemon.pw_uid}" in as_daemon(runnable[0], report)
    eventually(lambda: server_pid(directory) is None)


def _reapers_of(directory: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(part.endswith("reaper.py") for part in command) and str(directory) in command:
            found.append(int(entry.name))
    return found
