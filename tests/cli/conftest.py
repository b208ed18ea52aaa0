"""The command line inside the test's process, and runs for it to look at."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import pytest

from perdure import Agent, AgentRuns, Budget, Policy, ToolRegistry
from perdure.infrastructure.cli.app import run
from perdure.testing import ScriptedModel, asks, says, together


@dataclass(frozen=True)
class Told:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)


Cli = Callable[..., Told]


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command that finds its database as users' commands do."""

    def cli(*arguments: str) -> Told:
        monkeypatch.setattr(sys, "argv", ["perdure", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run()
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Told(ended.value.code, said.out, said.err)

    return cli


@pytest.fixture
def cli(anywhere: Cli, database_url: str) -> Cli:
    """Runs a command on the test's database."""
    return lambda *arguments: anywhere(*arguments, "--database-url", database_url)


@pytest.fixture
def connect(database_url: str) -> Generator[Callable[[], AgentRuns]]:
    """Connects with an agent that takes harmless steps, and then pays; nobody sees the end of that."""
    opened: list[AgentRuns] = []

    def connected(*, steps: int = 0, payments: int = 2) -> AgentRuns:
        tools = ToolRegistry()

        @tools.tool(policy=Policy.RERUN)
        def look_up(order: str) -> str:
            """Look up."""
            return f"order {order}"

        @tools.tool
        def pay(order: str, cents: int) -> str:
            """Pay."""
            raise ConnectionError(f"no answer\nfor {order}")

        script = [asks("look_up", {"order": str(n)}) for n in range(steps)]
        script += [together(*(asks("pay", {"order": str(n), "cents": 4200}) for n in range(payments)))]
        script += [says("Paid.")]
        model = ScriptedModel(script)
        budget = Budget(steps=40, tokens=1000)
        agent = Agent("payer", model, "v14", prompt="You pay.", tools=tools, budget=budget)
        opened.append(AgentRuns.connect(database_url, agents=[agent]))
        return opened[-1]

    yield connected
    for runs in opened:
        runs.close()


@pytest.fixture
def runs(connect: Callable[..., AgentRuns]) -> AgentRuns:
    """A run, `order-77`, that waits for a decision about two payments."""
    runs = connect()
    runs.start("payer", "Pay order 77", run_id="order-77", tenant="acme", labels={"case": "7"})
    runs.advance("order-77")
    return runs
