"""A tool list that is fetched over the network is cold, or another one, when a run is resumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from perdure import (
    Agent,
    AgentRuns,
    ConfigurationError,
    Limits,
    Policy,
    Resolution,
    RunStatus,
    ToolContext,
    ToolError,
    ToolRegistry,
)
from perdure.application.registered_agents import RegisteredAgents
from perdure.domain.tools import ToolSpec
from perdure.infrastructure.event_store.run_log import RunLog
from perdure.infrastructure.memory.clock import SystemClock
from perdure.infrastructure.memory.leases import MemoryLeases
from perdure.testing import ScriptedModel, asks, says

PAY = ToolSpec(
    name="pay",
    description="Pay an order.",
    parameters={"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
)


class Shop:
    """Tools behind a network."""

    def __init__(self, name: str = "shop", *, broken: bool = True) -> None:
        self.name = name
        self.listed: Sequence[ToolSpec] | Exception = [PAY]
        self.lists = 0
        self.paid: list[tuple[object, str]] = []
        self._broken = broken

    def list_tools(self) -> Sequence[ToolSpec]:
        self.lists += 1
        if isinstance(self.listed, Exception):
            raise self.listed
        return self.listed

    async def call(self, tool: str, arguments: Mapping[str, object], context: ToolContext) -> object:
        if arguments["order"] == "none":
            raise ToolError("there is no such order")
        self.paid.append((arguments["order"], context.idempotency_key))
        if self._broken and len(self.paid) == 1:
            raise ConnectionError("the line went dead")
        return {"paid": arguments["order"]}


def process(log: RunLog, shop: Shop, **policies: Policy) -> tuple[AgentRuns, ScriptedModel]:
    tools = ToolRegistry()
    tools.include(shop, policies=policies)
    model = ScriptedModel([asks("pay", {"order": "7"}), asks("pay", {"order": "8"}), says("Done.")])
    agent = Agent("a", model, "v1", tools=tools, limits=Limits(first_delay=0.001))
    clock = SystemClock()
    agents = RegisteredAgents([agent], lambda name: model)
    return AgentRuns(log, MemoryLeases(clock), clock, agents, lease_seconds=30), model


COLD = {
    "unreachable": ConnectionError("not up yet"),
    "empty": [],
    "another tool": [ToolSpec(name="refund", description="", parameters={"type": "object"})],
    "another schema": [ToolSpec(name="pay", description="", parameters={"type": "object"})],
    "another order": [ToolSpec(name="a", description="", parameters={"type": "object"}), PAY],
}


@pytest.mark.parametrize("listed", COLD.values(), ids=COLD.keys())
def test_a_resumed_run_is_served_by_its_pins(listed: Sequence[ToolSpec] | Exception) -> None:
    """The list is not asked for again: model and arguments go by what was pinned when the run started."""
    log, shop = RunLog(), Shop()
    runs, _ = process(log, shop)
    with runs:
        state = runs.advance(runs.start("a", "Pay.", run_id="r"))
    assert state.status is RunStatus.ESCALATED
    lists_at_start = shop.lists

    shop.listed = listed
    runs, model = process(log, shop)
    with runs:
        runs.resolve("r", next(iter(state.calls)), Resolution.succeeded("paid"), by="ann", reason="seen")
        state = runs.advance("r")

    assert state.status is RunStatus.COMPLETED
    assert shop.lists == lists_at_start
    assert [order for order, _ in shop.paid] == ["7", "8"]
    shown = [[tool.parameters for tool in request.tools] for request in model.requests]
    assert shown == [[PAY.parameters]] * len(model.requests)


def test_a_run_does_not_start_while_the_list_cannot_be_had() -> None:
    """A run that cannot be pinned is refused, and nothing is written."""
    shop = Shop()
    shop.listed = ConnectionError("not up yet")
    runs, _ = process(RunLog(), shop)
    with runs:
        with pytest.raises(ConfigurationError, match=r"'shop' cannot list its tools.*not up yet"):
            runs.start("a", "Pay.", run_id="r")
        assert runs.ports.store.read("r") == []


def test_a_run_started_before_is_found_without_asking_for_the_list() -> None:
    """Starting the same run again, while the list is cold, is the same run."""
    log, shop = RunLog(), Shop()
    runs, _ = process(log, shop)
    with runs:
        runs.start("a", "Pay.", run_id="r")
        shop.listed = ConnectionError("not up yet")
        assert runs.start("a", "Pay.", run_id="r") == "r"


def test_a_source_that_is_gone_is_named() -> None:
    """A run whose source is not registered any more waits for a person, who reads its name."""
    log = RunLog()
    runs, _ = process(log, Shop())
    with runs:
        runs.start("a", "Pay.", run_id="r")
    runs, model = process(log, Shop("market"))
    with runs:
        state = runs.advance("r")

    assert state.escalation is not None
    assert "tool 'pay': its source 'shop' is not registered" in state.escalation.message
    assert model.requests == ()


@pytest.mark.parametrize("policy", [Policy.RERUN_WITH_IDEMPOTENCY_KEY, Policy.ESCALATE_IF_UNKNOWN])
def test_tools_of_a_source_go_by_their_policies(policy: Policy) -> None:
    """A lost connection leaves a call of a source in doubt, and the policy given for it decides."""
    shop = Shop()
    runs, _ = process(RunLog(), shop, pay=policy)
    with runs:
        state = runs.advance(runs.start("a", "Pay.", run_id="r"))

    is_rerun = policy is Policy.RERUN_WITH_IDEMPOTENCY_KEY
    assert state.status is (RunStatus.COMPLETED if is_rerun else RunStatus.ESCALATED)
    assert [order for order, _ in shop.paid] == (["7", "7", "8"] if is_rerun else ["7"])
    assert len({key for order, key in shop.paid if order == "7"}) == 1


def test_arguments_are_checked_against_the_pinned_schema() -> None:
    """What does not fit the schema of the start is refused before the source hears of it."""
    shop = Shop(broken=False)
    tools = ToolRegistry()
    tools.include(shop)
    replies = [asks("pay", text) for text in ('{"order": 7}', "{}", "[]", "{", "NaN")]
    model = ScriptedModel([*replies, asks("pay", {"order": "none"}), says("Done.")])
    with AgentRuns.in_memory(agents=[Agent("a", model, "v1", tools=tools)]) as runs:
        state = runs.advance(runs.start("a", "Pay.", run_id="r"))

    told = [result for message in state.messages() for result in getattr(message, "results", ())]
    assert shop.paid == []
    assert [result.ok for result in told] == [False] * 6
    assert all("was not started" in result.content for result in told[:5])
    assert told[5].content == "there is no such order"
