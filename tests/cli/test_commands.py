"""The command line shows, decides and diagnoses; its words are for people and its JSON for programs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator

import psycopg
import pytest

from perdure import Agent, AgentRuns, RunStatus, ToolRegistry
from perdure.testing import ScriptedModel, asks, says, together
from tests.support.program import command, environment, perdure

NASTY = "\x1b[31mred\x1b[0m [bold]markup[/] nul \x00 ☕"


@pytest.fixture
def runs(database_url: str) -> Generator[AgentRuns]:
    """A run that waits for a decision about two calls, and one that is done."""
    tools = ToolRegistry()

    @tools.tool
    def pay(what: str) -> str:
        """Pay."""
        raise ConnectionError(f"no answer for {what}")

    script = [together(asks("pay", {"what": "a"}), asks("pay", {"what": NASTY})), says(f"done {NASTY}")]
    agents = [
        Agent("payer", model=ScriptedModel(script), prompt_version="v1", tools=tools),
        Agent("plain", model=ScriptedModel([says("done")]), prompt_version="v1"),
    ]
    with AgentRuns.connect(database_url, agents=agents) as runs:
        runs.start("payer", NASTY, run_id="waits", tenant="acme", labels={"case": "7"})
        runs.advance("waits")
        runs.start("plain", "hello", run_id="done")
        runs.advance("done")
        yield runs


def on(runs: AgentRuns, *arguments: str) -> subprocess.CompletedProcess[str]:
    assert runs.address is not None
    return perdure(*arguments, "--database-url", runs.address.conninfo)


def test_show_says_where_a_run_stands_and_what_is_asked(runs: AgentRuns) -> None:
    """Status, calls in doubt, and the very commands to decide them."""
    shown = on(runs, "show", "waits")
    assert shown.returncode == 0, shown.stderr
    for call in runs.state("waits").in_doubt:
        assert f"perdure resolve waits {call.call_id} --succeeded" in shown.stdout
    assert "escalated (calls_in_doubt)" in shown.stdout
    assert "ConnectionError: no answer for a" in shown.stdout


def test_what_a_terminal_would_obey_is_shown_and_not_carried_out(runs: AgentRuns) -> None:
    """Escape sequences become visible, markup stays as it was written, and NUL too is shown."""
    for arguments in (("show", "waits", "--events"), ("replay", "waits"), ("replay", "waits", "--at", "3")):
        shown = on(runs, *arguments).stdout
        assert "\x1b" not in shown
        assert "\x00" not in shown
        assert "\\x1b[31mred" in shown
        assert "[bold]markup[/]" in shown


def test_json_is_all_there_is_and_has_its_shape(runs: AgentRuns) -> None:
    """Each command that prints data prints JSON on request, faithful to the last character."""
    shown = json.loads(on(runs, "show", "waits", "--events", "--json").stdout)
    assert (shown["status"], shown["tenant"], shown["labels"]) == ("escalated", "acme", {"case": "7"})
    assert shown["messages"][0]["text"] == NASTY
    assert [event["seq"] for event in shown["events"]] == list(range(1, shown["version"] + 1))
    assert shown["in_doubt"] == shown["escalation"]["calls"]
    replayed = json.loads(on(runs, "replay", "waits", "--at", "3", "--json").stdout)
    assert (replayed["version"], replayed["status"]) == (3, "running")
    steps = json.loads(on(runs, "replay", "waits", "--json").stdout)
    assert steps[-1]["status"] == "escalated"
    listed = json.loads(on(runs, "runs", "--json").stdout)
    assert {run["run_id"]: run["status"] for run in listed} == {"waits": "escalated", "done": "completed"}


def test_a_decision_is_recorded_once_with_name_and_reason(runs: AgentRuns) -> None:
    """Resolved by the beginning of the call's id; a second decision shows the first."""
    first, second = runs.state("waits").in_doubt
    told = on(
        runs,
        "resolve",
        "waits",
        "call_1_1",
        "--succeeded",
        '{"receipt": 7}',
        "--by",
        "ann",
        "--reason",
        "seen",
    )
    assert told.returncode == 0, told.stderr
    assert second.call_id in told.stdout
    again = on(runs, "resolve", "waits", first.call_id, "--rerun", "--by", "bob", "--reason", "x")
    assert again.returncode == 1
    assert "ann decided 'succeeded'" in again.stderr
    failed = on(
        runs, "resolve", "waits", second.call_id, "--failed", "never sent", "--by", "ann", "--reason", "y"
    )
    assert failed.returncode == 0, failed.stderr
    state = runs.advance("waits")
    assert state.status is RunStatus.COMPLETED


