"""A log in each place that there is."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from perdure.infrastructure.event_store.run_log import RunLog
from perdure.infrastructure.event_store.store import EventSourcedStore


@pytest.fixture(params=["memory", "postgres"])
def log(request: pytest.FixtureRequest) -> Generator[RunLog]:
    """A fresh log."""
    conninfo = None if request.param == "memory" else request.getfixturevalue("database_url")
    log = RunLog(conninfo)
    yield log
    log.close()


@pytest.fixture
def store(log: RunLog) -> EventSourcedStore:
    """The port on top of it."""
    return EventSourcedStore(log)
