"""The effect is done and its end is not seen: whatever the tool raises, it is not taken for a failure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from perdure import Agent, AgentRuns, Limits, Policy, Resolution, RunStatus, ToolError, ToolRegistry, Verdict
from perdure.domain.calls import CallStatus
from perdure.domain.errors import OwnershipLost
from perdure.domain.events import ToolCallFailed, ToolCallInDoubt, ToolCallStarted
from perdure.testing import ScriptedModel, asks, says


@dataclass(frozen=True)
class Ending:
    """How a tool ends after its effect."""

    name: str
    end: Callable[[], object]
    why: str

    def __str__(self) -> str:
        return self.name


def raises(error: BaseException) -> Callable[[], object]:
    def end() -> object:
        raise error

    return end


ENDINGS = [
    Ending("a parse error", lambda: json.loads("<html>502 Bad Gateway</html>"), "exception"),
    Ending("an assertion", raises(AssertionError()), "exception"),
    Ending("a lost connection", raises(ConnectionResetError("peer")), "lost_connection"),
    Ending("a timeout of a client library", raises(TimeoutError("read")), "timeout"),
    Ending("an exit", raises(SystemExit(3)), "exception"),
    Ending("an end of iteration", raises(StopIteration()), "exception"),
    Ending("an exception group", raises(ExceptionGroup("two", [ValueError(), OSError()])), "exception"),
]


class Unspeakable(BaseException):
    """Beyond Exception, and unable to say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


ENDINGS += [
    Ending("an interrupt", raises(KeyboardInterrupt()), "exception"),
    Ending("something unspeakable", raises(Unspeakable()), "exception"),
    Ending("a lost ownership of something else", raises(OwnershipLost("another run's")), "exception"),
    Ending("a cancellation", raises(asyncio.CancelledError()), "cancelled"),
]


class Ledger:
    """Where payments end up."""

    def __init__(self) -> None:
        self.keys: list[str] = []


def runs_of(policy: Policy | None, ledger: Ledger, end: Callable[[], object], *, is_async: bool) -> AgentRuns:
    tools = ToolRegistry()

    def found(order: str) -> Verdict:
        return Verdict.landed("paid") if ledger.keys else Verdict.not_landed()

    def pay(order: str) -> str:
        ledger.keys.append(order)
        end()
        return "paid"

    async def pay_async(order: str) -> str:
        ledger.keys.append(order)
        await asyncio.sleep(0)
        end()
        return "paid"

    named = {} if policy is None else {"policy": policy}
    verify = found if policy is Policy.VERIFY_THEN_DECIDE else None
    tools.tool(**named, verify=verify, name="pay", max_attempts=3)(pay_async if is_async else pay)
    model = ScriptedModel([asks("pay", {"order": "77"}), says("Done.")])
    agent = Agent("payer", model, "v1", tools=tools, limits=Limits(first_delay=0.001, longest_delay=0.001))
    return AgentRuns.in_memory(agents=[agent])


# Python itself makes a RuntimeError of a StopIteration that leaves a coroutine.
IN_BOTH_WAYS = [
    (ending, is_async)
    for ending in ENDINGS
    for is_async in (False, True)
    if not (is_async and ending.name == "an end of iteration")
]


@pytest.mark.parametrize(("ending", "is_async"), IN_BOTH_WAYS, ids=str)
def test_a_payment_whose_answer_was_not_understood_is_left_to_a_person(
    ending: Ending, is_async: bool
) -> None:
    """Under the default policy the call is in doubt: it is not retried, and the model is told nothing yet."""
    ledger = Ledger()
    with runs_of(None, ledger, ending.end, is_async=is_async) as runs:
        state = runs.advance(runs.start("payer", "Pay.", run_id="r"))
        events = runs.events("r")

    assert ledger.keys == ["77"]
    assert state.status is RunStatus.ESCALATED
    assert [call.status for call in state.calls.values()] == [CallStatus.IN_DOUBT]
    assert [event.why for event in events if isinstance(event, ToolCallInDoubt)] == [ending.why]
    assert not [event for event in events if isinstance(event, ToolCallFailed)]


@pytest.mark.parametrize("ending", ENDINGS, ids=str)
def test_a_payment_that_can_be_looked_up_is_looked_up(ending: Ending) -> None:
    """With a `verify`, what was done is found, and is the call's result; it is done once."""
    ledger = Ledger()
    with runs_of(Policy.VERIFY_THEN_DECIDE, ledger, ending.end, is_async=False) as runs:
        state = runs.advance(runs.start("payer", "Pay.", run_id="r"))
        told = [result.content for message in state.messages()[:-1] for result in _results(message)]

    assert ledger.keys == ["77"]
    assert (state.status, told) == (RunStatus.COMPLETED, ["paid"])


@pytest.mark.parametrize("ending", ENDINGS, ids=str)
def test_a_payment_with_a_key_is_repeated_under_the_same_key(ending: Ending) -> None:
    """With an idempotency key the call runs again, up to its limit, and always under one key."""
    ledger = Ledger()
    with runs_of(Policy.RERUN_WITH_IDEMPOTENCY_KEY, ledger, ending.end, is_async=False) as runs:
        state = runs.advance(runs.start("payer", "Pay.", run_id="r"))
        starts = [event for event in runs.events("r") if isinstance(event, ToolCallStarted)]

    assert [start.attempt for start in starts] == [1, 2, 3]
    assert len({start.idempotency_key for start in starts}) == 1
    assert state.status is RunStatus.ESCALATED


@pytest.mark.parametrize("ending", ENDINGS, ids=str)
def test_a_read_that_broke_is_a_failure_that_the_model_reads(ending: Ending) -> None:
    """A tool that only reads fails as such: the model is told, and may ask again."""
    ledger = Ledger()
    with runs_of(Policy.RERUN, ledger, ending.end, is_async=False) as runs:
        state = runs.advance(runs.start("payer", "Pay.", run_id="r"))
        failed = [event for event in runs.events("r") if isinstance(event, ToolCallFailed)]

    assert state.status is RunStatus.COMPLETED
    assert [event.known_by for event in failed] == ["ran"]


@pytest.mark.parametrize("policy", [None, *Policy])
def test_only_a_tool_itself_can_say_that_it_did_not_happen(policy: Policy | None) -> None:
    """`ToolError` is a failed result under every policy, in the words of the tool."""
    refusal = raises(ToolError("the card has expired"))
    with runs_of(policy, Ledger(), refusal, is_async=False) as runs:
        state = runs.advance(runs.start("payer", "Pay.", run_id="r"))
        failed = [event for event in runs.events("r") if isinstance(event, ToolCallFailed)]

    assert state.status is RunStatus.COMPLETED
    assert [event.error for event in failed] == ["the card has expired"]


def test_what_a_person_found_out_is_what_the_model_is_told() -> None:
    """A call in doubt ends with what a person says, under their name, and the run goes on from there."""
    ledger = Ledger()
    with runs_of(None, ledger, ENDINGS[0].end, is_async=False) as runs:
        state = runs.advance(runs.start("payer", "Pay.", run_id="r"))
        (call_id,) = state.calls
        runs.resolve("r", call_id, Resolution.succeeded({"id": "P-1"}), by="ann", reason="in the ledger")
        state = runs.advance("r")

    told = [result for message in state.messages() for result in _results(message)]
    assert [(result.ok, json.loads(result.content)) for result in told] == [(True, {"id": "P-1"})]
    assert (state.status, ledger.keys) == (RunStatus.COMPLETED, ["77"])


def _results(message: object) -> tuple[object, ...]:
    return getattr(message, "results", ())
