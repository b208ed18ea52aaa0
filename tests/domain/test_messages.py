"""How a run reads to a model: at any version, in a form that every provider accepts."""

from __future__ import annotations

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from perdure.domain.calls import call_id_for
from perdure.domain.content import StoredContent
from perdure.domain.messages import (
    AssistantMessage,
    Message,
    Reply,
    ToolCallPart,
    ToolResultsMessage,
    wire_ids,
)
from perdure.testing import RunLog, a_run, asks, says, together

from .situations import PERSON, RERUN, VERIFY, in_doubt, started


def conversation(*steps: list[str | None], run_id: str = "run-1") -> list[Message]:
    """Return messages in which the calls of each step have these ids of a provider."""
    return [
        AssistantMessage(
            parts=tuple(
                ToolCallPart(
                    provider_call_id=theirs,
                    name="t",
                    arguments="{}",
                    call_id=call_id_for(run_id, step, position),
                )
                for position, theirs in enumerate(calls, start=1)
            )
        )
        for step, calls in enumerate(steps, start=1)
    ]


def on_the_wire(*steps: list[str | None]) -> list[str]:
    """Return the ids that go out, with ours written as "step.position"."""
    ours = {
        call_id_for("run-1", step, position): f"{step}.{position}"
        for step in (1, 2, 3)
        for position in (1, 2, 3)
    }
    return [ours.get(each, each) for each in wire_ids(conversation(*steps)).values()]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([["a", "b"], ["c"]], ["a", "b", "c"]),
        ([["", None], [""]], ["1.1", "1.2", "2.1"]),
        ([["a", "a", "a"]], ["a", "1.2", "1.3"]),
        ([["0", "1"], ["0", "1"]], ["0", "1", "2.1", "2.2"]),
        ([["a"], ["a", "b"]], ["a", "2.1", "b"]),
        ([[call_id_for("run-1", 2, 1)], [None]], ["1.1", "2.1"]),
        ([[call_id_for("run-1", 1, 2), None]], ["1.1", "1.2"]),
        ([[call_id_for("run-1", 1, 1)], [call_id_for("run-1", 1, 1)]], ["1.1", "2.1"]),
    ],
    ids=[
        "theirs",
        "empty",
        "twice in a step",
        "again in the next",
        "mixed",
        "ours",
        "ours, same step",
        "echo",
    ],
)
def test_wire_ids(steps: list[list[str | None]], expected: list[str]) -> None:
    """A provider sees its own ids again where they tell calls apart, and ours where they do not."""
    assert on_the_wire(*steps) == expected


ours = st.builds(call_id_for, st.just("run-1"), st.integers(1, 4), st.integers(1, 3))
step_ids = st.lists(st.none() | st.sampled_from(["", "a", "b", "0"]) | ours, max_size=3)


@for_all(st.lists(step_ids, max_size=4))
def test_wire_ids_tell_calls_apart(steps: list[list[str | None]]) -> None:
    """No two calls share an id on the wire, none is empty, and none changes as the conversation grows."""
    whole = wire_ids(conversation(*steps))
    assert len(set(whole.values())) == len(whole) == sum(map(len, steps))
    assert all(whole.values())
    for cut in range(len(steps)):
        assert wire_ids(conversation(*steps[:cut])).items() <= whole.items()


def test_form_of_our_ids() -> None:
    """An id of any run has the form that is kept free on the wire."""
    for run_id in ("run-1", "order-77", "x" * 128):
        theirs = call_id_for(run_id, 123, 45)
        assert wire_ids(conversation([theirs])) == {call_id_for("run-1", 1, 1): call_id_for("run-1", 1, 1)}


def result_of(log: RunLog) -> tuple[bool, str]:
    results = log.state.messages()[-1]
    assert isinstance(results, ToolResultsMessage)
    (result,) = results.results
    assert (result.call_id, result.name) == (log.call_id(1), next(iter(log.state.calls.values())).name)
    return result.ok, result.content


IN_DOUBT = in_doubt(PERSON)
MAYBE = (False, "The outcome of this call is not known yet: it may or may not have happened.")


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (started(PERSON).call_succeeded(1, "RF-1"), (True, "RF-1")),
        (
            started(PERSON).call_succeeded(1, StoredContent(size=9, sha256="0" * 64, summary="9 bytes")),
            (True, "9 bytes"),
        ),
        (started(PERSON).call_failed(1, "no such order"), (False, "no such order")),
        (started(PERSON).call_failed(1, ""), (False, "failed")),
        (a_run().responded(asks("refund")), (False, "This call has not been started yet.")),
        (started(PERSON), MAYBE),
        (started(PERSON).crashed(), MAYBE),
        (IN_DOUBT, MAYBE),
        (in_doubt(VERIFY).call_verified(), MAYBE),
        (in_doubt(VERIFY).call_verified(1, "landed"), MAYBE),
        (in_doubt(PERSON).escalated("calls_in_doubt", 1).resolved(1, "abandon").run_failed(), MAYBE),
        (in_doubt(PERSON).cancelled(), MAYBE),
    ],
)
def test_results(log: RunLog, told: tuple[bool, str]) -> None:
    """A call that may have happened is never reported as one that did not."""
    assert result_of(log) == told


def test_results_in_order() -> None:
    """Results stand in the order of the calls, whichever came first."""
    log = a_run().claimed().responded(together(asks("a"), says("and"), asks("b"), asks("c")))
    log = log.call_started(1).call_started(2).call_started(3)
    one = log.call_succeeded(3, "3").call_succeeded(1, "1").call_succeeded(2, "2").state.messages()
    other = log.call_succeeded(1, "1").call_succeeded(2, "2").call_succeeded(3, "3").state.messages()
    assert one == other
    assert [result.content for result in one[-1].results] == ["1", "2", "3"]  # type: ignore[union-attr]


def test_empty_response() -> None:
    """A response without any part is not shown to the model again: no provider takes it."""
    log = a_run("go").claimed().responded(Reply(parts=())).input_added("well?")
    assert [message.kind for message in log.state.messages()] == ["user", "user"]


def test_equal_calls_are_two() -> None:
    """Two calls with equal names and arguments are two calls, with results of their own."""
    log = a_run().claimed().responded(together(asks("read", {"a": 1}), asks("read", {"a": 1})))
    log = log.call_started(1, policy=RERUN).call_succeeded(1, "one").call_started(2).call_succeeded(2, "two")
    results = log.state.messages()[-1]
    assert [result.content for result in results.results] == ["one", "two"]  # type: ignore[union-attr]
