"""A storm: runs are started, harm is done, and in the end all must be as if nothing had happened."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.chaos.crowd import Crowd
from tests.chaos.fleet import Fleet
from tests.chaos.judge import Verdicts, judge
from tests.chaos.program import Settings, connect
from tests.chaos.server import OFFICE, note_writers

Harm = Callable[[Fleet], bool]
"""Does some harm; returns whether there is more to do."""
Report = Callable[[str], None]
"""Is told now and then how far the storm is."""
_BETWEEN_LOOKS = 0.3
"""Seconds, at least, from one look after all runs to the next."""


@dataclass
class Outcome:
    """What a storm left."""

    verdicts: Verdicts
    deaths: int
    freezes: int
    seconds: float


def storm(
    fleet_settings: Sequence[Settings],
    harm: Harm,
    *,
    runs: int = 0,
    kind: str = "storm",
    direct: Settings | None = None,
    pause: tuple[float, float] = (0.02, 0.15),
    run_ids: Sequence[str] | None = None,
    patience: float = 120.0,
    report: Report = lambda _: None,
) -> Outcome:
    """Start runs and workers, do harm, wait until every run has ended, and send the workers home.

    Args:
        fleet_settings: One worker for each.
        harm: What to do to them, again and again until it says that there is no more.
        runs: Runs that are kept going at the same time.
        kind: What they do; see `plan_of()`.
        direct: How the test itself reaches the database, if not as the workers do.
        pause: Seconds between harm, from and to.
        run_ids: The runs to start, instead of so many.
        patience: Seconds after which what is not finished is given to the judge as it is.
        report: Told how far it is, in each round.
    """
    began = time.monotonic()
    settings = direct or fleet_settings[0]
    with connect(settings, OFFICE) as office, Fleet(*fleet_settings) as fleet:
        note_writers(settings.conninfo, settings.schema)
        crowd = Crowd(office, settings)
        crowd.start(run_ids if run_ids is not None else crowd.new_ids(kind, runs))

        def goes_on(left: bool) -> bool:
            seconds = time.monotonic() - began
            report(
                f"{fleet.deaths} deaths, {crowd.ended} of {len(crowd.run_ids)} runs ended, {seconds:.0f} s"
            )
            return left and seconds < patience

        more, looked = True, time.monotonic()
        while goes_on(more):
            time.sleep(random.uniform(*pause))
            if time.monotonic() - looked > _BETWEEN_LOOKS:
                if crowd.look_after_them() < runs // 2:
                    crowd.start(crowd.new_ids(kind, runs // 2))
                looked = time.monotonic()
            more = harm(fleet)
            fleet.thaw()
            fleet.fill_up()
        while goes_on(bool(crowd.look_after_them() or fleet.thaw())):
            fleet.fill_up()
            time.sleep(0.05)
        fleet.send_home()
        verdicts = judge(office, crowd.run_ids, settings)
        verdicts.faults += fleet.faults
        return Outcome(verdicts, fleet.deaths, fleet.freezes, time.monotonic() - began)
