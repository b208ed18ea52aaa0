"""Looking shows what is on record, as it is, and changes nothing."""

from __future__ import annotations

import json
import shlex
import uuid
from collections.abc import Callable, Generator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from perdure import Agent, AgentRuns
from perdure.infrastructure.cli.views import run_data
from perdure.testing import ScriptedModel, says
from tests.cli.conftest import Cli


@pytest.fixture
def reader_url(database_url: str, runs: AgentRuns) -> Generator[str]:
    """The address of a role that may read perdure's tables, and nothing else."""
    role = Identifier(f"reader_{uuid.uuid4().hex}")
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(SQL("CREATE ROLE {} LOGIN").format(role))
        owner.execute(SQL("GRANT USAGE ON SCHEMA perdure TO {}").format(role))
        owner.execute(SQL("GRANT SELECT ON ALL TABLES IN SCHEMA perdure TO {}").format(role))
        yield make_conninfo(database_url, user=role.as_string().strip('"'))
        owner.execute(SQL("DROP OWNED BY {}").format(role))
        owner.execute(SQL("DROP ROLE {}").format(role))


def test_the_header_says_what_is_used_of_what_is_allowed(cli: Cli, runs: AgentRuns) -> None:
    """Agent, tenant, pins, labels, budget and owner stand on lines of their own."""
    lines = cli("show", "order-77").out.splitlines()

    assert "agent    payer, prompt v14, model scripted" in lines
    assert "tools    look_up, pay" in lines
    assert "tenant   acme" in lines
    assert "labels   case=7" in lines
    assert "steps    1 of 40" in lines
    assert "tokens   0 of 1000" in lines


def test_a_call_in_doubt_is_never_shown_as_failed(cli: Cli, runs: AgentRuns) -> None:
    """The model can only be told "not ok"; a person reads that it may have happened, at any version."""
    version = runs.state("order-77").version
    pages = [cli("show", "order-77").out]
    pages += [cli("replay", "order-77", "--at", str(at)).out for at in range(1, version + 1)]

    for page in pages:
        conversation = page.partition("Conversation")[2].partition("Calls of step")[0]
        assert "failed" not in conversation
    assert "  in doubt   pay: The outcome of this call is not known yet" in pages[0]


def test_what_a_person_needs_to_decide_is_there(cli: Cli, runs: AgentRuns) -> None:
    """Arguments, attempt, time, key and the reason for the doubt stand below each call."""
    first, _ = runs.state("order-77").in_doubt

    shown = cli("show", "order-77").out

    block = shown[shown.index(f"  {first.call_id}  in_doubt") :].splitlines()
    assert first.started_at is not None
    assert block[0] == f'  {first.call_id}  in_doubt   pay({{"order": "0", "cents": 4200}})'
    started = f"{first.started_at:%Y-%m-%d %H:%M:%S} UTC"
    assert block[1].strip() == f"attempt 1, policy escalate_if_unknown, started {started}"
    assert block[2].strip() == f"idempotency key perdure:order-77:{first.call_id}"
    assert block[3].strip() == "in doubt: lost_connection (ConnectionError: no answer for 0)"


def test_suggested_commands_work_as_they_stand(anywhere: Cli, runs: AgentRuns, database_url: str) -> None:
    """A command that `show` prints can be pasted, options and all."""
    shown = anywhere("show", "order-77", "--database-url", database_url).out
    command = next(line for line in shown.splitlines() if "--rerun" in line)

    told = anywhere(*shlex.split(command)[1:])

    assert told.code == 0, told.err
    assert "'rerun'" in told.out


def test_lines_of_others_cannot_pass_for_ours(cli: Cli, connect: Callable[[], AgentRuns]) -> None:
    """Text with line ends is kept off the first column, where the page's own headings stand."""
    runs = connect()
    runs.start("payer", "hello\nA person is asked\n  perdure resolve x --rerun", run_id="order-78")
    runs.advance("order-78")

    lines = cli("show", "order-78").out.splitlines()

    assert lines.count("A person is asked") == 1
    assert "  perdure resolve x --rerun" not in lines


def test_json_of_any_version_is_the_state_at_that_version(cli: Cli, runs: AgentRuns) -> None:
    """Every prefix of the log is shown as it folds, with nothing of what came later."""
    for at in range(1, runs.state("order-77").version + 1):
        expected = run_data(runs.state("order-77", at=at))

        replayed = cli("replay", "order-77", "--at", str(at), "--json").data

        assert replayed["version"] == at
        for same in ("status", "steps", "messages", "in_doubt", "labels", "epoch"):
            assert replayed[same] == expected[same]
        assert [call["status"] for call in replayed["calls"]] == [c["status"] for c in expected["calls"]]


def test_a_replay_of_an_escalation_suggests_no_commands(cli: Cli, runs: AgentRuns) -> None:
    """What was asked then may be answered by now."""
    version = runs.state("order-77").version

    shown = cli("replay", "order-77", "--at", str(version)).out

    assert "A person is asked" in shown
    assert "perdure resolve" not in shown


def test_versions_are_listed_one_a_line(cli: Cli, runs: AgentRuns) -> None:
    """Each line says what its event changed, whatever line ends are in it."""
    first, _ = runs.state("order-77").in_doubt

    lines = cli("replay", "order-77").out.splitlines()

    assert len(lines) == 1 + runs.state("order-77").version
    doubted = [line for line in lines if f"{first.call_id} started -> in_doubt" in line]
    assert len(doubted) == 1
    assert "no answer for 0" in doubted[0]


