"""Starting, joining and leaving the embedded server."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from perdure.domain.errors import DatabaseError
from perdure.infrastructure.postgres.embedded.binaries import Binaries, find_binaries
from perdure.infrastructure.postgres.embedded.cluster import Cluster
from perdure.infrastructure.postgres.embedded.locks import FileLock
from perdure.infrastructure.postgres.embedded.places import (
    account,
    default_directory,
    make_reachable,
    runnable,
)

_NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class EmbeddedPostgres:
    """This process's use of a server that all its users start together and nobody owns.

    The first user starts it; each user holds a shared lock; a detached reaper stops the server once the
    last user is gone, however it died. The server listens on a Unix socket in a private directory and on
    no network.

    A forked child does not use the server by itself: it is no reason to keep it running. A child that
    outlives its parent, or may, starts (that is, joins) it once more.

    Attributes:
        directory: Holds data, socket and locks.
        binaries: The programs in use, and where they come from.
        conninfo: How to connect, to the database `postgres`.
    """

    def __init__(self, directory: Path, binaries: Binaries, conninfo: str, use: FileLock) -> None:
        """Use `start()`."""
        self.directory = directory
        self.binaries = binaries
        self.conninfo = conninfo
        self._use = use

    @property
    def version(self) -> str:
        """Version of the programs, such as "18.1"."""
        return self.binaries.version

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
        base = _resolved(directory)
        with _one_at_a_time(base) as starting:
            owner = account()
            programs = runnable(find_binaries(binaries), base, owner)
            use = FileLock(base / ".use.lock")
            try:
                use.share()
                cluster = Cluster(base, owner, starting)
                cluster.initialise(programs, durable=durable)
                cluster.start(programs, {**(settings or {}), **({} if durable else _NOT_DURABLE)})
            except BaseException:
                use.close()
                raise
        return cls(base, programs, cluster.conninfo, use)

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

    Args:
        directory: As given to `EmbeddedPostgres.start()`. What else it holds stays. It need not exist.

    Raises:
        DatabaseError: The directory holds no embedded server, or its server does not stop.
    """
    base = _resolved(directory)
    if not base.exists():
        return
    if not (base / ".use.lock").exists():
        raise DatabaseError(f"{base} holds no embedded server: it is left as it is")
    with _one_at_a_time(base) as starting:
        Cluster(base, account(), starting).remove()


def _resolved(directory: Path | None) -> Path:
    if sys.platform == "win32":
        raise DatabaseError("the embedded server needs a Unix system: set PERDURE_DATABASE_URL")
    # By whatever name a directory is called, it is one server.
    return (directory if directory is not None else default_directory()).resolve()


@contextmanager
def _one_at_a_time(base: Path) -> Generator[FileLock]:
    """Hold the lock under which servers are started and removed; failures on the way are `DatabaseError`s."""
    try:
        starting = _take_start_lock(base)
        with starting:
            yield starting
    except OSError as error:
        raise DatabaseError(
            f"the embedded database cannot use {base}: {error.strerror or error}"
            f"{f' ({error.filename})' if error.filename else ''}; name another directory, or set "
            "PERDURE_DATABASE_URL"
        ) from error


def _take_start_lock(base: Path) -> FileLock:
    while True:
        make_reachable(base, account())
        try:
            lock = FileLock(base / ".start.lock")
        except FileNotFoundError:
            continue
        lock.take()
        # Whoever held it before may have removed the directory.
        if lock.is_current():
            return lock
        lock.close()
