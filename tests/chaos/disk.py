"""Disks of a server that are really full, and have space again."""

from __future__ import annotations

import errno
import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Literal

from perdure.infrastructure.postgres.embedded import EmbeddedPostgres

_MEGABYTES = 32
_PAGE = 8192
_FILLER = """
INSERT INTO perdure.perdure_events (originator_id, originator_version, topic, state)
SELECT 'filler', number, 'filler', decode(repeat(md5(number::text), 122), 'hex')
  FROM generate_series(%(first)s::int, %(last)s::int) AS number
"""
"""Four rows fill a page, and are not moved elsewhere for their size."""
_ROWS = 9000
"""More than the 16 MB of a file of the server's write-ahead log, which the limit must spare."""


class CannotMount(Exception):
    """This process may not mount a file system."""


class Disk(ABC):
    """Where a database is.

    Attributes:
        conninfo: The database.
        refusal: How the server says that there is no space.
    """

    conninfo: str
    refusal: str

    @abstractmethod
    def prepare(self) -> None:
        """Do what can only be done once the tables are there."""

    @abstractmethod
    def fill(self) -> None:
        """Leave no space at all."""

    @abstractmethod
    def free(self) -> None:
        """Give the space back."""


class SmallDisk(Disk):
    """A file system of its own, filled up by a file beside the database."""

    refusal = os.strerror(errno.ENOSPC)

    def __init__(self, conninfo: str, mount_point: Path) -> None:
        self.conninfo = conninfo
        self._ballast = mount_point / "ballast"

    def prepare(self) -> None:
        """Nothing: whatever is written there counts."""

    def fill(self) -> None:
        """Write until there is no space left."""
        descriptor = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            for size in (1 << 20, 4096):
                try:
                    while os.write(descriptor, bytes(size)):
                        pass
                except OSError:
                    continue
        finally:
            os.close(descriptor)

    def free(self) -> None:
        """Delete the file."""
        self._ballast.unlink()


@contextmanager
def small_disk(server: EmbeddedPostgres) -> Generator[SmallDisk]:
    """Put a database on a small file system in memory.

    Raises:
        CannotMount: This process may not do that.
    """
    place = server.directory / "small"
    place.mkdir()
    owner = (server.directory / "data").stat()
    options = f"size={_MEGABYTES}m,mode=700,uid={owner.st_uid},gid={owner.st_gid}"
    mounting = ["mount", "-t", "tmpfs", "-o", options, "perdure-tests", str(place)]
    mounted = subprocess.run(mounting, capture_output=True, text=True, check=False)
    if mounted.returncode:
        raise CannotMount(mounted.stderr.strip())
    try:
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            connection.execute(SQL("CREATE TABLESPACE small LOCATION {}").format(Literal(str(place))))
            connection.execute("CREATE DATABASE on_small TABLESPACE small")
            yield SmallDisk(make_conninfo(server.conninfo, dbname="on_small"), place)
            connection.execute("DROP DATABASE on_small WITH (FORCE)")
            connection.execute("DROP TABLESPACE small")
    finally:
        # Lazily: it also goes if the server has not let go of it, because a test failed on the way.
        subprocess.run(["umount", "--lazy", str(place)], check=True)


class LimitedFiles(Disk):
    """A server whose files cannot grow: as near to a full disk as one comes without mounting anything."""

    refusal = os.strerror(errno.EFBIG)

    def __init__(self, server: EmbeddedPostgres) -> None:
        self.conninfo = server.conninfo
        self._directory = server.directory / "data"
        self._rows = _ROWS

    def prepare(self) -> None:
        """Make the event table larger than any other file that the server writes."""
        self._insert(1, _ROWS)

    def fill(self) -> None:
        """Let the table have less than one page more, and use up what it has."""
        with psycopg.connect(self.conninfo) as connection:
            row = connection.execute("SELECT pg_relation_size('perdure.perdure_events')").fetchone()
        assert row is not None
        self._limit(str(row[0] // _PAGE * _PAGE + _PAGE // 2))
        with suppress(psycopg.Error):
            while True:
                self._rows += 1
                self._insert(self._rows, self._rows)

    def _insert(self, first: int, last: int) -> None:
        with psycopg.connect(self.conninfo) as connection:
            connection.execute(_FILLER, {"first": first, "last": last})

    def free(self) -> None:
        """Let files grow again."""
        self._limit("unlimited")

    def _limit(self, size: str) -> None:
        owner = self._directory.stat()
        postmaster = int((self._directory / "postmaster.pid").read_text().splitlines()[0])
        # Children that come later inherit it; those that are there have to be told as well.
        for pid in (postmaster, *_children(postmaster)):
            # As the server's own account: not even root may always change limits of others.
            subprocess.run(
                ["prlimit", f"--fsize={size}:", "--pid", str(pid)],
                check=Path(f"/proc/{pid}").exists(),
                user=owner.st_uid,
                group=owner.st_gid,
                extra_groups=[] if os.geteuid() == 0 else None,
                cwd="/",
                stderr=subprocess.DEVNULL,
            )


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
