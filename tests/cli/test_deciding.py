"""Decisions are recorded as they were meant, once, and what follows is told."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable

import psycopg
import pytest

from perdure import AgentRuns, RunStatus
from perdure.domain.events import CancelRequested, EscalationResolved
from tests.cli.conftest import Cli

WHO = ("--by", "ann@acme", "--reason", "seen in the ledger")


def test_the_result_is_recorded_as_json_or_as_text(cli: Cli, connect: Callable[..., AgentRuns]) -> None:
    """What is JSON is taken as JSON, and all else as the text that it is."""
    forms = {
        '{"receipt": 7}': {"receipt": 7},
        '"RF-1"': "RF-1",
        "RF-1": "RF-1",
        "77": 77,
        "null": None,
        "": "",
        "NaN": "NaN",
        "1e999": "1e999",
        "{broken": "{broken",
        "schön ☕": "schön ☕",
    }
    runs = connect(payments=len(forms))
    runs.start("payer", "Pay", run_id="many")
    runs.advance("many")

    for call, form in zip(runs.state("many").in_doubt, forms, strict=True):
        told = cli("resolve", "many", call.call_id, "--succeeded", form, *WHO)
        assert told.code == 0, told.err

    contents = [call.content for call in runs.state("many").calls.values()]
    assert [content.value() for content in contents if content is not None] == list(forms.values())


def test_what_was_recorded_and_what_follows_is_told(cli: Cli, runs: AgentRuns) -> None:
    """Both decisions are confirmed; the first leaves one open, and the second lets a worker go on."""
    first, second = runs.state("order-77").in_doubt

    told = cli("resolve", "order-77", first.call_id, "--succeeded", '"RF-1"', *WHO).out
    assert told.splitlines() == [
        f"Recorded: ann@acme decided 'succeeded' with result \"RF-1\" about call {first.call_id} "
        "(seen in the ledger).",
        f"The run still waits for: {second.call_id}.",
    ]
    told = cli("resolve", "order-77", second.call_id, "--failed", "no such order", *WHO).out
    assert told.splitlines()[1] == "The run is running: a worker goes on with it."
    assert runs.advance("order-77").status is RunStatus.COMPLETED


def test_json_of_a_decision_has_the_decision_and_the_run(cli: Cli, runs: AgentRuns) -> None:
    """Programs read what was recorded, and the run after it."""
    first, second = runs.state("order-77").in_doubt

    told = cli("resolve", "order-77", first.call_id, "--rerun", *WHO, "--json").data

    assert told["recorded"] == {
        "call_id": first.call_id,
        "resolution": "rerun",
        "by": "ann@acme",
        "reason": "seen in the ledger",
    }
    assert told["run"]["escalation"]["calls"] == [second.call_id]
    assert told["run"]["decisions"][first.call_id]["by"] == "ann@acme"


def test_the_beginning_of_a_call_id_counts_numbers_as_a_whole(
    cli: Cli, connect: Callable[..., AgentRuns]
) -> None:
    """`call_1` is no beginning of `call_11_1`, and `call_11_1` none of `call_11_10`."""
    runs = connect(steps=10, payments=11)
    runs.start("payer", "Pay", run_id="eleven")
    runs.advance("eleven")
    version = runs.state("eleven").version

    assert cli("resolve", "eleven", "call_1", "--rerun", *WHO).code == 1
    assert cli("resolve", "eleven", "call_1_1", "--rerun", *WHO).code == 1
    assert runs.state("eleven").version == version
    told = cli("resolve", "eleven", "call_11_1", "--rerun", *WHO)
    assert told.code == 0, told.err
    resolved = runs.events("eleven")[-1]
    assert isinstance(resolved, EscalationResolved)
    assert (resolved.call_id or "").startswith("call_11_1_")


def test_a_part_of_the_last_part_is_enough(cli: Cli, runs: AgentRuns) -> None:
    """The hash at the end may be cut anywhere."""
    first, _ = runs.state("order-77").in_doubt

    assert cli("resolve", "order-77", first.call_id[:-3], "--rerun", *WHO).code == 0


def test_a_second_decision_shows_the_first_though_the_run_went_on(cli: Cli, runs: AgentRuns) -> None:
    """Also by the beginning of the id, and also when the call is of an earlier step."""
    for call in runs.state("order-77").in_doubt:
        cli("resolve", "order-77", call.call_id, "--failed", "never sent", *WHO)
    runs.advance("order-77")

    told = cli("resolve", "order-77", "call_1_1", "--rerun", "--by", "bob", "--reason", "not sure")

    assert told.code == 1
    assert "ann@acme decided 'failed'" in told.err


def test_whoever_is_at_the_keyboard_decides_unless_said_otherwise(cli: Cli, runs: AgentRuns) -> None:
    """Without `--by` it is the user of the machine."""
    cli("resolve", "order-77", "--abandon", "--reason", "not needed")

    resolved = runs.events("order-77")[-2]
    assert isinstance(resolved, EscalationResolved)
    assert resolved.by == f"{getpass.getuser()}@{socket.gethostname()}"


def test_a_user_without_a_name_says_who_decides(
    cli: Cli, runs: AgentRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container without an entry for the user, looking works, and deciding needs `--by`."""

    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 54321")

    monkeypatch.setattr(getpass, "getuser", nameless)

    assert cli("show", "order-77").code == 0
    refused = cli("cancel", "order-77", "--reason", "x")
    assert refused.code == 1
    assert "say who decides with --by" in refused.err
    assert cli("cancel", "order-77", *WHO).code == 0