def test_an_ambiguous_beginning_of_a_call_id_is_refused(runs: AgentRuns) -> None:
    """Two calls begin like that: nothing is recorded, and both are named."""
    version = runs.state("waits").version
    told = on(runs, "resolve", "waits", "call_1", "--rerun", "--reason", "x")
    assert told.returncode == 1
    assert all(call.call_id in told.stderr for call in runs.state("waits").in_doubt)
    assert runs.state("waits").version == version


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("show", "nobody"), 1),
        (("replay", "waits", "--at", "99"), 1),
        (("resolve", "waits", "call_1_1", "--reason", "x"), 2),
        (("resolve", "waits", "call_1_1", "--rerun", "--abandon", "--reason", "x"), 2),
        (("resolve", "waits", "call_1_1", "--rerun"), 2),
        (("resolve", "done", "--resume", "--reason", "x"), 1),
        (("cancel", "done", "--reason", "x"), 1),
        (("nonsense",), 2),
        (("worker", "no_such_module:runs"), 1),
    ],
)
def test_exit_codes_are_honest(runs: AgentRuns, arguments: tuple[str, ...], code: int) -> None:
    """1 for what was refused, 2 for wrong usage, and never a traceback."""
    told = perdure(*arguments) if arguments[0] in ("nonsense", "worker") else on(runs, *arguments)
    assert told.returncode == code, told.stderr
    assert told.stderr
    assert "Traceback" not in told.stderr


def test_a_run_is_cancelled_with_its_calls_left_on_the_list(runs: AgentRuns) -> None:
    """Nobody drives it, so it stops at once; what is in doubt stays so until it is put on record."""
    told = on(runs, "cancel", "waits", "--by", "ann", "--reason", "duplicate")
    assert told.returncode == 0, told.stderr
    state = runs.state("waits")
    assert state.status is RunStatus.CANCELLED
    assert len(state.in_doubt) == 2


def test_doctor_finds_a_healthy_database_and_changes_nothing(runs: AgentRuns, database_url: str) -> None:
    """The test server gives up durability on purpose, which doctor minds; all else is well."""
    told = on(runs, "doctor", "--json")
    report = json.loads(told.stdout)
    minded = {check["check"] for check in report["checks"] if check["grade"] == "fail"}
    assert minded == {"fsync", "full_page_writes", "synchronous_commit"}
    assert (report["ok"], told.returncode) == (False, 1)


def test_doctor_creates_nothing_by_looking(database_url: str) -> None:
    """An empty database is empty afterwards, and doctor says that tables come with the first use."""
    told = perdure("doctor", "--database-url", database_url)
    assert "It is created at the first use" in told.stdout
    with psycopg.connect(database_url) as connection:
        found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'perdure'").fetchone()
    assert found is None


def test_doctor_says_when_the_log_is_newer_than_it(runs: AgentRuns, database_url: str) -> None:
    """An event that this version does not know is a failure with the way out."""
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO perdure.perdure_events (originator_id, originator_version, topic, state) "
            "VALUES ('done', 99, 'perdure.run-teleported', '{}')"
        )
    told = on(runs, "doctor")
    assert "perdure.run-teleported" in told.stdout
    assert "upgrade" in told.stdout


@pytest.mark.parametrize("arguments", [("doctor",), ("show", "x"), ("runs", "--json")])
def test_no_password_is_ever_shown(arguments: tuple[str, ...]) -> None:
    """A database that cannot be reached is named without its secret, on both streams."""
    told = perdure(*arguments, "--database-url", "postgresql://me:s3cret@127.0.0.1:1/none?connect_timeout=1")
    assert told.returncode == 1
    assert "s3cret" not in told.stdout + told.stderr
    assert "Traceback" not in told.stderr


def test_a_reader_that_has_seen_enough_is_no_error(runs: AgentRuns) -> None:
    """`perdure show ... | head -1` ends quietly."""
    assert runs.address is not None
    with subprocess.Popen(
        command("show", "waits", "--events", "--json", "--database-url", runs.address.conninfo),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as told:
        assert told.stdout is not None
        told.stdout.close()
        assert told.stderr is not None
        said = told.stderr.read()
    assert b"Traceback" not in said
    assert b"BrokenPipe" not in said


def test_the_version_is_told() -> None:
    """`--version` prints name and version."""
    assert perdure("--version").stdout.startswith("perdure 0.")
