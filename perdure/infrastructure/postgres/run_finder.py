"""Finds runs to drive in the log in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure.infrastructure.event_store.run_finder import LogRunFinder, Waiting
from perdure.infrastructure.event_store.topics import RESTING_TOPICS, STARTING_TOPICS
from perdure.infrastructure.postgres.database import Database
from perdure.infrastructure.postgres.schema import statements


class PostgresRunFinder(LogRunFinder):
    """Asks the event table and the leases."""

    def __init__(self, database: Database, *, schema: str, events_table: str) -> None:
        super().__init__()
        self._database = database
        self._sql = statements("run_finder", schema, events=events_table)

    def _waiting(self) -> Sequence[Waiting]:
        parameters = {"resting": list(RESTING_TOPICS), "starting": list(STARTING_TOPICS)}
        rows = self._database.rows(self._sql["waiting"], parameters)
        return [Waiting(row["run_id"], row["version"], row["position"]) for row in rows]

    def _first_states(self, run_ids: Sequence[str]) -> Mapping[str, bytes]:
        if not run_ids:
            return {}
        rows = self._database.rows(self._sql["first_states"], {"run_ids": list(run_ids)})
        return {row["run_id"]: bytes(row["state"]) for row in rows}
