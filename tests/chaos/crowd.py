"""The runs of a storm, and the person who looks after them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from perdure import AgentRuns, LogUnavailable
from perdure.domain.state import RunState
from tests.chaos.person import Person
from tests.chaos.world import World


class Crowd:
    """Starts runs, and has decided what they wait for.

    Attributes:
        run_ids: The runs that were started.
    """

    def __init__(self, office: AgentRuns, world: World) -> None:
        self._office = office
        self._person = Person(office, world)
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
        self._make_sure()

    def look_after_them(self) -> int:
        """Decide what people are asked, and return how many runs are not finished."""
        self._make_sure()
        for run_id in sorted(self._open.difference(self._unsure)):
            state = self._state(run_id)
            if state is None:
                continue
            if state.is_finished:
                self._open.discard(run_id)
            else:
                self._person.look_after(state)
        return len(self._open)

    def _make_sure(self) -> None:
        # Whether a start got through is not always known; starting the same run twice is one run.
        with suppress(LogUnavailable):
            while self._unsure:
                run_id = self._unsure[0]
                self._office.start("chaos", "go", run_id=run_id, tenant=f"t{sum(run_id.encode()) % 3}")
                self._unsure.popleft()

    def _state(self, run_id: str) -> RunState | None:
        try:
            return self._office.state(run_id)
        except LogUnavailable:
            return None
