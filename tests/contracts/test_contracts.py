"""The contracts of ports, over every adapter of ours."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

from perdure.application.ports.event_store import EventStore
from perdure.infrastructure.event_store.run_log import RunLog
from perdure.infrastructure.event_store.store import EventSourcedStore
from perdure.infrastructure.memory.clock import ManualClock, SystemClock
from perdure.infrastructure.memory.leases import MemoryLeases
from perdure.infrastructure.postgres.clock import PostgresClock
from perdure.infrastructure.postgres.database import Database
from perdure.infrastructure.postgres.leases import PostgresLeases
from perdure.testing.contracts import (
    ClockContract,
    ClockSubject,
    EventStoreContract,
    LeasesContract,
    LeasesSubject,
)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()


class TestEventStoreInMemory(EventStoreContract):
    @pytest.fixture
    def store(self) -> EventStore:
        return EventSourcedStore(RunLog())


class TestEventStoreInPostgres(EventStoreContract):
    @pytest.fixture
    def store(self, database_url: str) -> Iterator[EventStore]:
        log = RunLog(database_url)
        yield EventSourcedStore(log)
        log.close()


class TestLeasesInMemory(LeasesContract):
    @pytest.fixture
    def subject(self) -> LeasesSubject:
        clock = ManualClock()
        leases = MemoryLeases(clock)

        def expire(run_id: str) -> None:
            row = leases._rows[run_id]
            row.expires_at = clock.now()

        return LeasesSubject(leases, expire, leases._rows.clear)


class TestLeasesInPostgres(LeasesContract):
    @pytest.fixture
    def subject(self, database: Database, database_url: str) -> LeasesSubject:
        leases = PostgresLeases(database, schema="perdure")

        def expire(run_id: str) -> None:
            with psycopg.connect(database_url) as connection:
                connection.execute(
                    "UPDATE perdure.leases SET expires_at = clock_timestamp() WHERE run_id = %s", (run_id,)
                )

        def forget() -> None:
            with psycopg.connect(database_url) as connection:
                connection.execute("DROP TABLE perdure.leases")
            PostgresLeases(database, schema="perdure")

        return LeasesSubject(leases, expire, forget)


class TestSystemClock(ClockContract):
    @pytest.fixture
    def subject(self) -> ClockSubject:
        return ClockSubject(SystemClock(), time.sleep)


class TestManualClock(ClockContract):
    @pytest.fixture
    def subject(self) -> ClockSubject:
        clock = ManualClock()
        return ClockSubject(clock, clock.move)


class TestPostgresClock(ClockContract):
    @pytest.fixture
    def subject(self, database: Database) -> ClockSubject:
        PostgresLeases(database, schema="perdure")
        return ClockSubject(PostgresClock(database, schema="perdure"), time.sleep)

    def test_it_is_the_clock_of_the_database(self, subject: ClockSubject, database_url: str) -> None:
        """Its time is the database's, whatever the machine's clock says."""
        with psycopg.connect(database_url) as connection:
            row = connection.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        assert abs((subject.clock.now() - row[0]).total_seconds()) < 5
