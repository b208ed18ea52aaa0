"""The runs of a storm, and the person who looks after them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import psycopg

from perdure import AgentRuns, LogUnavailable
from perdure.domain.events import EscalationResolved, RunCancelled, RunCompleted, RunEscalated, RunFailed
from tests.chaos.person import Person
from tests.chaos.program import Settings
from tests.chaos.server import last_events

_ENDS = (RunCompleted, RunFailed, RunCancelled)
_RESTING = (*_ENDS, RunEscalated, EscalationResolved)
"""What stands last in the log of a run that nobody works on, or that may still wait for a person."""


class Crowd:
    """Starts runs, and has decided what they wait for.

    Attributes:
        run_ids: The runs that were started.
    """

    def __init__(self, office: AgentRuns, where: Settings) -> None:
        self._office = office
        self._where = where
        self._person = Person(office, where.world)
        self._open: set[str] = set()
        self._unsure: deque[str] = deque()
        self.run_ids: list[str] = []

    @property
    def ended(self) -> int:
        """Number of runs that were seen to have ended."""
        return len(self.run_ids) - len(self._open)

    def new_ids(self, kind: str, number: int) -> list[str]:
        """Make ids for so many more runs of a kind."""
        first = len(self.run_ids)
        return [f"{kind}:{number}" for number in range(first, first + number)]

    def start(self, run_ids: Sequence[str]) -> None:
        """Start runs, for three tenants in turn."""
        for run_id in run_ids:
            self.run_ids.append(run_id)
            self._open.add(run_id)
            self._unsure.append(run_id)
        with suppress(LogUnavailable):
            self._make_sure()

    def look_after_them(self) -> int:
        """Decide what people are asked, and return how many runs are not finished."""
        # The database may be away for a moment: then they are looked after the next time.
        with suppress(LogUnavailable, psycopg.Error):
            self._make_sure()
            where, known = self._where, self._open.difference(self._unsure)
            for run_id, last in last_events(where.conninfo, where.schema, known, _RESTING).items():
                if last in _ENDS:
                    self._open.discard(run_id)
                else:
                    self._person.look_after(self._office.state(run_id))
        return len(self._open)

    def _make_sure(self) -> None:
        # Whether a start got through is not always known; starting the same run twice is one run.
        while self._unsure:
            run_id = self._unsure[0]
            self._office.start("chaos", "go", run_id=run_id, tenant=f"t{sum(run_id.encode()) % 3}")
            self._unsure.popleft()
