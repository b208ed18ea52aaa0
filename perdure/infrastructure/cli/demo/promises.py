"""What must hold of every run, whatever was killed: the log and the world are asked, and compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from perdure.domain.events import (
    Event,
    RunClaimed,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallStarted,
    ToolCallSucceeded,
)
from perdure.domain.evolution import evolve, fold
from perdure.domain.state import RunState
from perdure.infrastructure.cli.demo.kill import KillPoint

Effect = Mapping[str, Any]
"""Something that happened in the world: `kind`, and the `run`, `call` and `attempt` that made it happen."""

AboutACall = TypeVar("AboutACall", ToolCallStarted, ToolCallSucceeded, ToolCallFailed, ToolCallInDoubt)

_BEFORE_DEATH = {
    KillPoint.DECISION_STORED: (False, False),
    KillPoint.CALL_STARTED: (True, False),
    KillPoint.EFFECT_DONE: (True, False),
    KillPoint.RESULT_STORED: (True, True),
}
"""Whether the call has been started, and whether its result is on record, when the worker dies there."""


def broken_promises(events: Sequence[Event], effects: Sequence[Effect]) -> list[str]:
    """Say which promises a run broke.

    Args:
        events: The run's log.
        effects: What happened in the world for this run.
    """
    return [*_repeated(effects), *_unknown_to_the_log(events, effects), *_unusable_prefixes(events)]


def killed_elsewhere(point: KillPoint, call_id: str, events: Sequence[Event]) -> list[str]:
    """Say whether the log shows that a worker did not die where it was meant to."""
    claims = [place for place, event in enumerate(events) if isinstance(event, RunClaimed)]
    if len(claims) < 2:
        return ["no second worker has claimed the run"]
    before = events[: claims[1]]
    found = (bool(_of(ToolCallStarted, call_id, before)), bool(_of(ToolCallSucceeded, call_id, before)))
    if found != _BEFORE_DEATH[point]:
        return [f"at its death, started and stored were {found}, which is not {point.value!r}"]
    return []


def attempts_at(call_id: str, events: Sequence[Event]) -> int:
    """How often a call was started."""
    return len(_of(ToolCallStarted, call_id, events))


def _repeated(effects: Sequence[Effect]) -> Iterable[str]:
    for (call, kind), times in Counter((effect["call"], effect["kind"]) for effect in effects).items():
        if times > 1:
            yield f"{call} had its effect ({kind}) {times} times"


def _unknown_to_the_log(events: Sequence[Event], effects: Sequence[Effect]) -> Iterable[str]:
    for effect in effects:
        call, attempt = effect["call"], effect["attempt"]
        what = f"{effect['kind']} of {call}, attempt {attempt}"
        if not any(event.attempt == attempt for event in _of(ToolCallStarted, call, events)):
            yield f"{what}: it happened, and no start of it is on record"
        doubted = any(event.attempt == attempt for event in _of(ToolCallInDoubt, call, events))
        if not doubted and not _of(ToolCallSucceeded, call, events):
            yield f"{what}: it happened, and the log neither says so nor doubts"
        if _of(ToolCallFailed, call, events):
            yield f"{what}: it happened, and is reported as failed"


def _unusable_prefixes(events: Sequence[Event]) -> Iterable[str]:
    run_id = events[0].run_id
    folded = RunState(run_id)
    for event in events:
        folded = evolve(folded, event)
        if folded != fold(run_id, events[: event.seq]):
            yield f"the log folds differently up to event {event.seq}"
        if not folded.messages():
            yield f"the log renders to nothing up to event {event.seq}"
    if folded.in_doubt:
        yield "calls are left in doubt: " + ", ".join(call.call_id for call in folded.in_doubt)


def _of(event_type: type[AboutACall], call_id: str, events: Sequence[Event]) -> list[AboutACall]:
    return [event for event in events if isinstance(event, event_type) and event.call_id == call_id]
