"""What must hold of every run, however often its processes died: checked on the log and on the world."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import pairwise

from perdure import Policy
from perdure.domain.calls import idempotency_key_for
from perdure.domain.events import (
    BudgetExtended,
    Event,
    ModelResponded,
    RunClaimed,
    RunStarted,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallStarted,
    ToolCallSucceeded,
    ToolCallVerified,
)
from perdure.domain.evolution import fold
from perdure.domain.messages import AssistantMessage, Message, ToolResultsMessage, UserMessage
from tests.support.cluster import Outcome
from tests.support.scenarios import TOOLS

ONCE = (Policy.VERIFY_THEN_DECIDE, Policy.ESCALATE_IF_UNKNOWN)


def violations(outcome: Outcome, uninterrupted: Outcome | None = None) -> list[str]:
    """Return what does not hold, each as "kind: what"; compared with an uninterrupted run, if given."""
    found = [
        *_repeated_effects(outcome),
        *_wrong_keys(outcome),
        *_denied_effects(outcome),
        *_unmarked_effects(outcome),
        *_disorder(outcome.events),
        *_stale_writes(outcome.events),
        *_overspent(outcome),
        *_unpinned(outcome),
    ]
    for end in range(1, len(outcome.events) + 1):
        state = fold(outcome.state.run_id, outcome.events[:end])
        found += [f"messages at {end}: {fault}" for fault in message_faults(state.messages())]
    if uninterrupted is not None:
        found += _other_end(outcome, uninterrupted)
    return found


def message_faults(messages: Sequence[Message]) -> list[str]:
    """Say what no provider accepts: each call needs one result, right behind the message that asks for it."""
    faults: list[str] = []
    if not messages or not isinstance(messages[0], UserMessage):
        faults.append("the conversation does not begin with the user")
    for at, message in enumerate(messages):
        follows = messages[at + 1] if at + 1 < len(messages) else None
        if isinstance(message, AssistantMessage) and message.tool_calls:
            if not isinstance(follows, ToolResultsMessage):
                faults.append(f"message {at} asks for calls, and no results follow")
            elif [r.call_id for r in follows.results] != [c.call_id for c in message.tool_calls]:
                faults.append(f"the results behind message {at} are not those of its calls")
        if isinstance(message, ToolResultsMessage):
            before = messages[at - 1] if at else None
            if not (isinstance(before, AssistantMessage) and before.tool_calls):
                faults.append(f"message {at} brings results that nobody asked for")
    return faults


def _repeated_effects(outcome: Outcome) -> Iterator[str]:
    done: dict[str, set[str]] = {}
    for effect in outcome.world.effects:
        if TOOLS[effect.tool] is Policy.RERUN_WITH_IDEMPOTENCY_KEY:
            done.setdefault(effect.call_id, set()).add(effect.key)
            if len(done[effect.call_id]) > 1:
                yield f"repeated effect: {effect.call_id} reached its service under another key"
    for call_id, times in outcome.world.times().items():
        policy = next(TOOLS[e.tool] for e in outcome.world.effects if e.call_id == call_id)
        if policy in ONCE and times > 1:
            yield f"repeated effect: {call_id} happened {times} times"


def _wrong_keys(outcome: Outcome) -> Iterator[str]:
    for event in outcome.events:
        if isinstance(event, ToolCallStarted):
            expected = idempotency_key_for(event.run_id, event.call_id)
            if event.idempotency_key != expected:
                yield f"wrong key: {event.call_id} was started under {event.idempotency_key!r}"
    owners: dict[str, str] = {}
    for effect in outcome.world.effects:
        if owners.setdefault(effect.key, effect.call_id) != effect.call_id:
            yield f"wrong key: {effect.call_id} and {owners[effect.key]} share one"


def _denied_effects(outcome: Outcome) -> Iterator[str]:
    happened = {e.call_id for e in outcome.world.effects if TOOLS[e.tool] is not Policy.RERUN}
    for event in outcome.events:
        if isinstance(event, ToolCallFailed) and event.call_id in happened:
            yield f"denied effect: {event.call_id} happened, and the log says that it failed"
        if (
            isinstance(event, ToolCallVerified)
            and event.verdict == "not_landed"
            and any(e.call_id == event.call_id and e.attempt <= event.attempt for e in outcome.world.effects)
        ):
            yield f"denied effect: {event.call_id} happened, and the log says that it did not land"
    for _, request in outcome.requests:
        for message in request.messages:
            for result in message.results if isinstance(message, ToolResultsMessage) else ():
                if result.call_id in happened and not result.ok:
                    yield f"denied effect: {result.call_id} happened, the model was told {result.content!r}"


def _unmarked_effects(outcome: Outcome) -> Iterator[str]:
    for effect in outcome.world.effects:
        if not effect.was_marked:
            yield f"unmarked effect: {effect.call_id} acted before its start was on record"


def _disorder(events: Sequence[Event]) -> Iterator[str]:
    if [event.seq for event in events] != list(range(1, len(events) + 1)):
        yield "disorder: versions are not 1, 2, 3, ..."
    if any(later.at < earlier.at for earlier, later in pairwise(events)):
        yield "disorder: time goes back"
    open_calls: dict[str, str] = {}
    ends: dict[str, int] = {}
    for event in events:
        match event:
            case ModelResponded():
                if any(status != "done" for status in open_calls.values()):
                    yield f"disorder: step {event.step} began before all calls of the last had an outcome"
                open_calls = {call.call_id: "asked" for call in event.message.tool_calls}
            case ToolCallStarted():
                if open_calls.get(event.call_id) == "started":
                    yield f"disorder: {event.call_id} was started again without being in doubt"
                open_calls[event.call_id] = "started"
            case ToolCallInDoubt():
                open_calls[event.call_id] = "in doubt"
            case ToolCallSucceeded() | ToolCallFailed():
                ends[event.call_id] = ends.get(event.call_id, 0) + 1
                if event.known_by == "ran" and open_calls.get(event.call_id) != "started":
                    yield f"disorder: {event.call_id} ended without having been started"
                if ends[event.call_id] > 1:
                    yield f"disorder: {event.call_id} has {ends[event.call_id]} outcomes"
                open_calls[event.call_id] = "done"
            case _:
                pass


def _stale_writes(events: Sequence[Event]) -> Iterator[str]:
    epoch = 0
    started_in: dict[str, int] = {}
    for event in events:
        if isinstance(event, RunClaimed):
            if event.epoch <= epoch:
                yield f"stale write: epoch {event.epoch} follows epoch {epoch}"
            epoch = event.epoch
        elif isinstance(event, ToolCallStarted):
            started_in[event.call_id] = epoch
        elif isinstance(event, ToolCallSucceeded | ToolCallFailed) and event.known_by == "ran":
            if started_in.get(event.call_id) != epoch:
                yield f"stale write: {event.call_id} ended under epoch {epoch}, and was not started in it"
        elif (
            isinstance(event, ToolCallInDoubt)
            and event.why != "crash"
            and started_in.get(event.call_id) != epoch
        ):
            yield f"stale write: {event.call_id} fell in doubt ({event.why}) under another's epoch {epoch}"


def _overspent(outcome: Outcome) -> Iterator[str]:
    responses = [event for event in outcome.events if isinstance(event, ModelResponded)]
    started = outcome.events[0]
    assert isinstance(started, RunStarted)
    extensions = [event for event in outcome.events if isinstance(event, BudgetExtended)]
    budget, deadline = started.budget, started.deadline
    for extension in extensions:
        budget = budget.extended(extension.more)
        deadline = extension.deadline or deadline
    if budget.steps is not None and len(responses) > budget.steps:
        yield f"overspent: {len(responses)} of {budget.steps} steps"
    spent_before_last = sum(event.usage.tokens for event in responses[:-1])
    if budget.tokens is not None and spent_before_last >= budget.tokens:
        yield f"overspent: the model was called after {spent_before_last} of {budget.tokens} tokens"
    late = [
        event for event in responses if deadline is not None and event.at > deadline + timedelta(minutes=1)
    ]
    if late:
        yield f"overspent: step {late[0].step} came long after the deadline"
    if outcome.state.steps != len(responses):
        yield f"overspent: {len(responses)} steps were made, and {outcome.state.steps} are counted"
    if outcome.state.tokens != sum(event.usage.tokens for event in responses):
        yield f"overspent: {outcome.state.tokens} tokens are counted"
    if outcome.state.deadline != deadline:
        yield f"overspent: the deadline moved to {outcome.state.deadline}"


def _unpinned(outcome: Outcome) -> Iterator[str]:
    started = outcome.events[0]
    assert isinstance(started, RunStarted)
    for model, request in outcome.requests:
        if model != started.pins.model:
            yield f"unpinned: {model!r} was asked, and the run is pinned to {started.pins.model!r}"
        if request.prompt != started.pins.prompt or tuple(request.tools) != started.pins.tools:
            yield "unpinned: the model was shown another prompt, or other tools"


def _other_end(outcome: Outcome, uninterrupted: Outcome) -> Iterator[str]:
    if outcome.state.status != uninterrupted.state.status:
        yield f"other end: {outcome.state.status}, not {uninterrupted.state.status}"
    if outcome.state.answer != uninterrupted.state.answer:
        yield f"other end: the answer is {outcome.state.answer!r}, not {uninterrupted.state.answer!r}"
    if outcome.state.steps != uninterrupted.state.steps:
        yield f"other end: {outcome.state.steps} steps, not {uninterrupted.state.steps}"
    if outcome.state.tokens != uninterrupted.state.tokens:
        yield f"other end: {outcome.state.tokens} tokens, not {uninterrupted.state.tokens}"
    if set(outcome.world.times()) != set(uninterrupted.world.times()):
        yield "other end: not the same calls had an effect"
