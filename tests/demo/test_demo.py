"""The demo finds every promise kept, and says so by its exit code; a broken library it finds broken."""

from __future__ import annotations

import json
import signal
import subprocess
import uuid
from pathlib import Path

import psycopg
import pytest

from tests.support.program import command, environment, perdure, processes_with
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(240)


def test_the_demo_keeps_every_promise_and_prints_json_alone(database_url: str) -> None:
    """Sixteen deaths, four policies, and nothing but JSON on standard output."""
    played = perdure("demo", "--json", "--database-url", database_url, timeout=200)
    assert played.returncode == 0, played.stdout + played.stderr
    report = json.loads(played.stdout)
    assert report["ok"] is True
    scenarios = report["scenarios"]
    assert len({(scenario["kill_point"], scenario["policy"]) for scenario in scenarios}) == 16
    for scenario in scenarios:
        assert scenario["effects_seen"] == scenario["effects_expected"] > 0
        assert scenario["answer_equal"]
        assert scenario["budget_equal"]
        assert scenario["faults"] == []
    with psycopg.connect(database_url) as connection:
        counted = connection.execute("SELECT count(*) FROM perdure_demo.perdure_events").fetchone()
    assert counted is not None
    assert counted[0] > 16 * 5


@pytest.mark.parametrize(
    ("broken", "policies"),
    [
        ("Policy.stricter = staticmethod(lambda one, other: Policy.RERUN)", {"escalate_if_unknown"}),
        (
            "from perdure.domain import calls, planning\n"
            "import perdure.application.activities as activities\n"
            "import uuid\n"
            "activities.idempotency_key_for = lambda run, call: f'{run}:{call}:{uuid.uuid4()}'",
            {"rerun_with_idempotency_key"},
        ),
    ],
    ids=["every policy is RERUN", "a new key for each attempt"],
)
def test_a_policy_broken_on_purpose_is_found_out(
    database_url: str, tmp_path: Path, broken: str, policies: set[str]
) -> None:
    """With the library broken in every process of the demo, effects happen twice, and the exit code is 1."""
    (tmp_path / "sitecustomize.py").write_text(f"from perdure.domain.tools import Policy\n{broken}\n")
    env = environment(PYTHONPATH=str(tmp_path))
    played = perdure("demo", "--json", "--database-url", database_url, timeout=200, env=env)
    assert played.returncode == 1, played.stderr
    report = json.loads(played.stdout)
    assert report["ok"] is False
    twice = {
        scenario["policy"]
        for scenario in report["scenarios"]
        if scenario["effects_seen"] > scenario["effects_expected"]
    }
    assert policies <= twice


def test_ctrl_c_leaves_nothing_running(database_url: str) -> None:
    """Interrupted in the middle, the demo ends with 130 and takes all its processes along."""
    mark = f"DEMO_MARK={uuid.uuid4().hex}"
    name, _, value = mark.partition("=")
    with subprocess.Popen(
        command("demo", "--database-url", database_url),
        env=environment(**{name: value}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stderr is not None
        while "killing workers" not in demo.stderr.readline():
            assert demo.poll() is None
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=60)
    assert demo.returncode == 130
    eventually(lambda: not processes_with(mark))


def test_a_database_that_is_not_there_is_one_clear_line() -> None:
    """No traceback, no password, and an exit code that says so."""
    played = perdure("demo", "--database-url", "postgresql://me:s3cret@127.0.0.1:1/none")
    assert played.returncode == 1
    assert played.stdout == ""
    assert "s3cret" not in played.stderr
    assert "Traceback" not in played.stderr
