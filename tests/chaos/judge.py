"""The judge: says which promise was broken, from the log and the world alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from perdure import AgentRuns, RunStatus
from perdure.domain.calls import idempotency_key_for
from perdure.domain.events import Event, RunClaimed, ToolCallStarted
from perdure.domain.messages import ToolResultsMessage
from perdure.domain.state import RunState
from tests.chaos.program import expected_answer, plan_of
from tests.chaos.world import Effect, World


@dataclass
class Verdicts:
    """What the judge found.

    Attributes:
        faults: Broken promises, in words; none is what is wanted.
        expected: Effects that should be there, reads left out.
        seen: Effects that are there, reads left out, each call once.
        duplicated: Effects that happened more than once and must not.
    """

    faults: list[str] = field(default_factory=list)
    runs: int = 0
    expected: int = 0
    seen: int = 0
    duplicated: int = 0
    takeovers: int = 0


def judge(runs: AgentRuns, run_ids: list[str], world: World) -> Verdicts:
    """Compare what is on record and what happened with an uninterrupted run."""
    found = Verdicts(runs=len(run_ids))
    effects = world.effects()
    counts = Counter((effect.tool, effect.key) for effect in effects)
    for run_id in run_ids:
        state = runs.state(run_id)
        _judge_answer(state, found)
        _judge_effects(state, counts, found)
        _judge_log(runs, run_id, effects, found)
    return found


def _judge_answer(state: RunState, found: Verdicts) -> None:
    if state.status is not RunStatus.COMPLETED:
        found.faults.append(f"{state.run_id} is {state.status}, not completed")
    elif state.answer != expected_answer(state.run_id):
        told = [
            result.content
            for message in state.messages()
            if isinstance(message, ToolResultsMessage)
            for result in message.results
            if " did " not in result.content
        ]
        found.faults.append(f"{state.run_id} answered otherwise; results that were not expected: {told}")
    steps = len(plan_of(state.run_id)) + 1
    if state.is_finished and (state.steps, state.tokens) != (steps, steps * 15):
        found.faults.append(f"{state.run_id} counts {state.steps} steps and {state.tokens} tokens")


def _judge_effects(state: RunState, counts: Counter[tuple[str, str]], found: Verdicts) -> None:
    for step, tools in enumerate(plan_of(state.run_id), start=1):
        for place, tool in enumerate(tools, start=1):
            suffix = f":call_{step}_{place}_"
            times = [
                count
                for (name, key), count in counts.items()
                if name == tool and key.startswith(f"perdure:{state.run_id}{suffix}")
            ]
            if tool == "look_up":
                continue
            found.expected += 1
            found.seen += bool(times)
            if not times and state.status is RunStatus.COMPLETED:
                found.faults.append(f"{state.run_id} {suffix}: {tool} never happened")
            if tool != "open_ticket" and times and times[0] > 1:
                found.duplicated += 1
                found.faults.append(f"{state.run_id} {suffix}: {tool} happened {times[0]} times")


def _judge_writers(events: Sequence[Event], world: Sequence[Effect], found: Verdicts) -> None:
    """Each attempt was started under a claim, and ran in the process that had made it."""
    owner = ""
    started_by: dict[tuple[str, int], str] = {}
    for event in events:
        if isinstance(event, RunClaimed):
            owner = event.worker.split(":")[1]
        elif isinstance(event, ToolCallStarted):
            started_by[event.call_id, event.attempt] = owner
    for effect in world:
        if effect.run_id == events[0].run_id:
            starter = started_by.get((effect.call_id, effect.attempt))
            if starter != str(effect.pid):
                found.faults.append(
                    f"{effect.run_id} {effect.call_id}: attempt {effect.attempt} was started by process "
                    f"{starter} and acted in {effect.pid}"
                )


def _judge_log(runs: AgentRuns, run_id: str, effects: Sequence[Effect], found: Verdicts) -> None:
    events = runs.events(run_id)
    _judge_writers(events, effects, found)
    claims = [event for event in events if isinstance(event, RunClaimed)]
    found.takeovers += max(0, len(claims) - 1)
    epochs = [claim.epoch for claim in claims]
    if epochs != sorted(set(epochs)):
        found.faults.append(f"{run_id}: epochs {epochs} do not grow: somebody wrote beside the owner")
    started = {
        idempotency_key_for(run_id, event.call_id) for event in events if isinstance(event, ToolCallStarted)
    }
    unknown = [effect.key for effect in effects if effect.run_id == run_id and effect.key not in started]
    if unknown:
        found.faults.append(f"{run_id}: effects without a start on record: {unknown}")
