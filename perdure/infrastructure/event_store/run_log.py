"""The `eventsourcing` application that holds the log of all runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eventsourcing.application import Application
from eventsourcing.persistence import JSONTranscoder, Mapper, StoredEvent
from eventsourcing.utils import Environment, get_topic

from perdure.domain.events import Event
from perdure.domain.evolution import evolve
from perdure.domain.run import AgentRun
from perdure.domain.state import RunState
from perdure.infrastructure.event_store.mapper import PydanticMapper
from perdure.infrastructure.event_store.recorder import RunEventsFactory

DEFAULT_SCHEMA = "perdure"


class RunLog(Application[str]):
    """Events of runs, and of a host's own aggregates with text ids, in one table.

    Hosts can save their aggregates in the same transaction as a run: `log.save(run, order)`. Unlike its
    base class it is configured by its arguments alone: `os.environ` leaks neither in nor out.
    """

    name = "perdure"

    def __init__(self, conninfo: str | None = None, *, schema: str = DEFAULT_SCHEMA) -> None:
        """Open the log, and create its table if it is missing.

        Args:
            conninfo: A libpq connection string or URL; None keeps the log in memory.
            schema: The database schema to keep it in.
        """
        self._settings = _settings(conninfo, schema)
        transcoder = JSONTranscoder()
        self.register_transcodings(transcoder)
        self._events_mapper = PydanticMapper(transcoder)
        super().__init__()

    def construct_env(self, name: str, env: Mapping[str, str] | None = None) -> Environment:  # noqa: ARG002
        """Return the explicit settings; the process environment has no say."""
        return Environment(name, dict(self._settings))

    def construct_mapper(self) -> Mapper[str]:
        """Return the mapper that knows both pydantic events and the library's own."""
        return self._events_mapper

    def to_stored(self, events: Sequence[Event]) -> list[StoredEvent]:
        """Return the stored forms of events of runs."""
        return [self._events_mapper.to_stored_event(event) for event in events]

    def to_events(self, stored: Sequence[StoredEvent]) -> list[Event]:
        """Read events of runs back; see `PydanticMapper.to_domain_event` for what it raises."""
        return [self._events_mapper.to_domain_event(event) for event in stored]

    @property
    def events_table(self) -> str:
        """Name of the event table in its schema, and of the channel that each append notifies."""
        return f"{self.name}_events"

    def run(self, run_id: str, *, version: int | None = None) -> AgentRun:
        """Rebuild a run from its events, for hosts that save it together with aggregates of their own.

        Raises:
            eventsourcing.application.AggregateNotFoundError: There is no such run.
        """
        return self.repository.get(run_id, version=version, projector_func=_project)


def _project(aggregate: AgentRun | None, events: Any) -> AgentRun | None:
    state: RunState | None = aggregate.state if aggregate is not None else None
    for event in events:
        if isinstance(event, Event):
            state = evolve(state or RunState(event.run_id), event)
    return AgentRun(state) if state is not None else None


def _settings(conninfo: str | None, schema: str) -> dict[str, str]:
    if conninfo is None:
        return {"PERSISTENCE_MODULE": "eventsourcing.popo"}
    return {
        "PERSISTENCE_MODULE": get_topic(RunEventsFactory),
        RunEventsFactory.CONNINFO: conninfo,
        "POSTGRES_SCHEMA": schema,
        "ORIGINATOR_ID_TYPE": "text",
        "POSTGRES_POOL_SIZE": "1",
        "POSTGRES_MAX_OVERFLOW": "9",
        # The connection string says all of this; the library insists on being told.
        "POSTGRES_DBNAME": "",
        "POSTGRES_HOST": "",
        "POSTGRES_USER": "",
        "POSTGRES_PASSWORD": "",
    }
