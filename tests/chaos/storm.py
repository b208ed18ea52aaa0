"""A storm: runs are started, harm is done, and in the end all must be as if nothing had happened."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from perdure import AgentRuns, LogUnavailable
from perdure.domain.state import RunState
from tests.chaos.fleet import Fleet
from tests.chaos.judge import Verdicts, judge
from tests.chaos.person import Person
from tests.chaos.program import Settings, connect
from tests.chaos.world import World

Harm = Callable[[Fleet], bool]
"""Does some harm; returns whether there is more to do."""


@dataclass
class Outcome:
    """What a storm left."""

    verdicts: Verdicts
    deaths: int
    freezes: int
    asked: dict[str, int]
    seconds: float


def storm(
    fleet_settings: list[Settings],
    harm: Harm,
    *,
    runs: int,
    direct: Settings | None = None,
    pause: tuple[float, float] = (0.02, 0.15),
    run_ids: list[str] | None = None,
    patience: float = 120.0,
) -> Outcome:
    """Start runs and workers, do harm, and wait until every run has ended.

    Args:
        fleet_settings: One worker for each.
        harm: What to do to them, again and again until it says that there is no more.
        runs: Runs that are kept going at the same time.
        direct: How the test itself reaches the database, if not as the workers do.
        pause: Seconds between harm, from and to.
        run_ids: The runs to start, instead of so many.
        patience: Seconds after which what is not finished is given to the judge as it is.
    """
    began = time.monotonic()
    settings = direct or fleet_settings[0]
    world = World(settings.effects)
    with connect(settings, agents=True) as at_hand, Fleet(*fleet_settings) as fleet:
        crowd = Crowd(at_hand, world)
        crowd.start(run_ids or [f"storm-{number}" for number in range(runs)])
        fleet.fill_up()
        more, rounds = True, 0
        while more and time.monotonic() - began < patience:
            time.sleep(random.uniform(*pause))
            more = harm(fleet)
            fleet.thaw()
            rounds += 1
            if rounds % 5 == 0 and crowd.look_after_them() < runs // 2:
                first = len(crowd.run_ids)
                crowd.start([f"storm-{number}" for number in range(first, first + runs // 2)])
        while (crowd.look_after_them() or fleet.thaw()) and time.monotonic() - began < patience:
            fleet.fill_up()
            time.sleep(0.05)
        verdicts = judge(at_hand, crowd.run_ids, world)
        return Outcome(verdicts, fleet.deaths, fleet.freezes, crowd.person.asked, time.monotonic() - began)


class Crowd:
    """The runs of a storm."""

    def __init__(self, at_hand: AgentRuns, world: World) -> None:
        self._at_hand = at_hand
        self.person = Person(at_hand, world)
        self.run_ids: list[str] = []
        self._open: set[str] = set()

    def start(self, run_ids: list[str]) -> None:
        """Start runs, for three tenants in turn; what cannot be started now is left out."""
        for run_id in run_ids:
            with suppress(LogUnavailable):
                self._at_hand.start("chaos", "go", run_id=run_id, tenant=f"t{len(self.run_ids) % 3}")
                self.run_ids.append(run_id)
                self._open.add(run_id)

    def look_after_them(self) -> int:
        """Decide what people are asked, and return how many runs are not finished."""
        for run_id in sorted(self._open):
            state = self._state(run_id)
            if state is None:
                continue
            if state.is_finished:
                self._open.discard(run_id)
            else:
                self.person.look_after(state)
        return len(self._open)

    def _state(self, run_id: str) -> RunState | None:
        try:
            return self._at_hand.state(run_id)
        except LogUnavailable:
            return None
