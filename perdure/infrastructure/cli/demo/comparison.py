"""Comparing a killed and resumed run with one that nobody disturbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from perdure.domain.calls import call_id_for
from perdure.domain.events import EscalationResolved, Event, ToolCallStarted, ToolCallSucceeded
from perdure.domain.evolution import evolve, fold
from perdure.domain.state import RunState, RunStatus
from perdure.domain.tools import Policy
from perdure.infrastructure.cli.demo.kill import KillPoint

Effects = Mapping[str, Sequence[Mapping[str, Any]]]
_MARKS = {"run", "call", "key", "id", "receipt"}
"""What tells one effect from another like it: who asked, and what it was called."""


class Scenario(BaseModel):
    """A run that was killed at one point and finished by another process.

    Attributes:
        effects_expected: Tickets, mails and refunds of the run that nobody disturbed.
        effects_seen: Those of this run.
        settled: How the outcome of the call became known.
        faults: Broken promises, in words.
    """

    kill_point: str
    policy: str
    request: str
    tool: str
    run_id: str
    effects_expected: int
    effects_seen: int
    answer_equal: bool
    budget_equal: bool
    settled: str
    attempts: int
    faults: list[str]

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return not self.faults


def compare(
    point: KillPoint,
    request: str,
    tool: str,
    policy: str,
    events: Sequence[Event],
    undisturbed: RunState,
    effects: Effects,
    trouble: str | None,
) -> Scenario:
    """Find out what a killed run kept of its promises.

    Args:
        point: Where its worker was killed.
        request: Whose request it was.
        tool: The tool that was being called.
        policy: That tool's policy.
        events: The run's log.
        undisturbed: The same request's run that nobody disturbed.
        effects: What happened in the world.
        trouble: What went wrong with the killing itself, if anything did.
    """
    run_id = events[0].run_id
    state = fold(run_id, events)
    expected = effects_of(effects, undisturbed.run_id)
    seen = effects_of(effects, run_id)
    answer_equal = state.status is RunStatus.COMPLETED and state.answer == undisturbed.answer
    budget_equal = _used(state) == _used(undisturbed) and state.deadline == fold(run_id, events[:1]).deadline
    faults = [trouble] if trouble is not None else []
    if state.status is not RunStatus.COMPLETED:
        faults.append(f"the run is {state.status}" + (f": {state.escalation}" if state.escalation else ""))
    elif not answer_equal:
        faults.append(f"it answered {state.answer!r}, and undisturbed {undisturbed.answer!r}")
    if seen != expected:
        faults.append(f"effects: {seen}, and undisturbed {expected}")
    if not budget_equal:
        faults.append(f"steps and tokens: {_used(state)}, and undisturbed {_used(undisturbed)}")
    faults += _faults_of_log(run_id, events, state)
    call_id = call_id_for(run_id, 1, 2)
    return Scenario(
        kill_point=point.value,
        policy=policy,
        request=request,
        tool=tool,
        run_id=run_id,
        effects_expected=len(expected),
        effects_seen=len(seen),
        answer_equal=answer_equal,
        budget_equal=budget_equal,
        settled=how_settled(call_id, events, policy),
        attempts=sum(isinstance(event, ToolCallStarted) and event.call_id == call_id for event in events),
        faults=faults,
    )


def effects_of(effects: Effects, run_id: str) -> list[str]:
    """What happened in the world for a run, in words that are the same for every run of a request."""
    return sorted(
        f"{kind}: " + ", ".join(f"{name}={value}" for name, value in effect.items() if name not in _MARKS)
        for kind, found in effects.items()
        for effect in found
        if effect["run"] == run_id
    )


def how_settled(call_id: str, events: Sequence[Event], policy: str) -> str:
    """Say how the outcome of a call became known."""
    starts = sum(isinstance(event, ToolCallStarted) and event.call_id == call_id for event in events)
    for event in events:
        if isinstance(event, EscalationResolved) and event.call_id == call_id:
            return f"{event.by} said {event.resolution}"
    for event in events:
        if isinstance(event, ToolCallSucceeded) and event.call_id == call_id:
            if event.known_by == "verified":
                return "verify: it had landed"
            one_key = " with one key" if policy == Policy.RERUN_WITH_IDEMPOTENCY_KEY else ""
            return f"ran {starts} times{one_key}" if starts > 1 else "ran once"
    return "not settled"


def _used(state: RunState) -> tuple[int, int]:
    return state.steps, state.tokens


def _faults_of_log(run_id: str, events: Sequence[Event], state: RunState) -> list[str]:
    faults: list[str] = []
    folded = RunState(run_id)
    for event in events:
        folded = evolve(folded, event)
        if folded != fold(run_id, events[: event.seq]):
            faults.append(f"the log folds differently up to event {event.seq}")
        if not folded.messages():
            faults.append(f"the log renders to nothing up to event {event.seq}")
    if state.in_doubt:
        faults.append("calls are left in doubt")
    return faults
