"""A log cut after every single event renders to messages that every provider accepts."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from perdure import Budget, Resolution
from perdure.domain.evolution import fold
from perdure.domain.messages import Message, ToolResultsMessage
from perdure.domain.tools import ToolSpec
from perdure.testing import RunLog, a_run, asks, says, together
from tests.support.cluster import Cluster
from tests.support.promises import message_faults
from tests.support.provider_requests import provider_requests
from tests.support.provider_rules import anthropic_faults, openai_faults, responses_faults
from tests.support.scenarios import BEHAVIOURS, TOOLS, Call, Scenario

NAMES = [*TOOLS, "nonsense"]
SPECS = [ToolSpec(name=name, description="", parameters={"type": "object"}) for name in NAMES]
ACCEPT = {"openai": openai_faults, "responses": responses_faults, "anthropic": anthropic_faults}
ALL_ENDS = Scenario(
    [[Call(tool, n, does) for n, tool in enumerate(TOOLS)] for does in BEHAVIOURS],
    timeout=0.02,
    max_attempts=2,
)


def all_ends() -> RunLog:
    """A run in which every kind of call comes to every kind of end, in the real loop."""
    cluster = Cluster(ALL_ENDS)
    outcome = cluster.live(cluster.start("run-1"))
    assert outcome.state.is_finished
    return RunLog("run-1", outcome.events, outcome.events[-1].at)


def interrupted_by_people() -> RunLog:
    """Input before, between and behind the calls of a step; budgets, cancellation, crashes."""
    log = a_run("Begin.").claimed()
    log = log.input_added("Before the first answer.").responded(
        together(says("Let me see."), asks("look_up", {"n": 1}, id="x"), asks("pay", {"n": 2}, id="x"))
    )
    log = log.call_started(1).input_added("While it runs.").call_started(2).call_succeeded(1)
    log = log.budget_extended(Budget(steps=1)).input_added("And more.").call_in_doubt(2, "timeout")
    log = log.escalated("calls_in_doubt", 2).input_added("While it rests.")
    log = log.resolved(2, "succeeded").call_succeeded(2, known_by="person").crashed()
    log = log.responded(asks("look_up", {"n": 3}, id="")).call_started(1).crashed()
    log = log.call_in_doubt(1).call_started(1).call_failed(1, "")
    log = log.responded(says("Nearly."), seen=4).input_added("Wait.").responded(asks("nonsense", "{broken"))
    return log.call_failed(1, "There is no such tool.", known_by="refused").cancel_requested().cancelled()


def careless_provider() -> RunLog:
    """Empty ids, the same ids in every step, answers without text, thinking alone, empty answers."""
    log = a_run("Begin.").claimed()
    for step in range(3):
        log = log.responded(
            together(
                asks("pay", {"n": step}, id="call_0"), asks("pay", {"n": step}, id=""), asks("pay", "[]")
            )
        )
        for call in (3, 1, 2):
            log = log.call_started(call).call_succeeded(call, "" if step else "done")
    return (
        log.responded(says("")).input_added("Hello?").responded(says("  ")).input_added("?").responded("Yes.")
    )


def shape(messages: list[Message]) -> object:
    """Return what providers look at: parts, ids, names, and whether there is any text."""
    words = re.compile(r"\S(.*\S)?", re.DOTALL)

    def without_words(value: object, key: str = "") -> object:
        if isinstance(value, dict):
            return {name: without_words(part, name) for name, part in value.items()}
        if isinstance(value, list | tuple):
            return [without_words(part, key) for part in value]
        if isinstance(value, str) and key in ("text", "content", "arguments"):
            return words.sub("x", value)
        return value

    return [without_words(message.model_dump()) for message in messages]


@pytest.mark.parametrize("told", [all_ends, interrupted_by_people, careless_provider])
def test_every_prefix_is_accepted_by_every_provider(told: Callable[[], RunLog]) -> None:
    """Each call has one result in the right place, and no result stands without its call, at any version."""
    log = told()
    sent: list[object] = []
    for end in range(1, len(log) + 1):
        messages = fold("run-1", log[:end]).messages()

        assert message_faults(messages) == [], f"cut after {end}: {log[end - 1]}"
        if shape(messages) in sent:
            continue  # it differs in words only from one that was accepted
        sent.append(shape(messages))
        for api, body in provider_requests(messages, prompt="You act.", tools=SPECS).items():
            assert ACCEPT[api](body) == [], f"{api}, cut after {end}: {log[end - 1]}"


def test_a_call_in_doubt_is_never_told_as_one_that_did_not_happen() -> None:
    """Whoever renders the conversation in between reads that the outcome is not known."""
    log = a_run().claimed().responded(asks("pay")).call_started()

    for cut in (log, log.call_in_doubt(), log.call_in_doubt().call_verified(1, "unknown")):
        (results,) = [m for m in cut.state.messages() if isinstance(m, ToolResultsMessage)]
        assert "may or may not have happened" in results.results[0].content


def test_results_stand_in_the_order_of_the_calls_whoever_ended_first() -> None:
    """A conversation does not depend on which call won."""
    cluster = Cluster(Scenario([[Call("pay", 1, after=3), Call("send", 2, after=1), Call("order", 3)]]))
    outcome = cluster.live(cluster.start())

    (results,) = [m for m in outcome.state.messages() if isinstance(m, ToolResultsMessage)]
    assert [result.content for result in results.results] == ["pay 1", "send 2", "order 3"]


def test_a_person_who_reruns_a_call_adds_no_second_result() -> None:
    """A call that was decided about and ran again has one result, like any other."""
    cluster = Cluster(Scenario([[Call("pay", 1, "raises")]]))
    run_id = cluster.start()
    with cluster.boot() as runs:
        state = runs.advance(run_id)
        (call_id,) = state.calls
        runs.resolve(run_id, call_id, Resolution.rerun(), by="ann", reason="try again")
        runs.advance(run_id)
        runs.resolve(run_id, call_id, Resolution.failed("No."), by="ann", reason="enough")
        state = runs.advance(run_id)

    assert message_faults(state.messages()) == []