@pytest.mark.parametrize("blank", [("--by", " ", "--reason", "x"), ("--by", "ann", "--reason", "")])
def test_a_blank_name_or_reason_is_refused(cli: Cli, runs: AgentRuns, blank: tuple[str, ...]) -> None:
    """Nothing is recorded without both."""
    version = runs.state("order-77").version

    assert cli("cancel", "order-77", *blank).code == 1
    assert cli("resolve", "order-77", "--abandon", *blank).code == 1
    assert runs.state("order-77").version == version


def test_a_cancelled_run_says_what_stays_in_doubt(cli: Cli, runs: AgentRuns) -> None:
    """It stops at once when nobody drives it, and its payments stay on the list."""
    first, second = runs.state("order-77").in_doubt

    told = cli("cancel", "order-77", *WHO).out.splitlines()

    assert told[0] == "Recorded: ann@acme asked run order-77 to stop (seen in the ledger)."
    assert told[1] == f"The run is cancelled; still in doubt: {first.call_id}, {second.call_id}."


def test_a_run_that_was_asked_to_stop_before_is_not_said_to_be_asked_anew(
    cli: Cli, connect: Callable[..., AgentRuns], database_url: str
) -> None:
    """While its worker settles what is in flight, a second request records nothing, and says so."""
    runs = connect()
    runs.start("payer", "Pay", run_id="held")
    lease = runs.ports.leases.claim("held", "worker-1", ttl=60, above=0)

    told = cli("cancel", "held", *WHO).out.splitlines()
    assert told[1] == "Its worker worker-1 settles what is in flight, and then stops the run."
    again = cli("cancel", "held", "--by", "bob", "--reason", "me too")
    assert again.out.startswith("Nothing was recorded: ann@acme asked run held to stop before")
    assert cli("cancel", "held", "--by", "bob", "--reason", "x", "--json").data["recorded"] is None

    assert [type(event) for event in runs.events("held")].count(CancelRequested) == 1
    runs.ports.leases.release(lease)


def test_one_resolution_is_wanted(cli: Cli, runs: AgentRuns) -> None:
    """None is wrong usage and two are; both name what can be said."""
    for given in ((), ("--rerun", "--resume")):
        told = cli("resolve", "order-77", "call_1_1", *given, "--reason", "x")
        assert told.code == 2
        assert "--succeeded RESULT" in told.err


def test_a_decision_about_the_run_needs_one_that_waits(cli: Cli, runs: AgentRuns) -> None:
    """A run that waits for its calls is not resumed as a whole."""
    told = cli("resolve", "order-77", "--resume", "--reason", "x")

    assert told.code == 1
    assert "about each of its calls" in told.err


def test_a_decision_while_the_database_goes_away_is_one_line(
    cli: Cli, runs: AgentRuns, database_url: str
) -> None:
    """A log that cannot be written is told without a traceback."""
    with psycopg.connect(database_url) as connection:
        connection.execute("ALTER TABLE perdure.perdure_events RENAME COLUMN topic TO subject")

    told = cli("cancel", "order-77", *WHO)

    assert told.code == 1
    assert len(told.err.splitlines()) == 1
    assert told.err.startswith("perdure: ")
