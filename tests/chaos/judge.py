"""The judge: says which promise was broken, from the log, the leases and the world alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perdure import AgentRuns, RunStatus
from perdure.application.ports.leases import LeaseRow
from perdure.domain.calls import call_id_for
from perdure.domain.events import Event, RunClaimed, RunEscalated
from perdure.domain.evolution import fold
from perdure.domain.messages import ToolResultsMessage
from perdure.domain.state import RunState
from tests.chaos.program import Settings, expected_answer, plan_of
from tests.chaos.record import faults_on_record
from tests.chaos.server import connected_workers, writers
from tests.chaos.world import Effect
from tests.support.waiting import eventually

_MAY_HAPPEN_AGAIN = {"look_up", "linger", "open_ticket"}
"""Reads, and what the service behind the tool does once for each key."""


@dataclass
class Verdicts:
    """What the judge found.

    Attributes:
        faults: Broken promises, in words; none is what is wanted.
        expected: Effects that should be there, reads left out.
        seen: Effects that are there, reads left out, each call once.
        duplicated: Effects that happened more than once and must not.
        refused: Appends that were refused because others had written first.
        escalated: How often a person was asked, by why.
    """

    faults: list[str] = field(default_factory=list)
    runs: int = 0
    expected: int = 0
    seen: int = 0
    duplicated: int = 0
    takeovers: int = 0
    refused: int = 0
    escalated: Counter[str] = field(default_factory=Counter)

    def count(
        self, events: Sequence[Event], effects: Sequence[Effect], written_by: Mapping[tuple[str, int], str]
    ) -> None:
        """Judge one run: its log, what its tools did, and who wrote which event."""
        run_id = events[0].run_id
        faults = [
            *_faults_of_the_answer(fold(run_id, events)),
            *self._faults_of_effects(run_id, effects),
            *faults_on_record(events, effects, written_by),
        ]
        self.faults += [f"{run_id}: {fault}" for fault in faults]
        self.runs += 1
        self.takeovers += max(0, sum(isinstance(event, RunClaimed) for event in events) - 1)
        self.escalated.update(event.why for event in events if isinstance(event, RunEscalated))

    def _faults_of_effects(self, run_id: str, effects: Sequence[Effect]) -> list[str]:
        faults: list[str] = []
        times = Counter((effect.tool, effect.call_id) for effect in effects)
        for step, tools in enumerate(plan_of(run_id), start=1):
            for place, tool in enumerate(tools, start=1):
                call_id = call_id_for(run_id, step, place)
                count = times.pop((tool, call_id), 0)
                if tool != "look_up":
                    self.expected += 1
                    self.seen += count > 0
                if count > 1 and tool not in _MAY_HAPPEN_AGAIN:
                    self.duplicated += 1
                    faults.append(f"{tool} of {call_id} happened {count} times")
        return [*faults, *(f"{tool} of {call_id} was not asked for" for tool, call_id in times)]


def judge(runs: AgentRuns, run_ids: Sequence[str], settings: Settings) -> Verdicts:
    """Compare what is on record and what happened with uninterrupted runs, once all workers are gone."""
    found = Verdicts(refused=settings.refusals.conflicts)
    effects: dict[str, list[Effect]] = defaultdict(list)
    for effect in settings.world.effects():
        effects[effect.run_id].append(effect)
    written_by = writers(settings.conninfo, settings.schema)
    for run_id in run_ids:
        found.count(runs.events(run_id), effects[run_id], written_by)
    found.faults += [f"{who} acted, and was never started" for who in effects.keys() - set(run_ids)]
    found.faults += left_leases(runs, settings.lease_seconds)
    found.faults += left_connections(settings.conninfo)
    return found


def _faults_of_the_answer(state: RunState) -> list[str]:
    if state.status is RunStatus.ESCALATED:
        return []  # whether the reason is true is seen from the log
    if state.status is not RunStatus.COMPLETED:
        return [f"it is {state.status}, neither completed nor escalated"]
    faults: list[str] = []
    if state.answer != expected_answer(state.run_id):
        told = [
            result.content
            for message in state.messages()
            if isinstance(message, ToolResultsMessage)
            for result in message.results
            if " did " not in result.content
        ]
        faults.append(f"it answered otherwise; results that were not expected: {told}")
    steps = len(plan_of(state.run_id)) + 1
    if (state.steps, state.tokens) != (steps, steps * 15):
        faults.append(f"it counts {state.steps} steps and {state.tokens} tokens")
    return faults


def left_leases(runs: AgentRuns, lease_seconds: float) -> list[str]:
    """Say which runs are held still."""

    def held() -> list[LeaseRow]:
        return [lease for lease in runs.ports.leases.all() if lease.is_live]

    try:
        # Nobody can give back what a killed worker held: that runs out.
        eventually(lambda: not held(), within=2 * lease_seconds)
    except AssertionError:
        return [f"a lease is held still: {lease}" for lease in held()]
    return []


def left_connections(conninfo: str, within: float = 10) -> list[str]:
    """Say which workers the server takes for alive."""
    try:
        # A server needs a moment to see that a process is gone.
        eventually(lambda: not connected_workers(conninfo), within=within)
    except AssertionError:
        return [f"still connected: {worker}" for worker in connected_workers(conninfo)]
    return []
