"""Finds runs to drive in a log in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from eventsourcing.persistence import ApplicationRecorder, Notification
from pydantic_core import from_json

from perdure.application.ports.leases import Leases
from perdure.application.ports.run_finder import Candidate, RunFinder, Version
from perdure.infrastructure.event_store.topics import RESTING_TOPICS, WAKING_TOPICS


class MemoryRunFinder(RunFinder):
    """Looks through the whole log: it is short."""

    def __init__(self, recorder: ApplicationRecorder, leases: Leases) -> None:
        self._recorder = recorder
        self._leases = leases

    def find(
        self, *, versions: Collection[Version] | None, passing_over: Mapping[str, int | None], limit: int
    ) -> Sequence[Candidate]:
        """Return runs that may have something to do; see the port."""
        first: dict[str, Notification] = {}
        last: dict[str, Notification] = {}
        for event in self._recorder.select_notifications(1, 1_000_000_000):
            first.setdefault(str(event.originator_id), event)
            last[str(event.originator_id)] = event
        turns: dict[str | None, int] = {}
        found: list[tuple[int, Candidate]] = []
        for run_id, started in first.items():
            if started.topic != "perdure.run-started" or last[run_id].topic in RESTING_TOPICS:
                continue
            lease = self._leases.find(run_id)
            version = last[run_id].originator_version
            passed = run_id in passing_over and passing_over[run_id] in (None, version)
            if passed or (lease is not None and lease.is_live):
                continue
            facts = from_json(started.state)
            pinned = (facts["agent"], facts["pins"]["model"], facts["pins"]["prompt_version"])
            if versions is not None and pinned not in versions:
                continue
            tenant = facts.get("tenant")
            turns[tenant] = turns.get(tenant, 0) + 1
            found.append((turns[tenant], Candidate(run_id, version, tenant)))
        return [candidate for _, candidate in sorted(found, key=lambda entry: entry[0])][:limit]

    def position(self) -> int:
        """Return the position of the newest event; see the port."""
        return self._recorder.max_notification_id() or 0

    def has_news(self, since: int) -> bool:
        """Whether there is a new run or word from a person; see the port."""
        return bool(self._recorder.select_notifications(since + 1, 1, topics=WAKING_TOPICS))
