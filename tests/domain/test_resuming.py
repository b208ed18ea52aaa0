"""The resume table: what becomes of each call when a run goes on."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from perdure.domain.calls import idempotency_key_for
from perdure.domain.events import (
    DoubtReason,
    RunEscalated,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallStarted,
)
from perdure.domain.moves import Act, AskModel, Limits, Rest
from perdure.domain.tools import Policy
from perdure.testing import event, given, toolbox

from .situations import (
    KEY,
    PERSON,
    RERUN,
    TOOL_OF,
    VERIFY,
    advance,
    asked,
    in_doubt,
    started,
    with_contract,
)

DOUBTS: list[DoubtReason] = ["crash", "timeout", "lost_connection", "cancelled", "exception"]


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("resumed", [False, True])
def test_not_started(policy: Policy, resumed: bool) -> None:
    """A call that never ran is started as usual, by a fresh worker just as by the first."""
    log = asked(TOOL_OF[policy])
    log = log.crashed() if resumed else log
    key = idempotency_key_for("run-1", log.call_id(1))
    started_now = event(
        ToolCallStarted, call_id=log.call_id(1), attempt=1, policy=policy, idempotency_key=key, timeout=300.0
    )
    given(log).when(advance(log.now)).then(started_now).then_returns(Act())


def test_under_way() -> None:
    """A call that this worker is running is left alone."""
    log = started(PERSON)
    given(log).when(advance(log.now)).then_nothing().then_returns(Act())


def test_crash_rerun() -> None:
    """A call that only reads runs again after a crash."""
    log = started(RERUN).crashed()
    given(log).when(advance(log.now)).then(
        event(ToolCallInDoubt, attempt=1, why="crash"), event(ToolCallStarted, attempt=2, policy=RERUN)
    ).then_returns(Act())


def test_crash_key() -> None:
    """A call with an idempotency key runs again after a crash, under the same key."""
    log = started(KEY).crashed()
    key = idempotency_key_for("run-1", log.call_id(1))
    given(log).when(advance(log.now)).then(
        event(ToolCallInDoubt, attempt=1, why="crash"),
        event(ToolCallStarted, attempt=2, idempotency_key=key),
    ).then_returns(Act())


def test_crash_verify() -> None:
    """A call that can be verified is not run again after a crash before `verify` was asked."""
    log = started(VERIFY).crashed()
    given(log).when(advance(log.now)).then(event(ToolCallInDoubt, why="crash")).then_returns(
        Act(verify=(log.call_id(1),))
    )


def test_crash_person() -> None:
    """A call of a tool with no better policy is left to a person after a crash."""
    log = started(PERSON).crashed()
    given(log).when(advance(log.now)).then(
        event(ToolCallInDoubt, why="crash"),
        event(RunEscalated, why="calls_in_doubt", calls=(log.call_id(1),), message=re.compile("crash")),
    ).then_returns(Rest())


@pytest.mark.parametrize("doubt", DOUBTS)
def test_doubt_person(doubt: DoubtReason) -> None:
    """Whatever hid the end of a call, without a policy a person decides."""
    log = started(PERSON).call_in_doubt(1, doubt, detail="odd")
    given(log).when(advance(log.now)).then(
        event(RunEscalated, why="calls_in_doubt", message=re.compile(rf"{doubt} \(odd\)"))
    ).then_returns(Rest())


@pytest.mark.parametrize("doubt", DOUBTS)
def test_doubt_verify(doubt: DoubtReason) -> None:
    """Whatever hid the end of a call, `verify` is asked at once."""
    log = started(VERIFY).call_in_doubt(1, doubt)
    given(log).when(advance(log.now)).then_nothing().then_returns(Act(verify=(log.call_id(1),)))


@pytest.mark.parametrize("policy", [RERUN, KEY])
@pytest.mark.parametrize("doubt", [doubt for doubt in DOUBTS if doubt != "crash"])
def test_doubt_rerun(policy: Policy, doubt: DoubtReason) -> None:
    """A repeat in a live process waits a little, longer for each attempt; then it starts."""
    log = started(policy).call_in_doubt(1, doubt)
    limits = Limits(first_delay=10, longest_delay=1000)
    wait = Act(wake_at=log.now + timedelta(seconds=10))
    given(log).when(advance(log.now, limits=limits)).then_nothing().then_returns(wait)
    due = log.after(10)
    given(due).when(advance(due.now, limits=limits)).then(event(ToolCallStarted, attempt=2))
    again = due.call_started(1, policy=policy).call_in_doubt(1, doubt)
    wait = Act(wake_at=again.now + timedelta(seconds=20))
    given(again).when(advance(again.now, limits=limits)).then_nothing().then_returns(wait)


def test_crash_after_crash() -> None:
    """A worker that finds the doubt on record, but nothing done about it, goes on from there."""
    given(log := in_doubt(RERUN).crashed()).when(advance(log.now)).then(event(ToolCallStarted, attempt=2))
    given(log := in_doubt(VERIFY).crashed()).when(advance(log.now)).then_returns(Act((log.call_id(1),)))
    given(log := in_doubt(PERSON).crashed()).when(advance(log.now)).then(RunEscalated)


@pytest.mark.parametrize("settled", ["succeeded", "failed"])
def test_settled(settled: str) -> None:
    """A call with an outcome is fed to the model and not touched again."""
    log = started(PERSON)
    log = log.call_succeeded() if settled == "succeeded" else log.call_failed()
    given(log.crashed()).when(advance(log.now)).then_nothing().then_returns(AskModel(2))


def test_each_call_by_itself() -> None:
    """Killed in the third of three calls, a run repeats only what is not done, each by its own policy."""
    log = asked("refund", "charge", "read", "send")
    log = log.call_started(1).call_succeeded(1).call_started(2, policy=KEY).call_started(3, policy=RERUN)
    given(log.crashed()).when(advance(log.now)).then(
        event(ToolCallInDoubt, call_id=log.call_id(2)),
        event(ToolCallStarted, call_id=log.call_id(2), attempt=2),
        event(ToolCallInDoubt, call_id=log.call_id(3)),
        event(ToolCallStarted, call_id=log.call_id(3), attempt=2),
        event(ToolCallStarted, call_id=log.call_id(4), attempt=1),
    )


def test_person_is_asked_last() -> None:
    """A person is asked once everything else has come to its end, and then about all calls at once."""
    log = asked("refund", "read", "refund").call_started(1).call_started(2, policy=RERUN).call_started(3)
    log = log.crashed()
    first = given(log).when(advance(log.now))
    first.then(ToolCallInDoubt, ToolCallInDoubt, event(ToolCallStarted, attempt=2), ToolCallInDoubt)
    ids = (log.call_id(1), log.call_id(3))
    done = log.also(*first.events).call_succeeded(2)
    given(done).when(advance(done.now)).then(event(RunEscalated, calls=ids)).then_returns(Rest())


@pytest.mark.parametrize(
    ("then", "now", "counts"), [(RERUN, PERSON, PERSON), (PERSON, RERUN, PERSON), (VERIFY, KEY, VERIFY)]
)
def test_stricter_policy_counts(then: Policy, now: Policy, counts: Policy) -> None:
    """Of the policy at the start and the one after a deploy, the stricter counts."""
    log = started(then).crashed()
    outcome = given(log).when(advance(log.now, toolbox(**{TOOL_OF[then]: now})))
    if counts is PERSON:
        outcome.then(ToolCallInDoubt, RunEscalated)
    else:
        outcome.then(ToolCallInDoubt).then_returns(Act(verify=(log.call_id(1),)))


@pytest.mark.parametrize("policy", list(Policy))
def test_tool_is_gone(policy: Policy) -> None:
    """A call in doubt whose tool is gone is left to a person, whatever its policy was."""
    log = started(policy).crashed()
    given(log).when(advance(log.now, toolbox())).then(
        ToolCallInDoubt, event(RunEscalated, message=re.compile("no longer registered"))
    )


def test_key_lifetime() -> None:
    """A key counts from the first start; from the end of its lifetime on, a person is asked instead."""
    tools = with_contract(KEY, key_ttl=timedelta(hours=1))
    log = started(KEY).after(1800).crashed().call_in_doubt().call_started(1, policy=KEY).after(1799).crashed()
    given(log).when(advance(log.now, tools)).then(ToolCallInDoubt, event(ToolCallStarted, attempt=3))
    late = log.after(1)
    given(late).when(advance(late.now, tools)).then(
        ToolCallInDoubt, event(RunEscalated, message=re.compile("key is older than 1:00:00"))
    )


def test_key_that_never_ends() -> None:
    """A key may live for ever."""
    tools = with_contract(KEY, key_ttl=timedelta.max)
    log = started(KEY).after(timedelta(days=9999)).crashed()
    given(log).when(advance(log.now, tools)).then(ToolCallInDoubt, event(ToolCallStarted, attempt=2))


@pytest.mark.parametrize("policy", [RERUN, KEY])
def test_attempts_end(policy: Policy) -> None:
    """A call that was started as often as it may be, its end never seen, is left to a person."""
    log = started(policy).crashed().call_in_doubt().call_started(1, policy=policy).crashed()
    tools = with_contract(policy, max_attempts=2)
    given(log).when(advance(log.now, tools)).then(
        event(ToolCallInDoubt, attempt=2), event(RunEscalated, message=re.compile("started 2 times"))
    )
    tools = with_contract(policy, max_attempts=3)
    given(log).when(advance(log.now, tools)).then(ToolCallInDoubt, event(ToolCallStarted, attempt=3))


def test_doubt_of_the_last_attempt() -> None:
    """A person is told what hid the end of the last attempt, not of one before it."""
    log = started(RERUN).call_in_doubt(1, "timeout", detail="300 s").call_started(1, policy=RERUN).crashed()
    outcome = given(log).when(advance(log.now, with_contract(RERUN, max_attempts=2)))
    outcome.then(event(ToolCallInDoubt, why="crash"), event(RunEscalated, message=re.compile("crash, and")))


def test_refused_call() -> None:
    """A call that must not start fails without starting, and the others run."""
    log = asked("read", "nonsense", "send")
    tools = toolbox(read=RERUN, send=VERIFY).refusing("send", "'to' is missing")
    given(log).when(advance(log.now, tools)).then(
        event(ToolCallStarted, call_id=log.call_id(1)),
        event(
            ToolCallFailed, call_id=log.call_id(2), known_by="refused", error=re.compile("no tool 'nonsense'")
        ),
        event(ToolCallFailed, call_id=log.call_id(3), known_by="refused", error="'to' is missing"),
    )


def test_all_calls_refused() -> None:
    """When every call of a step is refused, the model reads why."""
    log = asked("nonsense")
    given(log).when(advance(log.now)).then(ToolCallFailed).then_returns(AskModel(2))


def test_parallel_limit() -> None:
    """No more calls run at a time than the limit says, in the model's order; the next starts as one ends."""
    log = asked("read", "read", "read", "read")
    limits = Limits(parallel_calls=2)
    first = given(log).when(advance(log.now, limits=limits))
    first.then(event(ToolCallStarted, call_id=log.call_id(1)), event(ToolCallStarted, call_id=log.call_id(2)))
    log = log.also(*first.events).call_succeeded(2)
    given(log).when(advance(log.now, limits=limits)).then(event(ToolCallStarted, call_id=log.call_id(3)))


def test_cleared_by_a_person() -> None:
    """A call that a person said to run again starts, whatever its policy and its number of attempts."""
    log = in_doubt(PERSON).escalated("calls_in_doubt", 1).resolved(1, "rerun").claimed()
    tools = with_contract(PERSON, max_attempts=1)
    given(log).when(advance(log.now, tools)).then(event(ToolCallStarted, attempt=2, policy=PERSON))


def test_cleared_call_whose_tool_is_gone() -> None:
    """A call that may run again, and whose tool is gone meanwhile, comes back to a person."""
    log = in_doubt(PERSON).escalated("calls_in_doubt", 1).resolved(1, "rerun").claimed()
    given(log).when(advance(log.now, toolbox())).then(event(RunEscalated, why="calls_in_doubt"))
