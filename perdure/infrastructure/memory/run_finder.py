"""Finds runs to drive in a log in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eventsourcing.persistence import ApplicationRecorder, Notification

from perdure.application.ports.leases import Leases
from perdure.infrastructure.event_store.run_finder import LogRunFinder, Waiting
from perdure.infrastructure.event_store.topics import RESTING_TOPICS, STARTING_TOPICS


class MemoryRunFinder(LogRunFinder):
    """Looks through the whole log: it is short."""

    def __init__(self, recorder: ApplicationRecorder, leases: Leases) -> None:
        super().__init__()
        self._recorder = recorder
        self._leases = leases

    def _waiting(self) -> Sequence[Waiting]:
        last: dict[str, Notification] = {}
        first: dict[str, int] = {}
        for event in self._recorder.select_notifications(1, 1_000_000_000):
            run_id = str(event.originator_id)
            last[run_id] = event
            if event.topic in STARTING_TOPICS:
                first.setdefault(run_id, event.id)
        return [
            Waiting(run_id, last[run_id].originator_version, position)
            for run_id, position in first.items()
            if last[run_id].topic not in RESTING_TOPICS and not self._is_held(run_id)
        ]

    def _first_states(self, run_ids: Sequence[str]) -> Mapping[str, bytes]:
        found = {run_id: self._recorder.select_events(run_id, lte=1) for run_id in run_ids}
        return {run_id: events[0].state for run_id, events in found.items() if events}

    def _is_held(self, run_id: str) -> bool:
        lease = self._leases.find(run_id)
        return lease is not None and lease.is_live
