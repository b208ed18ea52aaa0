"""The direction of imports is checked, and the check notices what it is there for."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _lint_imports(where: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=where,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a directory with a copy of the package that a test may spoil."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "perdure", tmp_path / "perdure", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_imports_point_inwards() -> None:
    """Infrastructure imports the application, which imports the domain, and never the other way round."""
    checked = _lint_imports(ROOT)

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_an_unspoilt_copy_passes(copy: Path) -> None:
    """A copy of the package passes, so that what fails below fails because of what was planted."""
    checked = _lint_imports(copy)

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("domain/run.py", "import psycopg", "The domain is pure"),
        ("domain/calls.py", "import asyncio", "The domain is pure"),
        ("application/journal.py", "import eventsourcing", "The application knows no database"),
        ("domain/planning.py", "import perdure.application.agent", "Imports point inwards"),
        ("application/driver.py", "import perdure.infrastructure.postgres", "Imports point inwards"),
    ],
)
def test_a_planted_import_is_noticed(copy: Path, module: str, line: str, broken: str) -> None:
    """An import against the direction fails the check, and the contract that it breaks is named."""
    spoilt = copy / "perdure" / module
    spoilt.write_text(f"{spoilt.read_text()}\n{line}\n")

    checked = _lint_imports(copy)

    assert checked.returncode != 0
    contracts = [row for row in checked.stdout.splitlines() if row.startswith(broken)]
    assert any(row.endswith("BROKEN") for row in contracts), checked.stdout
