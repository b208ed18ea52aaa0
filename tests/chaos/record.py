"""What one run's log must say, whatever happened to its workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from perdure.domain.events import (
    Event,
    ModelResponded,
    RunClaimed,
    RunEscalated,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallStarted,
    ToolCallSucceeded,
    ToolCallVerified,
)
from tests.chaos.program import LIMITS, TOOLS
from tests.chaos.server import OFFICE
from tests.chaos.world import Effect

_READS = {TOOLS[0], "linger"}
"""Tools that only look, or may be run again at will: they may fail although they acted."""
_FACTS = (ModelResponded, ToolCallSucceeded, ToolCallFailed)
"""What a worker brings a run forward by."""


def faults_on_record(
    events: Sequence[Event], effects: Sequence[Effect], writers: Mapping[tuple[str, int], str]
) -> Iterator[str]:
    """Say what is wrong with a run.

    Args:
        events: Its log.
        effects: What its tools did.
        writers: Who wrote which event, by run id and version.
    """
    yield from _other_writers(events, writers)
    record = _Record()
    for event in events:
        yield from record.fault_of(event)
        record.take(event)
    for effect in effects:
        yield from record.fault_of_effect(effect)
    acted = {effect.call_id for effect in effects}
    for call_id, status in record.status.items():
        if status == "started":
            yield f"{call_id} was started, and is left like that"
        if status == "succeeded" and call_id not in acted:
            yield f"{call_id} never happened, and on record it succeeded"


def _other_writers(events: Sequence[Event], writers: Mapping[tuple[str, int], str]) -> Iterator[str]:
    """After a claim, only the process that made it writes, and people do."""
    owner, epoch = OFFICE, 0
    for event in events:
        if isinstance(event, RunClaimed):
            if event.epoch <= epoch:
                yield f"epoch {event.epoch} was claimed after epoch {epoch}"
            owner, epoch = f"worker {_pid_of(event.worker)}", event.epoch
        writer = writers[event.run_id, event.seq]
        if writer not in (owner, OFFICE):
            yield f"version {event.seq}, {type(event).__name__}, of epoch {epoch} of {owner} is by {writer}"


@dataclass
class _Record:
    """What the events so far say."""

    epoch: int = 0
    owner: str = ""
    barren: int = 0
    status: dict[str, str] = field(default_factory=dict)
    started_in: dict[str, int] = field(default_factory=dict)
    started_by: dict[tuple[str, int], str] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Go on by one event."""
        if isinstance(event, RunClaimed):
            self.epoch, self.owner = event.epoch, _pid_of(event.worker)
            self.barren += event.left == "expired"
        elif isinstance(event, _FACTS):
            self.barren = 0
        if isinstance(event, ToolCallStarted):
            self.status[event.call_id] = "started"
            self.started_in[event.call_id] = self.epoch
            self.started_by[event.call_id, event.attempt] = self.owner
        elif isinstance(event, ToolCallInDoubt):
            self.status[event.call_id] = "in doubt"
        elif isinstance(event, ToolCallSucceeded):
            self.status[event.call_id] = "succeeded"
        elif isinstance(event, ToolCallFailed):
            self.status[event.call_id] = "failed"
        elif isinstance(event, ToolCallVerified) and event.verdict == "not_landed":
            self.status[event.call_id] = "did not land"

    def fault_of(self, event: Event) -> Iterator[str]:
        """Say whether an event gives a reason that is not true."""
        if isinstance(event, ToolCallInDoubt):
            if self.status.get(event.call_id) != "started":
                yield f"{event.call_id} is doubted, and was not under way"
            elif event.why == "crash" and self.started_in[event.call_id] == self.epoch:
                yield f"{event.call_id} is doubted for a crash, and its worker is there"
        elif isinstance(event, RunEscalated):
            yield from self._fault_of_escalation(event)

    def _fault_of_escalation(self, event: RunEscalated) -> Iterator[str]:
        if event.why == "calls_in_doubt":
            known = [call_id for call_id in event.calls if self.status.get(call_id) != "in doubt"]
            if known or not event.calls:
                yield f"a person was asked about {known}, which are not in doubt"
        elif event.why == "quarantine":
            if self.barren < LIMITS.barren_claims:
                yield f"set aside after {self.barren} lost workers"
        else:
            yield f"escalated for {event.why}: {event.message}"

    def fault_of_effect(self, effect: Effect) -> Iterator[str]:
        """Say what the log does not know about an effect."""
        attempt = f"attempt {effect.attempt} of {effect.call_id}"
        starter = self.started_by.get((effect.call_id, effect.attempt))
        if starter is None:
            yield f"{attempt} ({effect.tool}) acted without a start on record"
        elif starter != str(effect.pid):
            yield f"{attempt} was started by process {starter} and acted in {effect.pid}"
        status = self.status.get(effect.call_id)
        if effect.tool not in _READS and status not in ("succeeded", "in doubt"):
            yield f"{effect.call_id} ({effect.tool}) happened, and on record it is {status}"


def _pid_of(worker: str) -> str:
    return worker.split(":")[1]
