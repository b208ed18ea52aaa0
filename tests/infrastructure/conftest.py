"""A place for embedded servers of single tests."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from perdure.infrastructure.postgres.embedded import remove
from tests.support.postgres import clean_up, new_directory


@pytest.fixture
def server_directory() -> Generator[Path]:
    """An empty directory that the server's account can enter; all servers below it are removed."""
    directory = new_directory()
    directory.chmod(0o711)
    yield directory
    for lock in list(directory.rglob(".use.lock")):
        if lock.parent != directory:
            remove(lock.parent)
    clean_up(directory)
