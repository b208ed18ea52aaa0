"""Finds runs to drive, straight from the log in PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from perdure.application.ports.run_finder import Candidate, RunFinder, Version
from perdure.infrastructure.event_store.topics import RESTING_TOPICS, WAKING_TOPICS
from perdure.infrastructure.postgres.database import Database
from perdure.infrastructure.postgres.schema import statements


class PostgresRunFinder(RunFinder):
    """Asks the event table and the leases."""

    def __init__(self, database: Database, *, schema: str, events_table: str) -> None:
        self._database = database
        self._sql = statements("run_finder", schema, events=events_table)

    def find(
        self, *, versions: Collection[Version] | None, passing_over: Mapping[str, int | None], limit: int
    ) -> Sequence[Candidate]:
        """Return runs that may have something to do; see the port."""
        wanted = list(versions or ())
        parameters = {
            "resting": list(RESTING_TOPICS),
            "passing_over": list(passing_over),
            "passed_versions": list(passing_over.values()),
            "any_version": versions is None,
            "agents": [agent for agent, _, _ in wanted],
            "models": [model for _, model, _ in wanted],
            "prompt_versions": [prompt_version for _, _, prompt_version in wanted],
            "limit": limit,
        }
        rows = self._database.rows(self._sql["find"], parameters)
        return [Candidate(row["run_id"], row["version"], row["tenant"]) for row in rows]

    def position(self) -> int:
        """Return the position of the newest event; see the port."""
        return self._database.rows(self._sql["position"])[0]["position"]

    def has_news(self, since: int) -> bool:
        """Whether there is a new run or word from a person; see the port."""
        parameters = {"since": since, "topics": list(WAKING_TOPICS)}
        return self._database.rows(self._sql["has_news"], parameters)[0]["has_news"]
