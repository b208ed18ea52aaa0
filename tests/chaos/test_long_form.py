"""The long form tells the truth by its exit code, and leaves nothing running when it is ended early."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid

import pytest

from tests.chaos import __main__ as long_form
from tests.chaos.judge import Verdicts
from tests.chaos.scenarios import Size
from tests.chaos.storm import Outcome
from tests.support.program import environment, processes_with
from tests.support.waiting import eventually

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]


@pytest.mark.parametrize(("faults", "code"), [([], 0), (["something is broken"], 1)])
def test_the_exit_code_says_whether_all_promises_were_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], faults: list[str], code: int
) -> None:
    """A storm with a fault makes it 1, and the fault is shown."""
    outcome = Outcome(Verdicts(faults=faults, runs=7), deaths=3, freezes=0, seconds=1.0)
    storms = {"drizzle": (lambda settings, size: outcome, Size(harm=0, workers=0, runs=0))}
    monkeypatch.setattr(long_form, "_storms", lambda *arguments: storms)
    monkeypatch.setattr(sys, "argv", ["chaos", "--only", "drizzle"])
    monkeypatch.setattr(signal, "signal", lambda *arguments: None)
    assert long_form.main() == code
    shown = capsys.readouterr().out
    assert "drizzle" in shown
    assert ("something is broken" in shown) == bool(code)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ended_early_it_leaves_no_process(number: signal.Signals) -> None:
    """Workers, their parent and the server are gone, and the exit code says that nothing is known."""
    mark = f"CHAOS_TEST={uuid.uuid4()}"
    name, value = mark.split("=")
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "tests.chaos", "--only", "kills", "--kills", "100000", "--workers", "2"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(**{name: value}),
    )
    try:
        assert process.stdout is not None
        assert any("deaths" in line for line in process.stdout)
        eventually(lambda: len(processes_with(mark)) > 2)
        os.kill(process.pid, number)
        process.communicate(timeout=30)
        assert process.returncode == 130
        eventually(lambda: processes_with(mark) == [])
    finally:
        process.kill()
        process.communicate()
