"""Chaos: real processes on a real PostgreSQL, harmed at random, and judged by the log and the world alone.

The short form: `uv run pytest -m chaos`. The long one: `uv run python -m tests.chaos`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from perdure.infrastructure.postgres.embedded import EmbeddedPostgres
from tests.chaos import harm
from tests.chaos.program import HOGS, Settings
from tests.chaos.storm import Outcome, storm
from tests.support.proxy import Proxy

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(240)]


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return Settings(database_url, "perdure", tmp_path / "effects")


def all_is_well(outcome: Outcome) -> None:
    assert outcome.verdicts.faults == []
    assert outcome.verdicts.duplicated == 0
    assert outcome.verdicts.seen == outcome.verdicts.expected


def killed(settings: Settings, **options: object) -> Outcome:
    return storm([settings] * 3, harm.kills(25), runs=20, pause=(0.02, 0.1), **options)  # type: ignore[arg-type]


def frozen(settings: Settings) -> Outcome:
    return storm([settings] * 3, harm.freezes(6, 1.6), runs=16, patience=60)


def hogged(settings: Settings, *hogs: str) -> Outcome:
    return storm([settings] * 2, harm.none, runs=0, run_ids=[f"{hog}:1" for hog in hogs], patience=40)


def clocks_apart(settings: Settings) -> Outcome:
    fleet = [settings, replace(settings, clock_offset=3600.0), replace(settings, clock_offset=-3600.0)]
    return storm(fleet, harm.none, runs=12, patience=30)


def test_workers_are_killed_at_random_moments(settings: Settings) -> None:
    """SIGKILL again and again: every run ends as if undisturbed, and no effect happens twice."""
    outcome = killed(settings)
    all_is_well(outcome)
    assert outcome.deaths >= 25
    assert outcome.verdicts.takeovers > 0


def test_workers_are_frozen_past_their_lease_and_wake_up(settings: Settings) -> None:
    """Whoever wakes up late writes nothing and starts nothing: another worker has the run."""
    outcome = frozen(settings)
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
    with Proxy(settings.conninfo) as proxy:
        behind = replace(settings, conninfo=proxy.conninfo)
        outcome = storm([behind] * 2, harm.cuts(proxy, 40), runs=16, direct=settings)
        assert len(proxy.cuts) >= 10
    all_is_well(outcome)


def test_the_server_crashes_under_load(settings: Settings, server_directory: Path) -> None:
    """PostgreSQL is stopped without a checkpoint and comes back: what was recorded is there."""
    with EmbeddedPostgres.start(server_directory) as server:
        there = replace(settings, conninfo=server.conninfo)
        crashes = harm.crashes_of_the_server(server_directory, 3)
        outcome = storm([there] * 2, crashes, runs=16, pause=(0.5, 1.0))
    all_is_well(outcome)


def test_a_worker_whose_clock_is_an_hour_off_neither_steals_nor_loses(settings: Settings) -> None:
    """One clock an hour ahead, one an hour behind: no run changes hands."""
    outcome = clocks_apart(settings)
    all_is_well(outcome)
    assert outcome.verdicts.takeovers == 0


@pytest.mark.parametrize(
    ("flaw", "scenario"),
    [
        ("no_claim_event", killed),
        ("renewal_on_the_loop", lambda settings: hogged(settings, "block_the_loop")),
        ("clock_of_the_worker", clocks_apart),
    ],
)
def test_a_broken_library_is_noticed(
    settings: Settings, flaw: str, scenario: Callable[[Settings], Outcome]
) -> None:
    """The same storms with the library broken on purpose: the judge minds, or a run changes hands."""
    outcome = scenario(replace(settings, flaws=(flaw,)))
    calm = scenario is not killed
    assert outcome.verdicts.faults or (calm and outcome.verdicts.takeovers > 0), f"{flaw} went unnoticed"


def test_each_hog_is_tried() -> None:
    """No bad way of taking long is left out."""
    assert set(HOGS) == {"sleep_long", "block_the_loop", "hold_the_gil"}
