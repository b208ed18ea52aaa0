"""Processes that share a log, leases and a clock in memory, and die at chosen points."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from perdure import Agent, AgentRuns, Resolution, RunState, RunStatus
from perdure.application.ports.boundaries import Boundary
from perdure.application.ports.clock import Clock
from perdure.application.ports.leases import Leases
from perdure.application.ports.model import ModelRequest
from perdure.application.registered_agents import RegisteredAgents
from perdure.domain.events import Event
from perdure.infrastructure.event_store.run_log import RunLog
from perdure.infrastructure.memory.leases import MemoryLeases
from tests.support.scenarios import Asked, Scenario
from tests.support.world import World

LEASE = 30.0
DEADLINE = 20.0
"""Seconds within which everything that a test waits for happens, even on a busy machine."""


class Crash(BaseException):
    """The process is dead: whatever it tries to do from here on, it does not do."""


class JumpingClock(Clock):
    """The machine's clock, which a test can move on."""

    def __init__(self) -> None:
        self._jumped = timedelta(0)

    def now(self) -> datetime:
        """Return the present moment, jumps included."""
        return datetime.now(UTC) + self._jumped

    def synchronise(self) -> None:
        """There is nothing to look at."""

    def jump(self, seconds: float) -> None:
        """Let time pass at once."""
        self._jumped += timedelta(seconds=seconds)


class Process:
    """A process: its boundaries, and its death at one of them.

    Attributes:
        passed: The boundaries that it came to.
    """

    def __init__(self, crash_at: int | None = None) -> None:
        self.passed: list[tuple[Boundary, str]] = []
        self.is_dead = False
        self._crash_at = crash_at
        self._turn = threading.Lock()

    def reached(self, boundary: Boundary, run_id: str, detail: str) -> None:
        """Take note, and die when it is time."""
        with self._turn:
            self.require_alive()
            self.passed.append((boundary, detail))
            if len(self.passed) == self._crash_at:
                self.is_dead = True
        self.require_alive()

    def require_alive(self) -> None:
        """Raise once the process is dead."""
        if self.is_dead:
            raise Crash


class FrozenProcess(Process):
    """A process that stands still at a boundary until a test lets it go on.

    Attributes:
        is_frozen: Set when it has come there.
        thaw: Set it to let it go on.
    """

    def __init__(self, boundary: Boundary, detail: str = "") -> None:
        super().__init__()
        self.is_frozen = threading.Event()
        self.thaw = threading.Event()
        self._freeze_at = (boundary, detail)

    def reached(self, boundary: Boundary, run_id: str, detail: str) -> None:
        """Take note, and stand still the first time that it comes to the chosen boundary."""
        super().reached(boundary, run_id, detail)
        where, what = self._freeze_at
        if boundary is where and what in detail and not self.is_frozen.is_set():
            self.is_frozen.set()
            assert self.thaw.wait(DEADLINE), "nobody let the process go on"


_current: ContextVar[Process] = ContextVar("current process")
"""Tools are defined once for all processes of a cluster: defining them takes longer than a run."""


class LeasesOfProcess(Leases):
    """Leases as one process sees them: none are asked for by the dead."""

    def __init__(self, leases: Leases, process: Process) -> None:
        self._leases = leases
        self._process = process

    def __getattribute__(self, name: str) -> object:
        if not name.startswith("_"):
            object.__getattribute__(self, "_process").require_alive()
            return getattr(object.__getattribute__(self, "_leases"), name)
        return object.__getattribute__(self, name)


# The port's abstract methods are answered by `__getattribute__`.
LeasesOfProcess.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]


@dataclass
class Outcome:
    """What became of a scenario."""

    scenario: Scenario
    world: World
    events: Sequence[Event]
    state: RunState
    requests: Sequence[tuple[str, ModelRequest]]
    processes: Sequence[Process] = field(default_factory=list)


