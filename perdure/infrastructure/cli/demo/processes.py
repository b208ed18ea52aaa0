"""The processes of the demo: started together, and none left when it ends."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import urllib.request
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, cast

from perdure.domain.errors import ConfigurationError
from perdure.infrastructure.cli.demo import worker_process
from perdure.infrastructure.cli.demo.example import example_directory
from perdure.infrastructure.cli.demo.worker_process import Orders


@dataclass(frozen=True, slots=True)
class Services:
    """Where the services of the world listen, on loopback."""

    http: str
    smtp_port: int

    def effects(self) -> list[dict[str, Any]]:
        """Ask the world what happened, in order: each ticket, mail and refund, and who made it happen."""
        with urllib.request.urlopen(f"{self.http}/effects", timeout=10) as answer:  # noqa: S310 - http only
            return cast("list[dict[str, Any]]", json.load(answer))


class Processes:
    """Starts processes, and kills those that are left when the demo ends."""

    def __init__(self) -> None:
        self._running: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._running:
            process.end()

    def start_services(self) -> Services:
        """Start helpdesk, mail server and payments.

        Raises:
            ConfigurationError: They do not start; the message has what they said.
        """
        process = self._start([sys.executable, str(example_directory() / "services.py")])
        told = process.first_line()
        if not told:
            raise ConfigurationError(f"the services of the demo do not start: {process.complaint()}")
        found = json.loads(told)
        return Services(found["http"], found["smtp_port"])

    def start_worker(self, orders: Orders) -> Process:
        """Start a worker process."""
        program = f"from {worker_process.__name__} import main; main()"
        process = self._start([sys.executable, "-c", program])
        process.tell(worker_process.ORDERS.dump_json(orders).decode())
        return process

    def _start(self, command: list[str]) -> Process:
        process = Process(command)
        self._running.append(process)
        return process


class Process:
    """A process of the demo; its standard input stays open for as long as the demo wants it to live."""

    def __init__(self, command: list[str]) -> None:
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the process
        # A session of its own: Ctrl-C goes to the demo, which then ends its processes in order.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            start_new_session=True,
        )

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    def tell(self, line: str) -> None:
        """Write a line to its standard input."""
        if self._process.stdin is not None:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def first_line(self) -> str:
        """Wait for its first line of output; empty if it ends without one."""
        return self._process.stdout.readline() if self._process.stdout is not None else ""

    def complaint(self) -> str:
        """Return the end of what it said on standard error."""
        self._stderr.seek(0)
        return self._stderr.read().strip()[-500:]

    def was_killed(self) -> str | None:
        """Say what went wrong if it did not end by its own SIGKILL; stop it if it goes on."""
        code = self.exit_code
        if code is None:
            self._process.kill()
            return "the worker did not come to the place where it is killed"
        if code == -signal.SIGKILL:
            return None
        return f"the worker was not killed but ended with {code}: {self.complaint()}"

    def drain(self) -> str | None:
        """Ask it to stop with SIGTERM and wait; say what went wrong if it did not stop in order."""
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            return "the worker did not stop within 30 s"
        return None if code == 0 else f"the worker ended with {code}: {self.complaint()}"

    def end(self) -> None:
        """Kill it, if it still runs, and let go of it."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
