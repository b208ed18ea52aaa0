"""Directories: where the data lives, where the socket lives, and who may reach them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from perdure.domain.errors import DatabaseError
from perdure.infrastructure.postgres.embedded.binaries import Binaries
from perdure.infrastructure.postgres.embedded.reaper import SOCKET_NAME

if sys.platform != "win32":
    import pwd

_LONGEST_SOCKET_PATH = 103
"""Bytes that every Unix takes for the path of a socket (macOS 104, Linux 108, one for the end)."""
_UNSPEAKABLE = re.compile(r"[\"$`\\\r\n]")
COPIES = "programs-"
"""How the names of directories begin that hold copies of PostgreSQL's programs."""


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
    named = os.environ.get("XDG_DATA_HOME", "")
    if Path(named).is_absolute():
        return Path(named, "perdure", "postgres")
    if os.geteuid() == 0:
        return Path("/var/lib/perdure/postgres")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "perdure" / "postgres"
    return Path.home() / ".local" / "share" / "perdure" / "postgres"


def make_reachable(base: Path, owner: Account) -> None:
    """Create the directory, and make sure that the server's account can enter it.

    Raises:
        DatabaseError: It cannot be created or entered, or its path cannot be given to PostgreSQL.
    """
    # `pg_ctl` puts the path between double quotes into a command of a shell.
    if _UNSPEAKABLE.search(str(base)):
        raise DatabaseError(
            f"PostgreSQL cannot keep its data in {str(base)!r}: name a directory without double quotes, "
            "dollar signs, backquotes, backslashes and line ends"
        )
    try:
        base.mkdir(mode=0o711, parents=True, exist_ok=True)
        if not owner.is_ours and not base.stat().st_mode & stat.S_IXOTH and _is_for_us(base):
            base.chmod(base.stat().st_mode | 0o011)
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


def _is_for_us(base: Path) -> bool:
    # Somebody else's private directory is not opened to others just because it was named.
    return (base / ".start.lock").exists() or not any(base.iterdir())


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
    """Return where the socket goes: beside the data, or in a short place if clients cannot name that path.

    The short place depends on nothing but the path and the account, so that all clients agree on it.
    """
    beside = base / "socket"
    is_short = len(os.fsencode(beside / SOCKET_NAME)) <= _LONGEST_SOCKET_PATH
    # In a client's connection string a comma separates hosts, and so it does in the server's setting.
    if is_short and "," not in str(beside):
        return beside
    name = hashlib.sha256(os.fsencode(base)).hexdigest()[:16]
    return Path("/tmp", f"perdure-{os.geteuid()}-{name}")  # noqa: S108 - private, and checked to be


def runnable(binaries: Binaries, base: Path, owner: Account) -> Binaries:
    """Return the programs, in a place where the server's account can run them.

    For root the virtual environment may lie in a home that `nobody` cannot enter; then its PostgreSQL is
    copied into the server's directory, once for each build of it. Call it while nobody else starts a server.

    Raises:
        DatabaseError: The programs were named by the user, and the account cannot run them.
    """
    if owner.is_ours or others_can_reach(binaries.directory):
        return binaries
    if not binaries.are_of_the_wheel:
        raise DatabaseError(
            f"the server runs as 'nobody', which cannot run the programs in {binaries.directory}: name others"
        )
    built = int((binaries.directory / "postgres").stat().st_mtime)
    kept = base / f"{COPIES}{binaries.version}-{built}"
    if not kept.exists():
        # A server may be running from an older copy: that one stays until the directory is removed.
        installation = binaries.directory.parent
        package = installation.parent
        unfinished = base / f"{COPIES}incomplete"
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(installation, unfinished / package.name / installation.name, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, unfinished / libraries.name)
        _open_to_all(unfinished)
        unfinished.rename(kept)
    return replace(binaries, directory=kept.joinpath(*binaries.directory.parts[-3:]))


def _open_to_all(place: Path) -> None:
    for part in [place, *place.rglob("*")]:
        if not part.is_symlink():
            mode = part.stat().st_mode
            part.chmod(mode | (0o555 if mode & stat.S_IXUSR else 0o444))
