"""One server a test run, one database a test that asks for one."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from perdure.infrastructure.postgres.embedded import EmbeddedPostgres, remove
from tests.support.postgres import DIRECTORY, clean_up, fresh_database, join_server, new_directory


def _is_first_process(config: pytest.Config) -> bool:
    return not hasattr(config, "workerinput")


def pytest_configure(config: pytest.Config) -> None:
    if _is_first_process(config):
        os.environ[DIRECTORY] = str(new_directory())


def pytest_unconfigure(config: pytest.Config) -> None:
    if _is_first_process(config):
        clean_up(Path(os.environ.pop(DIRECTORY)))


@pytest.fixture(autouse=True)
def _no_database_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test touches a database that the environment happens to name."""
    for variable in ("PERDURE_DATABASE_URL", "DATABASE_URL", "PERDURE_POSTGRES_BIN"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(scope="session")
def postgres_server() -> Generator[EmbeddedPostgres]:
    """The server of this test run, shared by all its processes."""
    with join_server() as server:
        yield server


@pytest.fixture
def database_url(postgres_server: EmbeddedPostgres) -> Generator[str]:
    """A fresh, empty database."""
    with fresh_database(postgres_server) as conninfo:
        yield conninfo


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
