"""What workers tell a run, and what it answers."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest

from perdure.domain.budget import Budget
from perdure.domain.calls import call_id_for
from perdure.domain.content import InlineContent
from perdure.domain.errors import CallNotFound, InvalidInput, RunFinished, RunNotRunnable
from perdure.domain.events import (
    ModelCallFailed,
    ModelResponded,
    RunClaimed,
    RunCompleted,
    RunEscalated,
    RunStarted,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallStarted,
    ToolCallSucceeded,
)
from perdure.domain.messages import (
    AssistantMessage,
    OpaquePart,
    Reply,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    Usage,
    UserMessage,
)
from perdure.domain.moves import AskModel, Rest
from perdure.domain.pins import Pins
from perdure.domain.run import AgentRun
from perdure.testing import RunLog, a_run, asks, event, given, says, together

from .situations import PERSON, RERUN, advance, asked, started

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PINS = Pins(model="m", prompt_version="v1", prompt="Be kind.", tools=())
CALL = call_id_for("run-1", 1, 1)
RESULT = InlineContent(text="RF-1")

FINISHED = [
    a_run().claimed().responded("Done.").completed(),
    started(PERSON).call_in_doubt().escalated("calls_in_doubt", 1).resolved(1, "abandon").run_failed(),
    started(PERSON).cancel_requested().call_in_doubt().cancelled(),
]


def begin(*messages: UserMessage | AssistantMessage, budget: Budget = Budget()) -> AgentRun:  # noqa: B008
    return AgentRun.start("run-1", agent="a", messages=messages, pins=PINS, budget=budget, now=NOW)


def test_start() -> None:
    """A run starts with its input, its pins and its budget, and its time runs from then on."""
    budget = Budget(steps=3, wall_clock=timedelta(hours=1))
    hello = UserMessage(text="hello")
    given().when(lambda _: begin(hello, budget=budget)).then(
        event(
            RunStarted,
            run_id="run-1",
            seq=1,
            at=NOW,
            agent="a",
            input=(hello,),
            pins=PINS,
            budget=budget,
            deadline=NOW + timedelta(hours=1),
        )
    ).when(advance(NOW)).then_nothing().then_returns(AskModel(1))


def test_start_with_conversation() -> None:
    """A run may go on from a conversation in text."""
    conversation = (
        UserMessage(text="hello"),
        AssistantMessage(parts=(TextPart(text="hi"),)),
        UserMessage(text="and?"),
    )
    outcome = given().when(lambda _: begin(*conversation)).then(event(RunStarted, input=conversation))
    assert outcome.state.messages() == list(conversation)


@pytest.mark.parametrize(
    "messages",
    [
        (),
        (AssistantMessage(parts=(TextPart(text="hi"),)),),
        (AssistantMessage(parts=()), UserMessage(text="x")),
        (
            AssistantMessage(parts=(ToolCallPart(name="t", arguments="{}", call_id="c"),)),
            UserMessage(text="x"),
        ),
    ],
    ids=["nothing", "no question", "empty message", "call without result"],
)
def test_start_refused(messages: tuple[UserMessage | AssistantMessage, ...]) -> None:
    """A conversation that no model could be shown starts no run."""
    given().when(lambda _: begin(*messages)).then_raises(InvalidInput)


def test_claim() -> None:
    """A claim says who, under which epoch, and how the run was left."""
    given(a_run()).when(lambda run: run.claim("w1", 4, "expired", NOW)).then(
        event(RunClaimed, worker="w1", epoch=4, left="expired")
    )


def test_claim_refused() -> None:
    """A run that rests is not claimed, and an epoch is never used twice."""
    for log in (*FINISHED, started(PERSON).call_in_doubt().escalated()):
        given(log).when(lambda run: run.claim("w", 9, "released", NOW)).then_raises(RunNotRunnable)
    given().when(lambda run: run.claim("w", 1, "new", NOW)).then_raises(RunNotRunnable)
    for epoch in (0, 1):
        claimed = a_run().claimed()
        given(claimed).when(lambda run, e=epoch: run.claim("w", e, "expired", NOW)).then_raises(ValueError)


def test_response() -> None:
    """A response is recorded as it came, and its calls get ids of ours beside the provider's."""
    reply = Reply(
        parts=(
            ThinkingPart(text="hm", opaque={"signature": "abc"}),
            TextPart(text="Let me look."),
            *asks("read", {"n": 1}, id="x").parts,
            OpaquePart(opaque={"search": [1, None]}),
            *asks("read", "{broken", id="x").parts,
        ),
        usage=Usage(input_tokens=5, output_tokens=7),
        finish_reason="tool_calls",
        model="m-2026",
    )
    parts = (
        reply.parts[0],
        reply.parts[1],
        ToolCallPart(provider_call_id="x", name="read", arguments='{"n": 1}', call_id=CALL),
        reply.parts[3],
        ToolCallPart(
            provider_call_id="x", name="read", arguments="{broken", call_id=call_id_for("run-1", 1, 2)
        ),
    )
    outcome = given(a_run().claimed()).when(lambda run: run.respond(reply, seen=2, now=NOW))
    outcome.then(
        event(
            ModelResponded,
            step=1,
            seen=2,
            message=AssistantMessage(parts=parts),
            usage=reply.usage,
            finish_reason="tool_calls",
            model="m-2026",
        )
    )
    assert (outcome.state.steps, outcome.state.tokens) == (1, 12)


