"""The directories of one server, and what is done to them while nobody else does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from psycopg.conninfo import make_conninfo

from perdure.domain.errors import DatabaseError
from perdure.infrastructure.postgres.embedded import reaper
from perdure.infrastructure.postgres.embedded.binaries import Binaries
from perdure.infrastructure.postgres.embedded.locks import FileLock
from perdure.infrastructure.postgres.embedded.places import (
    COPIES,
    Account,
    private_directory,
    socket_directory,
)

_OURS = ("listen_addresses", "unix_socket_directories", "port")
_LOCKS = (".use.lock", ".reap.lock", ".server.lock", ".start.lock")
_TAIL = 2000


class Cluster:
    """A server's directory, seen by the process that holds its start lock."""

    def __init__(self, base: Path, owner: Account, starting: FileLock) -> None:
        self.base = base
        self.sockets = socket_directory(base)
        # The port is said, or else a variable of the client's environment would choose it.
        self.conninfo = make_conninfo(host=str(self.sockets), port=5432, user="postgres", dbname="postgres")
        self._data = base / "data"
        self._owner = owner
        self._starting = starting

    def initialise(self, binaries: Binaries, *, durable: bool) -> None:
        """Make a data directory, complete or not at all: a first start may be killed half-way."""
        if self._data.exists():
            self._require_version(binaries)
            return
        # Whoever was killed over it, its `initdb` has ended: that held the start lock too.
        unfinished = self.base / "data.incomplete"
        shutil.rmtree(unfinished, ignore_errors=True)
        private_directory(unfinished, self._owner)
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"]
        self._run(
            [
                binaries.program("initdb"),
                "-D",
                str(unfinished),
                *options,
                *([] if durable else ["--no-sync"]),
            ],
            as_owner=True,
        )
        unfinished.rename(self._data)
        if durable:
            _synchronise(self.base)

    def start(self, binaries: Binaries, settings: Mapping[str, str]) -> None:
        """Start the server unless it runs, and a reaper unless there is one."""
        if reaper.is_listening(self.sockets):
            if self._has_no_reaper():
                self._run(self._reaper())
            return
        private_directory(self.sockets, self._owner)
        told = {"listen_addresses": "", "unix_socket_directories": str(self.sockets), "port": "5432"}
        options = reaper.options_of({**_checked(settings), **told})
        self._run([*self._reaper(), binaries.program("pg_ctl"), options])

    def remove(self) -> None:
        """Stop the server and delete all that belongs to it, and nothing else."""
        if not reaper.stop(self.base, self.sockets):
            raise DatabaseError(f"the server of {self.base} does not stop: nothing was deleted")
        copies = self.base.glob(f"{COPIES}*")
        for directory in (self.sockets, self._data, self.base / "data.incomplete", *copies):
            if directory.exists():
                shutil.rmtree(directory)
        for lock in _LOCKS:
            (self.base / lock).unlink(missing_ok=True)
        if not any(self.base.iterdir()):
            self.base.rmdir()

    def _require_version(self, binaries: Binaries) -> None:
        try:
            found = (self._data / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            raise DatabaseError(f"{self._data} holds something else than PostgreSQL's data") from None
        if found != str(binaries.major):
            raise DatabaseError(
                f"{self._data} was made by PostgreSQL {found}, and at hand is PostgreSQL {binaries.major} "
                f"({binaries.source}). Nothing was changed. Name the bin directory of PostgreSQL {found} in "
                "PERDURE_POSTGRES_BIN, or move the data over with pg_upgrade or pg_dump."
            )

    def _has_no_reaper(self) -> bool:
        with FileLock(self.base / ".reap.lock") as reaping:
            return reaping.try_to_take()

    def _reaper(self) -> list[str]:
        if not sys.executable:
            raise DatabaseError("the embedded server needs a Python to run, and sys.executable names none")
        program = [sys.executable, "-I", "-S", str(Path(reaper.__file__).absolute())]
        return [*program, str(self.base), str(self.sockets), str(self._starting.descriptor)]

    def _run(self, command: Sequence[str], *, as_owner: bool = False) -> None:
        drops = as_owner and not self._owner.is_ours
        # To a file: whoever stays behind inherits it, and a pipe would stay open for as long.
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd="/",
                env={name: value for name, value in os.environ.items() if not name.startswith("PG")},
                # Should this process be killed, nobody else starts or removes the server before it ends.
                pass_fds=(self._starting.descriptor,),
                # An interrupt from the keyboard must not leave a server behind without a reaper.
                start_new_session=True,
                user=self._owner.uid if drops else None,
                group=self._owner.gid if drops else None,
                extra_groups=[] if drops else None,
            )
            code = process.wait()
            if code != 0:
                said.seek(0)
                raise DatabaseError(
                    f"the embedded server in {self.base} cannot be started: {_tail(said.read())} (exit code "
                    f"{code}){self._server_log()}"
                )

    def _server_log(self) -> str:
        try:
            with (self._data / "server.log").open("rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - _TAIL))
                return f"\nThe server's log ends with: {_tail(log.read())}"
        except OSError:
            return ""


def _checked(settings: Mapping[str, str]) -> Mapping[str, str]:
    for name in settings:
        if name in _OURS or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name):
            raise DatabaseError(f"{name!r} cannot be set: it is no parameter, or decides how clients connect")
    return settings


def _synchronise(directory: Path) -> None:
    # A name is durable only once its directory is: the data must not be lost for want of theirs.
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _tail(said: bytes) -> str:
    return said[-_TAIL:].decode(errors="replace").strip()
