"""What the demo shows is readable at any width, says what broke, and gives commands that can be copied."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from perdure.domain.events import RunEscalated
from perdure.infrastructure.cli.demo.play import Played
from perdure.infrastructure.cli.demo.report import show
from perdure.infrastructure.postgres.address import Address
from tests.demo.killed_runs import compared, refund, rescued

GIVEN = Address("host=db.example user=ann password=s3cret dbname=shop", "given")
FROM_ENVIRONMENT = Address("host=db.example dbname=shop", "PERDURE_DATABASE_URL")


def played(*, address: Address = FROM_ENVIRONMENT, broken: bool = False, trouble: str = "") -> Played:
    effects = [refund(), refund()] if broken else [refund()]
    scenarios = [compared(effects=effects).model_copy(update={"kill_point": point}) for point in "abcd"]
    return Played(scenarios, list(rescued()), address, [trouble] if trouble else [])


def shown(what: Played, width: int = 80) -> str:
    printed = io.StringIO()
    show(Console(file=printed, width=width, highlight=False), what, 12.3)
    return printed.getvalue()


@pytest.mark.parametrize("width", [48, 60, 80, 120])
def test_nothing_is_cut_off_and_nothing_is_wider_than_the_terminal(width: int) -> None:
    """Tables fold; only commands, which are to be copied, may be longer than a line."""
    text = shown(played(), width)
    lines = [line for line in text.splitlines() if "perdure" not in line]
    assert max(len(line.rstrip()) for line in lines) <= width
    assert "…" not in text
    words = "".join(text.split())
    for fact in ("escalate_if_", "unknown", "1/1", "same", "EscalationResolved", "everypromisewaskept"):
        assert fact in words


def test_the_story_is_the_log_event_by_event() -> None:
    """Each event of the run has its line, with the tool's name instead of a call's id."""
    text = shown(played(), 120)
    for event in rescued():
        assert f"{event.seq} " in text
        assert type(event).__name__ in text
    assert "refund, attempt 1: crash" in text
    assert "call_1_2" not in text


def test_what_broke_is_told() -> None:
    """A broken promise stands in the table, below it in words, and in the last line."""
    text = shown(played(broken=True, trouble="the worker ended with 3"), 120)
    assert "2/1 !" in text
    assert "broken: effect-done:refund:" in text
    assert "broken: the worker ended with 3" in text
    assert "faults were found" in text
    assert "every promise was kept" not in text


def test_the_commands_to_look_further_fit_the_run_and_the_database() -> None:
    """They name the run, the version at which a person is asked, the schema, and a given database."""
    asked = next(event.seq for event in rescued() if isinstance(event, RunEscalated))
    text = shown(played(address=GIVEN))
    assert "perdure show effect-done:refund --schema perdure_demo --database-url" in text
    assert f"perdure replay effect-done:refund --at {asked} --schema perdure_demo" in text
    assert "host=db.example" in text
    assert "s3cret" not in text
    assert "PGPASSWORD" in text


def test_a_database_of_the_environment_is_found_again_without_an_option() -> None:
    """What the environment names, the commands find there as well."""
    assert "--database-url" not in shown(played())
