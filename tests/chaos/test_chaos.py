"""Chaos: real processes on a real PostgreSQL, harmed at random, and judged by what is left alone.

The short form: `uv run pytest -m chaos`. The long one: `uv run python -m tests.chaos`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos import harm, scenarios
from tests.chaos.disk import CannotMount
from tests.chaos.program import HOGS, Settings
from tests.chaos.scenarios import Size
from tests.chaos.storm import Outcome, storm

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(240)]


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return Settings(database_url, "perdure", tmp_path)


def all_is_well(outcome: Outcome) -> None:
    assert outcome.verdicts.faults == []
    assert outcome.verdicts.duplicated == 0
    assert outcome.verdicts.seen == outcome.verdicts.expected


def hogged(settings: Settings, *hogs: str) -> Outcome:
    return storm([settings] * 2, harm.none, run_ids=[f"{hog}:1" for hog in hogs], patience=40)


def clocks_apart(settings: Settings) -> Outcome:
    # So many runs for so long that each worker has some.
    few = replace(settings, concurrency=3)
    fleet = [few, replace(few, clock_offset=3600.0), replace(few, clock_offset=-3600.0)]
    return storm(fleet, harm.none, runs=9, kind="sleep_long", patience=30)


def test_workers_are_killed_at_random_moments(settings: Settings) -> None:
    """SIGKILL again and again: every run ends as if undisturbed, and no effect happens twice."""
    outcome = scenarios.killed(settings, Size(harm=25, workers=3, runs=20))
    all_is_well(outcome)
    assert outcome.deaths >= 25
    assert outcome.verdicts.takeovers > 0


def test_workers_are_frozen_past_their_lease_and_wake_up(settings: Settings) -> None:
    """Whoever wakes up late writes nothing and starts nothing: another worker has the run."""
    outcome = scenarios.frozen(settings, Size(harm=5, workers=3, runs=16))
    all_is_well(outcome)
    assert outcome.verdicts.takeovers > 0


def test_what_a_sleeper_brings_back_is_refused(settings: Settings) -> None:
    """Its tools ended while it was frozen and another worker runs them again: it writes no result."""
    outcome = scenarios.frozen_in_long_tools(settings, Size(harm=2, workers=2, runs=4))
    all_is_well(outcome)
    assert outcome.verdicts.takeovers > 0


def test_long_tools_and_a_blocked_loop_keep_their_lease(settings: Settings) -> None:
    """A tool that sleeps for three leases, and one that blocks the event loop: one writer throughout."""
    outcome = hogged(settings, "sleep_long", "block_the_loop")
    all_is_well(outcome)
    assert outcome.verdicts.takeovers == 0


def test_a_tool_that_holds_the_interpreter_acts_once(settings: Settings) -> None:
    """Held in C, not even the renewal thread runs: the run may be taken over, but the effect happens once."""
    all_is_well(hogged(settings, "hold_the_gil"))


def test_connections_are_cut_in_both_directions_and_between_commit_and_answer(settings: Settings) -> None:
    """Whatever is cut when, nothing recorded is lost and nothing is written twice."""
    all_is_well(scenarios.cut_off(settings, Size(harm=15, workers=2, runs=16)))


def test_the_network_swallows_packets_and_closes_nothing(settings: Settings) -> None:
    """Whoever gets no answers any more is overtaken, and does no harm when they come at last."""
    outcome = scenarios.stalled(settings, Size(harm=4, workers=3, runs=16))
    all_is_well(outcome)
    assert outcome.verdicts.takeovers > 0


def test_the_server_crashes_under_load(settings: Settings, server_directory: Path) -> None:
    """PostgreSQL is stopped without a checkpoint and comes back: what was recorded is there."""
    play = scenarios.crashed_server(server_directory)
    all_is_well(play(settings, Size(harm=3, workers=2, runs=16)))


def test_the_disk_is_full_under_load(settings: Settings, server_directory: Path) -> None:
    """The server can write nothing until there is space again: nothing is lost, and nothing happens twice."""
    play = scenarios.full_disk(server_directory, scenarios.on_a_small_disk)
    try:
        outcome = play(settings, Size(harm=2, workers=3, runs=16))
    except CannotMount as error:
        pytest.skip(f"no small disk here, only limited files are tried: {error}")
    all_is_well(outcome)


def test_files_of_the_server_cannot_grow(settings: Settings, server_directory: Path) -> None:
    """Likewise without a disk of one's own, which takes rights that not everybody has."""
    play = scenarios.full_disk(server_directory, scenarios.with_limited_files)
    all_is_well(play(settings, Size(harm=2, workers=3, runs=16)))


def test_a_worker_whose_clock_is_an_hour_off_neither_steals_nor_loses(settings: Settings) -> None:
    """One clock an hour ahead, one an hour behind: no run changes hands."""
    outcome = clocks_apart(settings)
    all_is_well(outcome)
    assert outcome.verdicts.takeovers == 0


# -- the same storms with the library broken on purpose ------------------------------------------------


def test_it_is_noticed_when_claims_leave_no_event(settings: Settings) -> None:
    """Whoever comes later takes calls of the dead for its own."""
    broken = replace(settings, flaws=("no_claim_event",))
    outcome = scenarios.killed(broken, Size(harm=25, workers=3, runs=20, patience=30))
    assert outcome.verdicts.faults


def test_it_is_noticed_when_a_refused_append_goes_on_top_of_anothers_claim(settings: Settings) -> None:
    """A sleeper's result lands in the epoch of another worker."""
    broken = replace(settings, flaws=("claims_of_others_are_ignored",))
    outcome = scenarios.frozen_in_long_tools(broken, Size(harm=2, workers=2, runs=4, patience=30))
    assert [fault for fault in outcome.verdicts.faults if " is by worker " in fault], outcome


def test_it_is_noticed_when_leases_are_renewed_by_the_event_loop(settings: Settings) -> None:
    """A blocked loop loses its run."""
    outcome = hogged(replace(settings, flaws=("renewal_on_the_loop",)), "block_the_loop")
    assert outcome.verdicts.faults or outcome.verdicts.takeovers


def test_it_is_noticed_when_the_clock_of_the_worker_counts(settings: Settings) -> None:
    """Runs change hands between clocks that differ."""
    outcome = clocks_apart(replace(settings, flaws=("clock_of_the_worker",)))
    assert outcome.verdicts.faults or outcome.verdicts.takeovers


def test_each_hog_is_tried() -> None:
    """No bad way of taking long is left out."""
    assert set(HOGS) == {"sleep_long", "block_the_loop", "hold_the_gil"}