def test_call_ids_are_stable() -> None:
    """The id of a call depends on run, step and position alone, and no two calls of a run share one."""
    assert CALL == call_id_for("run-1", 1, 1) == "call_1_1_4e65d3fb"
    places = [(step, position) for step in range(1, 30) for position in range(1, 30)]
    assert len({call_id_for("run-1", *place) for place in places}) == len(places)
    assert call_id_for("run-2", 1, 1) != CALL


def test_response_with_calls_open() -> None:
    """A response cannot come while a call of the last step has no outcome: its result would be lost."""
    for log in (asked("read"), started(PERSON), started(PERSON).call_in_doubt()):
        given(log).when(lambda run: run.respond(says("x"), seen=3, now=NOW)).then_raises(RunNotRunnable)


def test_completion() -> None:
    """A response that asks for nothing ends the run with its text, once everything is settled."""
    log = a_run().claimed().responded(together(says("All "), says("done.")))
    given(log).when(advance(log.now)).then(event(RunCompleted, answer="All done.")).then_returns(Rest())


def test_model_failure() -> None:
    """Failures of a model call are counted until it answers."""
    retry_at = NOW + timedelta(seconds=9)
    log = a_run().claimed()
    given(log).when(lambda run: run.model_failed("transient", "overloaded", retry_at=retry_at, now=NOW)).then(
        event(
            ModelCallFailed, step=1, attempt=1, failure="transient", message="overloaded", retry_at=retry_at
        )
    ).when(lambda run: run.model_failed("permanent", "bad key", retry_at=None, now=NOW)).then(
        event(ModelCallFailed, step=1, attempt=2, failure="permanent", retry_at=None)
    ).when(lambda run: run.respond(asks("read"), seen=2, now=NOW)).then(ModelResponded)
    answered = log.model_failed(retry_in=1).responded(asks("read")).call_started().call_succeeded()
    given(answered).when(lambda run: run.model_failed("transient", "x", retry_at=None, now=NOW)).then(
        event(ModelCallFailed, step=2, attempt=1)
    )


def test_call_ends() -> None:
    """A call under way succeeds, fails, or falls in doubt."""
    log = started(PERSON)
    given(log).when(lambda run: run.call_succeeded(CALL, RESULT, NOW)).then(
        event(ToolCallSucceeded, call_id=CALL, content=RESULT, known_by="ran")
    )
    given(log).when(lambda run: run.call_failed(CALL, "no such order", NOW)).then(
        event(ToolCallFailed, call_id=CALL, error="no such order", known_by="ran")
    )
    given(log).when(lambda run: run.call_in_doubt(CALL, "timeout", NOW, "300 s")).then(
        event(ToolCallInDoubt, call_id=CALL, attempt=1, why="timeout", detail="300 s")
    )


SUCCEEDED = started(PERSON).call_succeeded()


@pytest.mark.parametrize(
    ("log", "error"),
    [
        (asked("refund"), RunNotRunnable),
        (started(PERSON).call_in_doubt(), RunNotRunnable),
        (SUCCEEDED, RunNotRunnable),
        (started(PERSON).call_failed(), RunNotRunnable),
        (a_run().claimed().responded("x"), CallNotFound),
        *((log, RunFinished) for log in FINISHED),
        ([], RunNotRunnable),
    ],
)
def test_end_of_a_call_that_is_not_under_way(log: RunLog, error: type[Exception]) -> None:
    """The end of a call is taken only of one that was started; what is known is never overwritten."""
    given(log).when(lambda run: run.call_succeeded(CALL, RESULT, NOW)).then_raises(error)
    given(log).when(lambda run: run.call_failed(CALL, "x", NOW)).then_raises(error)
    given(log).when(lambda run: run.call_in_doubt(CALL, "crash", NOW)).then_raises(error)


