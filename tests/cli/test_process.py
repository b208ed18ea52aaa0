"""What only a real process shows: signals, terminals, closed pipes, what is not installed."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import AgentRuns
from tests.support.program import command, environment, perdure


def on_terminal(*arguments: str, columns: int = 60, **variables: str) -> str:
    """Run `perdure` on a terminal, and return all that it wrote there."""
    ours, theirs = pty.openpty()
    env = environment(TERM="xterm-256color", COLUMNS=str(columns), **variables)
    with subprocess.Popen(command(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=env):
        os.close(theirs)
        written = b""
        while True:
            try:
                read = os.read(ours, 65536)
            except OSError:
                break
            if not read:
                break
            written += read
    os.close(ours)
    return written.decode()


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_a_missing_extra_is_told_with_the_command_to_install_it(missing: str) -> None:
    """One line and exit code 1, without a traceback."""
    program = f"import sys; sys.modules[{missing!r}] = None; import perdure.infrastructure.cli as c; c.main()"

    told = subprocess.run(
        [sys.executable, "-c", program, "--version"], capture_output=True, text=True, check=False
    )

    assert told.returncode == 1
    assert told.stderr == f"perdure: the command line needs {missing}: pip install 'perdure[cli]'\n"


def test_ctrl_c_ends_with_130_and_no_traceback() -> None:
    """Also while it waits for a server that does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"host=127.0.0.1 port={server.getsockname()[1]} dbname=x user=x connect_timeout=60"
        with subprocess.Popen(
            command("show", "x", "--database-url", address),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        ) as told:
            caller, _ = server.accept()
            told.send_signal(signal.SIGINT)
            out, err = told.communicate(timeout=60)
            caller.close()

    assert told.returncode == 130
    assert out == ""
    assert "Traceback" not in err


def test_a_narrow_terminal_cuts_no_id(runs: AgentRuns, database_url: str) -> None:
    """Ids can be copied from any terminal; colours are there, and nothing else that it obeys."""
    first, second = runs.state("order-77").in_doubt

    shown = on_terminal("show", "order-77", "--database-url", database_url, columns=50)

    assert f"perdure resolve order-77 {first.call_id} --rerun" in shown
    assert f"perdure resolve order-77 {second.call_id} --rerun" in shown
    assert "…" not in shown
    assert "\x1b[1m" in shown


def test_no_color_is_heeded(runs: AgentRuns, database_url: str) -> None:
    """With NO_COLOR set, even a terminal gets no colours."""
    shown = on_terminal("doctor", "--database-url", database_url, NO_COLOR="1")

    assert "fsync" in shown
    assert "\x1b[3" not in shown


def test_an_encoding_without_the_characters_is_no_failure(runs: AgentRuns, database_url: str) -> None:
    """What cannot be written is written as an escape: a decision must not fail after it was recorded."""
    told = perdure(
        "cancel",
        "order-77",
        "--by",
        "zoë",
        "--reason",
        "☕",
        "--database-url",
        database_url,
        env=environment(PYTHONIOENCODING="ascii"),
    )

    assert told.returncode == 0, told.stderr
    assert "zo\\xeb" in told.stdout


def test_a_closed_pipe_leaves_the_exit_code_as_it_is(runs: AgentRuns, database_url: str) -> None:
    """Whoever has read enough makes no failure out of a success, and no success out of a failure."""
    for arguments, code in ((("show", "order-77", "--events"), 0), (("doctor",), 1)):
        read, write = os.pipe()
        os.close(read)
        with subprocess.Popen(
            command(*arguments, "--database-url", database_url),
            stdout=write,
            stderr=subprocess.PIPE,
            env=environment(),
            text=True,
        ) as told:
            os.close(write)
            _, err = told.communicate(timeout=60)
        assert (told.returncode, err) == (code, "")


def test_standard_output_may_be_closed(runs: AgentRuns, database_url: str) -> None:
    """As with `>&-`: nothing is printed, and nothing fails."""
    program = ["sh", "-c", 'exec "$@" >&-', "sh", *command("runs", "--database-url", database_url)]

    told = subprocess.run(program, stderr=subprocess.PIPE, text=True, env=environment(), check=False)

    assert (told.returncode, told.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [("--debug", "show"), ("show",)])
def test_a_traceback_is_for_those_who_ask(
    runs: AgentRuns, database_url: str, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """What nobody expected is one line, with its type and the way to more."""
    (tmp_path / "sitecustomize.py").write_text(
        "import perdure.infrastructure.cli.recorded as r\n"
        "def broken(*args, **kwargs): raise ZeroDivisionError('nobody expected \\x1b[31m this')\n"
        "r.RecordedRuns.events = broken\n"
    )

    told = perdure(
        *arguments, "order-77", "--database-url", database_url, env=environment(PYTHONPATH=str(tmp_path))
    )

    assert told.returncode == 1
    assert "ZeroDivisionError: nobody expected \\x1b[31m this" in told.stderr
    assert ("Traceback" in told.stderr) is ("--debug" in arguments)
    assert len(told.stderr.splitlines()) == 1 or "--debug" in arguments
