"""What holds of every log that a run can write, in whatever world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as for_all

from perdure.domain.calls import CallStatus
from perdure.domain.events import (
    BudgetExtended,
    CancelRequested,
    EscalationResolved,
    Event,
    ModelResponded,
    RunStarted,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallStarted,
    ToolCallSucceeded,
    ToolCallVerified,
)
from perdure.domain.evolution import fold
from perdure.domain.messages import AssistantMessage, Message, ToolResultsMessage, UserMessage, wire_ids
from perdure.domain.moves import Rest
from perdure.domain.run import AgentRun
from perdure.domain.state import RunStatus
from perdure.domain.tools import Policy
from perdure.testing import RunLog

from .random_runs import CONTRACTS, LIMITS, TOOLS, random_runs
from .situations import PERSON, RERUN, VERIFY, in_doubt, started

every_run = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def prefixes(log: Sequence[Event]) -> list[Sequence[Event]]:
    return [log[:cut] for cut in range(1, len(log) + 1)]


def require_acceptable(messages: Sequence[Message]) -> None:
    """Hold what providers hold: a result for each call right behind it, and none without its call."""
    for message, behind in pairwise([*messages, UserMessage(text="end")]):
        if isinstance(message, AssistantMessage) and message.tool_calls:
            assert isinstance(behind, ToolResultsMessage), "a call without its result"
            asked = [call.call_id for call in message.tool_calls]
            assert [result.call_id for result in behind.results] == asked
    for before, message in pairwise([UserMessage(text="start"), *messages]):
        if isinstance(message, ToolResultsMessage):
            assert isinstance(before, AssistantMessage), "a result without its call"
            assert before.tool_calls
    ids = wire_ids(messages)
    assert len(set(ids.values())) == len(ids)


def require_repeats_allowed(log: Sequence[Event], tools: dict[str, Policy]) -> None:
    """Hold that a call is started again only if its policy, `verify` or a person said so."""
    for number, event in enumerate(log):
        if not isinstance(event, ToolCallStarted) or event.attempt == 1:
            continue
        last = max(
            i
            for i, each in enumerate(log[:number])
            if isinstance(each, ToolCallStarted) and each.call_id == event.call_id
        )
        between = [each for each in log[last:number] if getattr(each, "call_id", None) == event.call_id]
        assert any(isinstance(each, ToolCallInDoubt) for each in between), (
            "repeated without a doubt on record"
        )
        assert not any(isinstance(each, ToolCallSucceeded | ToolCallFailed) for each in between)
        person = any(isinstance(each, EscalationResolved) and each.resolution == "rerun" for each in between)
        verdict = any(isinstance(each, ToolCallVerified) and each.verdict == "not_landed" for each in between)
        policy = tools[event.call_id]
        assert (
            person
            or {
                Policy.RERUN: True,
                Policy.RERUN_WITH_IDEMPOTENCY_KEY: event.at - first_start(log, event.call_id)
                < timedelta(seconds=40),
                Policy.VERIFY_THEN_DECIDE: verdict,
                Policy.ESCALATE_IF_UNKNOWN: False,
            }[policy]
        ), f"{policy} call repeated"


def first_start(log: Sequence[Event], call_id: str) -> datetime:
    return next(each.at for each in log if isinstance(each, ToolCallStarted) and each.call_id == call_id)


def policies(log: Sequence[Event]) -> dict[str, Policy]:
    calls = [call for each in log if isinstance(each, ModelResponded) for call in each.message.tool_calls]
    return {call.call_id: CONTRACTS[call.name].policy for call in calls if call.name in CONTRACTS}


@every_run
@for_all(random_runs())
def test_messages_of_any_prefix(log: list[Event]) -> None:
    """A log cut after any event renders to messages that providers accept, and nothing is lost in it."""
    for prefix in prefixes(log):
        messages = fold("run-1", prefix).messages()
        require_acceptable(messages)
        said = sum(type(each).__name__ == "InputAdded" for each in prefix)
        assert sum(isinstance(message, UserMessage) for message in messages) == 1 + said
        responses = sum(isinstance(each, ModelResponded) for each in prefix)
        assert sum(isinstance(message, AssistantMessage) for message in messages) == responses


@every_run
@for_all(random_runs())
def test_repeats(log: list[Event]) -> None:
    """No side effect is repeated that must not be."""
    require_repeats_allowed(log, policies(log))


@every_run
@for_all(random_runs())
def test_nothing_denied(log: list[Event]) -> None:
    """A call that may have happened is not reported as one that did not, to the model or in the log."""
    for prefix in prefixes(log):
        state = fold("run-1", prefix)
        for call in state.calls.values():
            if call.status in (CallStatus.STARTED, CallStatus.IN_DOUBT, CallStatus.CLEARED):
                assert "may or may not have happened" in call.result().content
    for number, event in enumerate(log):
        if not isinstance(event, ToolCallFailed):
            continue
        before = [each for each in log[:number] if getattr(each, "call_id", None) == event.call_id]
        if event.known_by == "refused":
            assert not before
        if event.known_by == "verified":
            assert isinstance(before[-1], ToolCallVerified)
            assert before[-1].verdict == "not_landed"


@every_run
@for_all(random_runs())
def test_not_landed_is_believed_late(log: list[Event]) -> None:
    """No verdict "not landed" stands in a log before the attempt could no longer act."""
    starts: dict[str, ToolCallStarted] = {}
    for event in log:
        if isinstance(event, ToolCallStarted):
            starts[event.call_id] = event
        if isinstance(event, ToolCallVerified) and event.verdict == "not_landed":
            last = starts[event.call_id]
            assert event.at >= last.at + timedelta(seconds=last.timeout + (last.settle or 0))


@every_run
@for_all(random_runs())
def test_nothing_starts_too_late(log: list[Event]) -> None:
    """Nothing starts from the deadline on, or once the run is to stop; budgets of steps hold."""
    deadline, steps, limit, stopping = None, 0, None, False
    for event in log:
        if isinstance(event, RunStarted):
            deadline, limit = event.deadline, event.budget.steps
        if isinstance(event, BudgetExtended):
            deadline = event.deadline or deadline
            limit = limit + (event.more.steps or 0) if limit is not None else None
        stopping = stopping or isinstance(event, CancelRequested)
        if isinstance(event, ToolCallStarted):
            assert not stopping
            assert deadline is None or event.at < deadline
        if isinstance(event, ModelResponded):
            steps += 1
            assert limit is None or steps <= limit


@every_run
@for_all(random_runs())
def test_order(log: list[Event]) -> None:
    """Events are numbered without gaps, time never goes back, and few calls run at a time."""
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    assert all(one.at <= other.at for one, other in pairwise(log))
    for prefix in prefixes(log):
        state = fold("run-1", prefix)
        ours = [
            call
            for call in state.calls.values()
            if call.status is CallStatus.STARTED and call.epoch == state.epoch
        ]
        assert len(ours) <= LIMITS.parallel_calls


@every_run
@for_all(random_runs())
def test_any_prefix_goes_on(log: list[Event]) -> None:
    """A log cut after any event can be resumed, repeats nothing that must not be, and comes to something."""
    for prefix in prefixes(log):
        run = AgentRun.from_events("run-1", prefix)
        now = log[-1].at
        if not run.state.is_resting:
            run.claim("rescue", run.state.epoch + 1, "expired", now)
        move = run.advance(now, TOOLS, LIMITS)
        if isinstance(move, Rest):
            assert run.state.is_resting
            assert not any(call.status is CallStatus.STARTED for call in run.state.calls.values()) or (
                run.state.is_finished
            )
        require_repeats_allowed([*prefix, *run.pending], policies(log))


@every_run
@for_all(random_runs())
def test_a_rest_has_a_reason(log: list[Event]) -> None:
    """A run that rests has ended, or asks a person something; what it asks is still open."""
    for prefix in prefixes(log):
        state = fold("run-1", prefix)
        assert (state.status is RunStatus.ESCALATED) == (state.escalation is not None)
        if state.escalation is not None:
            assert state.escalation.ask
            assert all(state.calls[each].status is CallStatus.IN_DOUBT for each in state.escalation.calls)


@every_run
@for_all(random_runs())
def test_decided_once(log: list[Event]) -> None:
    """A person's word about a call stands alone: no second one about the same attempt."""
    words: Counter[tuple[str, int]] = Counter()
    attempts: Counter[str] = Counter()
    for event in log:
        if isinstance(event, ToolCallStarted):
            attempts[event.call_id] += 1
        if isinstance(event, EscalationResolved) and event.call_id and event.resolution != "abandon":
            words[event.call_id, attempts[event.call_id]] += 1
    assert not words or max(words.values()) == 1


# -- the checks themselves -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "policy"),
    [
        (started(PERSON).crashed().call_in_doubt().call_started(), PERSON),
        (in_doubt(VERIFY).call_verified().call_started(1, policy=VERIFY), VERIFY),
        (started(RERUN).crashed().call_started(1, policy=RERUN), RERUN),
        (in_doubt(RERUN).call_succeeded().call_started(1, policy=RERUN), RERUN),
    ],
    ids=["without a person", "without a verdict", "without a doubt", "after success"],
)
def test_a_forbidden_repeat_is_seen(log: RunLog, policy: Policy) -> None:
    """The check of repeats fails for a log with one that must not be."""
    with pytest.raises(AssertionError):
        require_repeats_allowed(log, {log.call_id(1): policy})


def test_unacceptable_messages_are_seen() -> None:
    """The check of messages fails where a result is missing, late, alone or twice."""
    question, response, results = started(RERUN).state.messages()
    require_acceptable([question, response, results])
    for bad in (
        [question, response],
        [question, results],
        [question, response, question, results],
        [question, response, results, results],
        [question, response, ToolResultsMessage(results=())],
    ):
        with pytest.raises(AssertionError):
            require_acceptable(bad)