@pytest.mark.parametrize("log", FINISHED)
def test_finished(log: RunLog) -> None:
    """A run that has ended takes in nothing more, and needs nothing."""
    given(log).when(lambda run: run.respond(says("x"), seen=1, now=NOW)).then_raises(
        RunFinished, match="start a new"
    )
    given(log).when(lambda run: run.model_failed("transient", "x", retry_at=None, now=NOW)).then_raises(
        RunFinished
    )
    given(log).when(lambda run: run.escalate("pins", "x", "y", NOW)).then_raises(RunNotRunnable)
    given(log).when(advance(NOW)).then_nothing().then_returns(Rest())


def test_not_started() -> None:
    """A run without a log needs nothing and takes in nothing."""
    given().when(advance(NOW)).then_nothing().then_returns(Rest())
    given().when(lambda run: run.respond(says("x"), seen=0, now=NOW)).then_raises(
        RunNotRunnable, match="has not been started"
    )


def test_escalate() -> None:
    """A run may be left to a person for a reason of the program, and rests then."""
    log = a_run().claimed()
    given(log).when(lambda run: run.escalate("pins", "tool gone", "deploy it", NOW)).then(
        event(RunEscalated, why="pins", message="tool gone", ask="deploy it", calls=())
    ).when(advance(NOW)).then_nothing().then_returns(Rest()).when(
        lambda run: run.escalate("pins", "x", "y", NOW)
    ).then_raises(RunNotRunnable)


def test_escalate_with_a_call_under_way() -> None:
    """A run that is left to a person leaves no call as under way: nobody will see its end."""
    log = started(PERSON).crashed()
    given(log).when(lambda run: run.escalate("pins", "tool gone", "deploy it", NOW)).then(
        event(ToolCallInDoubt, call_id=CALL, why="crash"), RunEscalated
    )


def test_time_never_goes_back() -> None:
    """An event is never recorded as earlier than the one before, whatever the clock says."""
    log = a_run().after(60).claimed()
    outcome = given(log).when(lambda run: run.respond(asks("read"), seen=2, now=NOW))
    outcome.when(advance(NOW - timedelta(days=1))).then(event(ToolCallStarted, at=log.now))
    both = [*log, *outcome.events]
    assert all(one.at <= next_.at for one, next_ in pairwise(both))


def test_time_is_utc() -> None:
    """A moment is kept in UTC, wherever it was told."""
    tokyo = NOW.astimezone(timezone(timedelta(hours=9)))
    outcome = given(a_run()).when(lambda run: run.claim("w", 1, "new", tokyo)).then(event(RunClaimed, at=NOW))
    assert outcome.events[0].at.tzinfo is UTC


def test_pending_and_committed() -> None:
    """Events are pending until they are stored; then the run stands at their version."""
    run = a_run().run
    run.claim("w", 1, "new", NOW)
    assert (run.version, run.stored_version, [type(e) for e in run.pending]) == (2, 1, [RunClaimed])
    run.committed()
    assert (run.version, run.stored_version, run.pending) == (2, 2, ())
    run.respond(says("x"), seen=2, now=NOW)
    assert [type(e) for e in run.collect_events()] == [ModelResponded]
    assert (run.stored_version, run.pending) == (3, ())


def test_rebase() -> None:
    """What somebody else stored replaces what was pending, and the decision can be made again on top."""
    log = a_run().claimed()
    run = log.run
    run.respond(says("mine"), seen=2, now=NOW)
    theirs = log.input_added("theirs")[-1]
    run.rebase([theirs])
    assert (run.version, run.pending) == (3, ())
    run.respond(says("mine"), seen=2, now=NOW)
    assert [message.kind for message in run.state.messages()] == ["user", "assistant", "user"]
    assert run.state.messages() == log.also(theirs, *run.pending).state.messages()


def test_refused_command_leaves_no_trace() -> None:
    """A run that refused a command stands where it stood."""
    run = started(RERUN).run
    before = run.state
    with pytest.raises(CallNotFound, match=re.escape("there: " + CALL)):
        run.call_succeeded("call_0", RESULT, NOW)
    assert run.state is before
    assert not run.pending