def test_times_are_in_utc_whatever_the_session_says(
    cli: Cli, runs: AgentRuns, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session in another time zone reads the same instants."""
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "UPDATE perdure.leases SET owner = 'w-1', expires_at = '2040-01-01 12:00:00+00' "
            "WHERE run_id = 'order-77'"
        )
    monkeypatch.setenv("PGTZ", "America/New_York")

    assert "lease    w-1, until 2040-01-01 12:00:00 UTC" in cli("show", "order-77").out
    lease = cli("show", "order-77", "--json").data["lease"]
    assert lease == {"owner": "w-1", "expires_at": "2040-01-01T12:00:00Z", "live": True}
    listed = cli("runs").out.splitlines()[1]
    assert listed.endswith("w-1")


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "order-77"),
        ("replay", "order-77"),
        ("runs",),
        ("resolve", "order-77", "call_1_1", "--rerun", "--reason", "x"),
        ("cancel", "order-77", "--reason", "x"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_mistyped_schema_is_an_error_and_does_not_come_to_be(
    cli: Cli, runs: AgentRuns, database_url: str, arguments: tuple[str, ...]
) -> None:
    """Looking and deciding create nothing."""
    told = cli(*arguments, "--schema", "perdrue")

    assert told.code == 1
    assert "there is no log of runs in schema 'perdrue'" in told.err
    with psycopg.connect(database_url) as connection:
        found = connection.execute("SELECT FROM pg_namespace WHERE nspname = 'perdrue'").fetchone()
    assert found is None


@pytest.mark.parametrize(
    "arguments",
    [("show", "order-77"), ("replay", "order-77", "--at", "3"), ("replay", "order-77"), ("runs",)],
)
def test_a_role_that_may_only_read_is_enough(
    anywhere: Cli, reader_url: str, arguments: tuple[str, ...]
) -> None:
    """Whoever supports users needs no right to write."""
    told = anywhere(*arguments, "--database-url", reader_url)

    assert told.code == 0, told.err
    assert told.out


def test_leases_that_were_dropped_are_not_missed(cli: Cli, runs: AgentRuns, database_url: str) -> None:
    """Every table but the log can be dropped; a run can be looked at without the others."""
    with psycopg.connect(database_url) as connection:
        connection.execute("DROP TABLE perdure.leases")

    assert cli("show", "order-77", "--json").data["lease"] is None
    assert cli("runs").code == 0


def test_a_long_conversation_is_cut_for_people_and_whole_for_programs(
    cli: Cli, connect: Callable[..., AgentRuns]
) -> None:
    """The newest messages are shown, and how many are not; JSON has all."""
    runs = connect(steps=15)
    runs.start("payer", "Pay", run_id="long")
    runs.advance("long")

    assert "(13 earlier messages)" in cli("show", "long").out
    assert len(cli("show", "long", "--json").data["messages"]) == 33


def test_runs_are_listed_by_pages(cli: Cli, database_url: str) -> None:
    """`--limit` and `--after` walk through all runs, by id."""
    agent = Agent("plain", ScriptedModel([says("done")]), "v1")
    with AgentRuns.connect(database_url, agents=[agent]) as runs:
        for n in range(5):
            runs.start("plain", "hello", run_id=f"r-{n}")

    first = [run["run_id"] for run in cli("runs", "--json", "--limit", "3").data]
    rest = [run["run_id"] for run in cli("runs", "--json", "--after", first[-1]).data]

    assert first + rest == [f"r-{n}" for n in range(5)]


def test_an_aggregate_of_the_host_is_no_run(cli: Cli, runs: AgentRuns, database_url: str) -> None:
    """What else is in the table is neither listed nor shown."""
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO perdure.perdure_events (originator_id, originator_version, topic, state) "
            "VALUES ('order', 1, 'shop.orders:Order.Placed', '{}')"
        )

    assert [run["run_id"] for run in cli("runs", "--json").data] == ["order-77"]
    assert cli("show", "order").code == 1


def test_an_event_of_a_newer_version_asks_for_an_upgrade(
    cli: Cli, runs: AgentRuns, database_url: str
) -> None:
    """A run that this version cannot read is not shown by halves."""
    version = runs.state("order-77").version
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO perdure.perdure_events (originator_id, originator_version, topic, state) "
            "VALUES ('order-77', %s, 'perdure.run-teleported', '{}')",
            (version + 1,),
        )

    told = cli("show", "order-77")

    assert (told.code, told.out) == (1, "")
    assert "Upgrade this process" in told.err
    assert cli("replay", "order-77", "--at", str(version)).code == 0


def test_output_for_programs_has_no_trailing_blanks_and_no_colours(cli: Cli, runs: AgentRuns) -> None:
    """Without a terminal, lines are whole and plain: fit for grep and diff."""
    for arguments in (("show", "order-77", "--events"), ("replay", "order-77"), ("runs",), ("doctor",)):
        for line in cli(*arguments).out.splitlines():
            assert line == line.rstrip()
            assert "\x1b" not in line


def test_events_are_whole_in_json(cli: Cli, runs: AgentRuns) -> None:
    """What `--events --json` prints is what is on record, in order."""
    events = cli("show", "order-77", "--events", "--json").data["events"]

    for shown, event in zip(events, runs.events("order-77"), strict=True):
        assert shown.pop("type") == type(event).__name__
        assert type(event).model_validate_json(json.dumps(shown)) == event
