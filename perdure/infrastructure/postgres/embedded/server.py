"""Starting, joining and leaving the embedded server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from psycopg.conninfo import make_conninfo

from perdure.domain.errors import DatabaseError
from perdure.infrastructure.postgres.embedded import reaper
from perdure.infrastructure.postgres.embedded.binaries import Binaries, find_binaries
from perdure.infrastructure.postgres.embedded.locks import FileLock
from perdure.infrastructure.postgres.embedded.places import (
    Account,
    account,
    default_directory,
    make_reachable,
    private_directory,
    runnable_copy,
    socket_directory,
)

_NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class EmbeddedPostgres:
    """This process's use of a server that all its users start together and nobody owns.

    The first user starts it; each user holds a shared lock; a detached reaper stops the server once the
    last user is gone, however it died. The server listens on a Unix socket in a private directory and on
    no network.

    Attributes:
        directory: Holds data, socket and locks.
        binaries: The programs in use.
        conninfo: How to connect, to the database `postgres`.
    """

    def __init__(self, directory: Path, binaries: Binaries, conninfo: str, use: FileLock) -> None:
        """Use `start()`."""
        self.directory = directory
        self.binaries = binaries
        self.conninfo = conninfo
        self._use = use

    @classmethod
    def start(
        cls,
        directory: Path | None = None,
        *,
        binaries: Path | None = None,
        settings: Mapping[str, str] | None = None,
        durable: bool = True,
    ) -> Self:
        """Start the server of a directory, or join it if it runs.

        Args:
            directory: Where it keeps everything; the user's data directory by default.
            binaries: A directory with PostgreSQL's programs; found by themselves by default.
            settings: Server parameters; they count for whoever starts the server.
            durable: Whether a power failure must lose nothing. Without it, tests are faster.

        Raises:
            DatabaseError: It cannot be started; the message says why, and what to do.
            MissingExtra: There are no programs to start.
        """
        if sys.platform == "win32":
            raise DatabaseError("the embedded server needs a Unix system: set PERDURE_DATABASE_URL")
        base = (directory if directory is not None else default_directory()).absolute()
        owner = account()
        make_reachable(base, owner)
        site = _Site(base, owner, runnable_copy(find_binaries(binaries), owner))
        use = FileLock(base / ".use.lock")
        try:
            starting = FileLock(base / ".start.lock")
            try:
                starting.take()
                # Taken while nobody else starts or stops, so that no reaper stops what we are about to use.
                use.share()
                site.initialise()
                site.start({**(settings or {}), **({} if durable else _NOT_DURABLE)})
                site.start_reaper()
            finally:
                starting.close()
        except BaseException:
            use.close()
            raise
        return cls(base, site.binaries, site.conninfo, use)

    def close(self) -> None:
        """Leave. The server stops soon after its last user has left; closing twice is no error."""
        self._use.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def remove(directory: Path | None = None) -> None:
    """Stop the server of a directory, whoever uses it, and delete all that belongs to it.

    Raises:
        DatabaseError: The directory holds something else than an embedded server.
    """
    base = (directory if directory is not None else default_directory()).absolute()
    if not base.exists():
        return
    if not (base / ".use.lock").exists():
        raise DatabaseError(f"{base} holds no embedded server: it is left as it is")
    site = _Site(base, account(), None)
    starting = FileLock(base / ".start.lock")
    try:
        starting.take()
        site.stop()
        shutil.rmtree(site.sockets, ignore_errors=True)
        shutil.rmtree(base)
    finally:
        starting.close()


class _Site:
    """The directories of one server, and what is done to them while nobody else does."""

    def __init__(self, base: Path, owner: Account, binaries: Binaries | None) -> None:
        self.base = base
        self.data = base / "data"
        self.sockets = socket_directory(base)
        self.conninfo = make_conninfo(host=str(self.sockets), user="postgres", dbname="postgres")
        self._owner = owner
        self._binaries = binaries

    @property
    def binaries(self) -> Binaries:
        if self._binaries is None:
            self._binaries = runnable_copy(find_binaries(), self._owner)
        return self._binaries

    def initialise(self) -> None:
        """Make a data directory, complete or not at all: a first start may be killed half-way."""
        version = self.data / "PG_VERSION"
        if self.data.exists():
            found = version.read_text().strip() if self._can_read(version) else "unknown"
            if found != str(self.binaries.major):
                raise DatabaseError(
                    f"{self.data} was made by PostgreSQL {found}, and at hand is PostgreSQL "
                    f"{self.binaries.major} ({self.binaries.source}). Nothing was changed. Name the bin "
                    f"directory of PostgreSQL {found} in PERDURE_POSTGRES_BIN, or move the data over with "
                    "pg_upgrade or pg_dump."
                )
            return
        fresh = self.base / "data.incomplete"
        shutil.rmtree(fresh, ignore_errors=True)
        private_directory(fresh, self._owner)
        self._run(
            "initdb", "-D", fresh, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"
        )
        fresh.rename(self.data)

    def _can_read(self, path: Path) -> bool:
        try:
            return path.is_file()
        except PermissionError as error:
            raise DatabaseError(f"{self.data} belongs to another account: {error.strerror}") from error

    def start(self, settings: Mapping[str, str]) -> None:
        if self.is_running():
            return
        self._clear_leftovers()
        private_directory(self.sockets, self._owner)
        told = {"listen_addresses": "", "unix_socket_directories": str(self.sockets), **settings}
        options = " ".join(f"-c {name}={_quoted(value)}" for name, value in told.items())
        log = self.data / "server.log"
        self._run("pg_ctl", "-D", self.data, "-w", "-t", "60", "-l", log, "-o", options, "start")

    def stop(self) -> None:
        if not self.is_running():
            return
        try:
            self._run("pg_ctl", "-D", self.data, "-m", "fast", "-w", "-t", "60", "stop")
        except DatabaseError:
            # A reaper may have stopped it between the look and the stop.
            if self.is_running():
                raise

    def is_running(self) -> bool:
        """Whether the pid file names a live server of ours; the pid may be another program's by now."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            pid = int(lines[0])
        except (FileNotFoundError, IndexError, ValueError):
            return False
        return pid > 0 and _command_of(pid) == "postgres" and str(self.data) == lines[1]

    def _clear_leftovers(self) -> None:
        # PostgreSQL takes any live process with the pid for its own server, and then refuses to start.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        for leftover in (".s.PGSQL.5432", ".s.PGSQL.5432.lock"):
            (self.sockets / leftover).unlink(missing_ok=True)

    def start_reaper(self) -> None:
        waiting = FileLock(self.base / ".reap.lock")
        try:
            if not waiting.try_to_take():
                return
        finally:
            waiting.close()
        locks = [str(self.base / ".use.lock"), str(self.base / ".reap.lock")]
        command = [sys.executable, "-I", "-S", str(Path(reaper.__file__)), *locks]
        subprocess.Popen(
            [*command, self.binaries.program("pg_ctl"), str(self.data)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def _run(self, program: str, *arguments: object) -> None:
        command = [self.binaries.program(program), *map(str, arguments)]
        # To a file: the server inherits it, and a pipe would stay open for as long as the server lives.
        with tempfile.TemporaryFile() as said:
            environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
            code = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd="/",
                env=environment,
                check=False,
                user=None if self._owner.is_ours else self._owner.uid,
                group=None if self._owner.is_ours else self._owner.gid,
                extra_groups=None if self._owner.is_ours else [],
            ).returncode
            if code != 0:
                said.seek(0)
                raise DatabaseError(f"{program} failed ({code}): {_tail(said.read())}{self._server_log()}")

    def _server_log(self) -> str:
        try:
            return f"\nThe server's log ends with: {_tail((self.data / 'server.log').read_bytes())}"
        except OSError:
            return ""


def _quoted(value: str) -> str:
    # pg_ctl hands the options to a shell.
    return "'" + value.replace("'", "'\\''") + "'"


def _tail(said: bytes) -> str:
    return said.decode(errors="replace").strip()[-2000:]


def _command_of(pid: int) -> str:
    """Return the name of a live process's program; a zombie is not alive, though it keeps its name."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        if Path("/proc/self").exists():
            return ""
        ps = ["ps", "-o", "stat=,comm=", "-p", str(pid)]
        answer = subprocess.run(ps, capture_output=True, text=True, check=False).stdout
        state, _, command = answer.strip().partition(" ")
        command = command.strip().rsplit("/", 1)[-1]
    else:
        command, _, rest = stat.partition("(")[2].rpartition(")")
        state = rest.split()[0]
    return "" if state.startswith("Z") else command
