"""Puts the use cases on real ports: the one place that knows all the adapters."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Self

from eventsourcing.persistence import PersistenceError

from perdure.application import agent_runs
from perdure.application.agent import Agent
from perdure.application.ids import new_owner
from perdure.application.lease_keeper import LeaseKeeper
from perdure.application.ports import Ports
from perdure.application.ports.bell import Bell
from perdure.application.ports.boundaries import Boundaries, Unobserved
from perdure.application.ports.clock import Clock
from perdure.application.ports.leases import Leases
from perdure.application.ports.roster import Roster
from perdure.application.ports.run_finder import RunFinder
from perdure.application.registered_agents import RegisteredAgents
from perdure.domain.errors import ConfigurationError, DatabaseError, LogError
from perdure.infrastructure.event_store.run_log import DEFAULT_SCHEMA, RunLog
from perdure.infrastructure.event_store.store import EventSourcedStore
from perdure.infrastructure.memory.bell import MemoryBell
from perdure.infrastructure.memory.clock import SystemClock
from perdure.infrastructure.memory.leases import MemoryLeases
from perdure.infrastructure.memory.roster import MemoryRoster
from perdure.infrastructure.memory.run_finder import MemoryRunFinder
from perdure.infrastructure.models.resolve import resolve_model
from perdure.infrastructure.postgres.address import Address, resolve_address
from perdure.infrastructure.postgres.bell import PostgresBell
from perdure.infrastructure.postgres.clock import PostgresClock
from perdure.infrastructure.postgres.database import Database
from perdure.infrastructure.postgres.leases import PostgresLeases
from perdure.infrastructure.postgres.roster import PostgresRoster
from perdure.infrastructure.postgres.run_finder import PostgresRunFinder


class AgentRuns(agent_runs.AgentRuns):
    """Runs in PostgreSQL or in memory; see `connect()` and `in_memory()`.

    Attributes:
        log: The `eventsourcing` application under it, for hosts that save aggregates of their own.
        address: Where the database is; None in memory.
    """

    def __init__(
        self,
        log: RunLog,
        leases: Leases,
        clock: Clock,
        agents: RegisteredAgents,
        *,
        lease_seconds: float,
        boundaries: Boundaries | None = None,
        address: Address | None = None,
        resources: ExitStack | None = None,
        finder: RunFinder | None = None,
        roster: Roster | None = None,
        bell: Bell | None = None,
        renewals: Leases | None = None,
    ) -> None:
        """Use `connect()` or `in_memory()`."""
        store = EventSourcedStore(log)
        ports = Ports(
            store=store,
            leases=leases,
            clock=clock,
            finder=finder if finder is not None else MemoryRunFinder(log.recorder, leases),
            roster=roster if roster is not None else MemoryRoster(clock),
            bell=bell if bell is not None else MemoryBell(log.recorder),
            boundaries=boundaries if boundaries is not None else Unobserved(),
        )
        keeper = LeaseKeeper(leases, new_owner(), ttl=lease_seconds, renewals=renewals)
        super().__init__(ports, agents, keeper)
        self.log = log
        self.address = address
        self._resources = resources if resources is not None else ExitStack()
        self._resources.callback(store.close)

    @classmethod
    def connect(
        cls,
        address: str | None = None,
        *,
        agents: Sequence[Agent] = (),
        schema: str = DEFAULT_SCHEMA,
        lease_seconds: float = 30.0,
        boundaries: Boundaries | None = None,
    ) -> Self:
        """Connect to a database, and create what is missing in it.

        Args:
            address: A PostgreSQL URL or libpq connection string. Without one: `PERDURE_DATABASE_URL`,
                `DATABASE_URL`, else an embedded server in the user's data directory is started or joined.
            agents: What this process can drive. None are needed for looking and deciding.
            schema: The database schema for perdure's tables.
            lease_seconds: How long a run stays with a process that is not heard of any more.
            boundaries: Told of every point between two writes; for crash tests.

        Raises:
            DatabaseError: The database cannot be found, started or used.
            ConfigurationError: The agents do not fit together, or a model cannot be had.
        """
        if not lease_seconds > 0:
            raise ConfigurationError(f"lease_seconds is a number above 0, not {lease_seconds}")
        registered = RegisteredAgents(agents, resolve_model)
        with ExitStack() as opened:
            where = resolve_address(address)
            opened.callback(where.close)
            try:
                database = Database(where.conninfo)
                opened.callback(database.close)
                log = RunLog(where.conninfo, schema=schema)
                opened.callback(log.close)
                leases = PostgresLeases(database, schema=schema)
                own_connection = Database(where.conninfo, max_size=1, timeout=lease_seconds / 3)
                opened.callback(own_connection.close)
                renewals = PostgresLeases(own_connection, schema=schema)
                clock = PostgresClock(database, schema=schema)
                roster = PostgresRoster(database, schema=schema)
            except (LogError, PersistenceError) as error:
                raise DatabaseError(f"cannot use the database at {where.redacted()}: {error}") from error
            return cls(
                log,
                leases,
                clock,
                registered,
                lease_seconds=lease_seconds,
                boundaries=boundaries,
                address=where,
                resources=opened.pop_all(),
                finder=PostgresRunFinder(database, schema=schema, events_table=log.events_table),
                roster=roster,
                renewals=renewals,
                bell=PostgresBell(where.conninfo, channel=log.events_table),
            )

    @classmethod
    def in_memory(
        cls,
        *,
        agents: Sequence[Agent] = (),
        clock: Clock | None = None,
        lease_seconds: float = 30.0,
        boundaries: Boundaries | None = None,
    ) -> Self:
        """Keep runs in this process only: the same code without a database, for tests.

        Args:
            agents: What this process can drive.
            clock: The clock that counts; the machine's by default.
            lease_seconds: How long a run stays with a driver that is not heard of any more.
            boundaries: Told of every point between two writes; for crash tests.
        """
        clock = clock if clock is not None else SystemClock()
        registered = RegisteredAgents(agents, resolve_model)
        return cls(
            RunLog(),
            MemoryLeases(clock),
            clock,
            registered,
            lease_seconds=lease_seconds,
            boundaries=boundaries,
        )

    def close(self) -> None:
        """Stop renewing leases, close connections, and leave the embedded server if this process uses it."""
        super().close()
        self._resources.close()