class Cluster:
    """What outlives processes."""

    def __init__(self, scenario: Scenario, *, world: World | None = None, log: RunLog | None = None) -> None:
        self.scenario = scenario
        self.world = world if world is not None else World()
        self.log = log if log is not None else RunLog()
        self.clock = JumpingClock()
        self.leases = MemoryLeases(self.clock)
        self._tools = scenario.tools(self.world, lambda: _current.get().require_alive())
        self._asked: list[Asked] = []
        self._processes: list[Process] = []
        self._booted: dict[int, AgentRuns] = {}
        self.office = self.boot(agents=[])
        self.world.read_log = self.office.events

    def boot(self, process: Process | None = None, *, agents: Sequence[Agent] | None = None) -> AgentRuns:
        """Start a process."""
        process = process if process is not None else Process()
        self._processes.append(process)
        if agents is None:
            _current.set(process)
            agent, asked = self.scenario.agent(self._tools, process.require_alive)
            self._asked.append(asked)
            agents = [agent]
        runs = AgentRuns(
            self.log,
            LeasesOfProcess(self.leases, process),
            self.clock,
            RegisteredAgents(agents, _no_model),
            lease_seconds=LEASE,
            boundaries=process,
        )
        self._booted[id(process)] = runs
        return runs

    def runs_of(self, process: Process) -> AgentRuns:
        """Return what a process was booted with."""
        return self._booted[id(process)]

    def start(self, run_id: str = "run-1") -> str:
        """Put the scenario's run on record."""
        with self.boot() as runs:
            return runs.start("actor", "Act.", run_id=run_id)

    def live(self, run_id: str, *, crashes: Sequence[int] = ()) -> Outcome:
        """Drive a run to its end, through as many dying processes; a person decides where one is asked."""
        for crash_at in (*crashes, None):
            self.die(run_id, crash_at)
        return self.outcome(run_id)

    def die(self, run_id: str, crash_at: int | None) -> Outcome:
        """Drive a run in a process that dies at this boundary, if it comes to it."""
        with self.boot(Process(crash_at)) as runs:
            try:
                self._drive(runs, run_id)
            except Crash:
                self.clock.jump(2 * LEASE)
        return self.outcome(run_id)

    def freeze(self, run_id: str, process: FrozenProcess) -> Future[RunState]:
        """Drive a run in a process that freezes, up to that point; its end is in the future returned."""
        driving = Future[RunState]()

        def drive() -> None:
            with self.boot(process) as runs:
                try:
                    driving.set_result(runs.advance(run_id))
                except BaseException as error:  # noqa: BLE001 - it is what the test asks about
                    driving.set_exception(error)

        threading.Thread(target=drive, daemon=True).start()
        assert process.is_frozen.wait(DEADLINE), "the process never came to the boundary"
        return driving

    def outcome(self, run_id: str) -> Outcome:
        """Say what has become of a run so far."""
        requests = [(model.name, request) for model in self._asked for request in model.requests]
        return Outcome(
            self.scenario,
            self.world,
            self.office.events(run_id),
            self.office.state(run_id),
            requests,
            self._processes,
        )

    def _drive(self, runs: AgentRuns, run_id: str) -> None:
        state = runs.advance(run_id)
        while state.status is RunStatus.ESCALATED and state.escalation and state.escalation.calls:
            decide(self.office, state, self.world)
            state = runs.advance(run_id)


def decide(runs: AgentRuns, state: RunState, world: World) -> None:
    """Decide each call in doubt by what can be seen in the world, as a person would."""
    assert state.escalation is not None
    for call_id in state.escalation.calls:
        effect = world.of_call(call_id)
        if effect is not None:
            resolution = Resolution.succeeded(effect.result)
        elif state.calls[call_id].attempt < 5:
            resolution = Resolution.rerun()
        else:
            resolution = Resolution.failed("It never happened.")
        runs.resolve(state.run_id, call_id, resolution, by="ann", reason="looked it up")


def _no_model(name: str) -> Asked:
    raise AssertionError(f"no model is named in these tests: {name}")
