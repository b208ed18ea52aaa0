"""The demo finds every promise kept, and says so by its exit code; a broken library it finds broken."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.program import command, environment, perdure, processes_with
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(240)

POINTS = ["decision stored", "call started", "effect done", "result stored"]
POLICIES = ["rerun", "rerun_with_idempotency_key", "verify_then_decide", "escalate_if_unknown"]
A_TOOL_WITHOUT_A_POLICY_RERUNS = """
from perdure import Policy, ToolRegistry
ToolRegistry.tool.__kwdefaults__["policy"] = Policy.RERUN
"""
EACH_ATTEMPT_HAS_A_KEY_OF_ITS_OWN = """
import uuid
from perdure.application import activities
activities.idempotency_key_for = lambda run, call: f"{run}:{call}:{uuid.uuid4()}"
"""


def broken_by(tmp_path: Path, flaw: str, **more: str) -> Mapping[str, str]:
    """An environment in which every Python process begins by breaking the library."""
    (tmp_path / "sitecustomize.py").write_text(flaw)
    return environment(PYTHONPATH=str(tmp_path), **more)


def repeated(report: dict[str, Any]) -> set[tuple[str, str]]:
    return {
        (scenario["kill_point"], scenario["policy"])
        for scenario in report["scenarios"]
        if scenario["effects_seen"] > scenario["effects_expected"]
    }


def test_the_demo_keeps_every_promise_and_prints_json_alone(database_url: str) -> None:
    """Sixteen deaths, four policies, and nothing but JSON on standard output."""
    played = perdure("demo", "--json", "--database-url", database_url, timeout=200)
    assert played.returncode == 0, played.stdout + played.stderr
    report = json.loads(played.stdout)
    assert list(report) == ["ok", "scenarios"]
    assert report["ok"] is True
    found = {(scenario["kill_point"], scenario["policy"]): scenario for scenario in report["scenarios"]}
    assert list(found) == [(point, policy) for policy in POLICIES for point in POINTS]
    for scenario in found.values():
        assert scenario["effects_seen"] == scenario["effects_expected"] > 0
        assert scenario["answer_equal"]
        assert scenario["budget_equal"]
        assert scenario["faults"] == []
    assert found["effect done", "verify_then_decide"]["settled"] == "verified: landed"
    assert found["effect done", "escalate_if_unknown"]["settled"] == "a person: succeeded"
    assert found["call started", "escalate_if_unknown"]["settled"] == "a person: rerun"
    assert found["effect done", "rerun_with_idempotency_key"]["attempts"] == 2


def test_a_default_turned_into_rerun_is_found_out(database_url: str, tmp_path: Path) -> None:
    """With the careful default gone a refund is paid twice: the demo says so and exits with 1.

    It still shows its table and its story, and the commands that it prints to look further work.
    """
    env = broken_by(tmp_path, A_TOOL_WITHOUT_A_POLICY_RERUNS, PERDURE_DATABASE_URL=database_url)
    played = perdure("demo", timeout=200, env=env)
    assert played.returncode == 1, played.stdout + played.stderr
    assert "had its effect (refund) 2 times" in " ".join(played.stdout.split())
    assert "2/1 !" in played.stdout
    assert "every promise was kept" not in played.stdout
    printed = [line.strip() for line in played.stdout.splitlines() if line.startswith("  uv run ")]
    assert [line.split()[3] for line in printed[:4]] == ["show", "replay", "runs", "doctor"]
    assert "clean_up" in printed[4]
    for line in (printed[0], printed[1], printed[4]):
        words = shlex.split(line.removeprefix("uv run "))
        program = command() if words[0] == "perdure" else [sys.executable]
        looked = subprocess.run(
            [*program, *words[1:]], capture_output=True, text=True, timeout=60, check=False, env=env
        )
        assert looked.returncode == 0, looked.stderr
        assert looked.stdout
    with psycopg.connect(database_url) as connection:
        left = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname ~ '^perdure_demo'")
        assert left.fetchall() == []


def test_a_key_that_changes_from_attempt_to_attempt_is_found_out(database_url: str, tmp_path: Path) -> None:
    """Then the helpdesk sees two wishes, and the mail cannot be found again: exactly these come twice."""
    env = broken_by(tmp_path, EACH_ATTEMPT_HAS_A_KEY_OF_ITS_OWN)
    played = perdure("demo", "--json", "--database-url", database_url, timeout=200, env=env)
    assert played.returncode == 1, played.stderr
    report = json.loads(played.stdout)
    assert report["ok"] is False
    assert repeated(report) == {
        ("effect done", "rerun_with_idempotency_key"),
        ("effect done", "verify_then_decide"),
    }


@pytest.mark.parametrize(
    ("ending", "exit_code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)], ids=["Ctrl-C", "kill"]
)
def test_nothing_is_left_running(server_directory: Path, ending: signal.Signals, exit_code: int) -> None:
    """Interrupted or killed in the middle, the demo takes along its workers, services and server."""
    mark = f"DEMO_MARK={uuid.uuid4().hex}"
    name, _, value = mark.partition("=")
    with subprocess.Popen(
        command("demo"),
        env=environment(XDG_DATA_HOME=str(server_directory), **{name: value}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stderr is not None
        while "killing workers" not in demo.stderr.readline():
            assert demo.poll() is None
        assert len(processes_with(mark)) > 2
        demo.send_signal(ending)
        said, _ = demo.communicate(timeout=60)
    assert demo.returncode == exit_code
    assert said == ""
    eventually(lambda: not processes_with(mark))


def test_two_demos_in_one_database_do_not_disturb_each_other(database_url: str) -> None:
    """While one plays, a second one is refused, and nothing of the first one's is dropped."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(hashtextextended('perdure_demo', 0))")
        connection.execute("CREATE SCHEMA perdure_demo")
        played = perdure("demo", "--database-url", database_url)
        assert played.returncode == 1
        assert "another demo" in played.stderr
        kept = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'perdure_demo'")
        assert kept.fetchone() is not None


def test_a_database_that_is_not_there_is_one_clear_line() -> None:
    """No traceback, no password, and an exit code that says so."""
    played = perdure("demo", "--database-url", "postgresql://me:s3cret@127.0.0.1:1/none")
    assert played.returncode == 1
    assert played.stdout == ""
    assert "s3cret" not in played.stderr
    assert "Traceback" not in played.stderr


def test_without_a_mail_server_the_extra_is_named(tmp_path: Path) -> None:
    """Where aiosmtpd is not installed, the demo says what to install, before it touches anything."""
    env = broken_by(tmp_path, "import sys\nsys.modules['aiosmtpd'] = None\n")
    played = perdure("demo", "--database-url", "postgresql://127.0.0.1:1/none", env=env)
    assert played.returncode == 1
    assert "pip install 'perdure[demo]'" in played.stderr
