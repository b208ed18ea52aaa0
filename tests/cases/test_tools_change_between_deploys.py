"""Tools renamed, reordered, removed or changed between deploys, with runs in flight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from perdure import Agent, AgentRuns, Policy, Resolution, RunStatus, ToolRegistry
from perdure.application.registered_agents import RegisteredAgents
from perdure.domain.events import RunEscalated, ToolCallStarted
from perdure.infrastructure.event_store.run_log import RunLog
from perdure.infrastructure.memory.clock import SystemClock
from perdure.infrastructure.memory.leases import MemoryLeases
from perdure.testing import ScriptedModel, asks, says


@dataclass
class Deployments:
    """One log, driven by one deploy after the other."""

    log: RunLog = field(default_factory=RunLog)
    acted: list[str] = field(default_factory=list)
    asked: list[ScriptedModel] = field(default_factory=list)

    def deploy(self, tools: ToolRegistry, **changes: str) -> AgentRuns:
        model = ScriptedModel([asks("pay", {"order": "7"}), asks("pay", {"order": "8"}), says("Done.")])
        self.asked.append(model)
        agent = Agent("a", model, changes.get("version", "v1"), changes.get("prompt", "Pay."), tools=tools)
        clock = SystemClock()
        agents = RegisteredAgents([agent], lambda name: model)
        return AgentRuns(self.log, MemoryLeases(clock), clock, agents, lease_seconds=30)

    def original(self) -> ToolRegistry:
        tools = ToolRegistry()

        @tools.tool
        def pay(order: str) -> str:
            """Pay an order."""
            self.acted.append(order)
            if len(self.acted) == 1:
                raise ValueError("no end seen")
            return "paid"

        @tools.tool(policy=Policy.RERUN)
        def look_up(order: str) -> str:
            """Find an order."""
            return order

        return tools

    def in_flight(self) -> str:
        """Drive a run until its first call is in doubt, and say the id of the call."""
        with self.deploy(self.original()) as runs:
            state = runs.advance(runs.start("a", "Pay both.", run_id="r"))
            return next(iter(state.calls))


def renamed(told: Deployments) -> ToolRegistry:
    tools = ToolRegistry()
    for tool in told.original()._tools.values():
        tools.tool(name="pay_order" if tool.name == "pay" else tool.name)(tool.function)
    return tools


def removed(told: Deployments) -> ToolRegistry:
    tools = ToolRegistry()
    tools.tool(told.original()._tools["look_up"].function)
    return tools


def with_another_type(told: Deployments) -> ToolRegistry:
    tools = removed(told)

    @tools.tool
    def pay(order: int) -> str:
        """Pay an order."""
        told.acted.append(str(order))
        return "paid"

    return tools


def with_a_new_required_argument(told: Deployments) -> ToolRegistry:
    tools = removed(told)

    @tools.tool
    def pay(order: str, cents: int) -> str:
        """Pay an order."""
        told.acted.append(order)
        return "paid"

    return tools


def with_a_renamed_argument(told: Deployments) -> ToolRegistry:
    tools = removed(told)

    @tools.tool
    def pay(order_id: str) -> str:
        """Pay an order."""
        told.acted.append(order_id)
        return "paid"

    return tools


BREAKING = {
    renamed: "tool 'pay': no longer registered",
    removed: "tool 'pay': no longer registered",
    with_another_type: "'order' was",
    with_a_new_required_argument: "'cents' is new",
    with_a_renamed_argument: "'order_id' is new",
}


def reordered(told: Deployments) -> ToolRegistry:
    tools = ToolRegistry()
    tools.tool(policy=Policy.RERUN)(told.original()._tools["look_up"].function)
    tools.tool(told.original()._tools["pay"].function)
    return tools


def with_one_more(told: Deployments) -> ToolRegistry:
    tools = told.original()

    @tools.tool
    def refund(order: str) -> str:
        """Refund an order."""
        return "refunded"

    return tools


def described_otherwise_and_mended(told: Deployments) -> ToolRegistry:
    tools = removed(told)

    @tools.tool(description="Pay one order, once.")
    def pay(order: str) -> str:
        told.acted.append(f"mended {order}")
        return "paid"

    return tools


HARMLESS = [reordered, with_one_more, described_otherwise_and_mended]


@pytest.mark.parametrize("change", BREAKING, ids=lambda change: change.__name__)
def test_a_run_whose_tools_changed_waits_for_a_person(change: Callable[[Deployments], ToolRegistry]) -> None:
    """Nothing is run or asked of the model, what is missing is spelled out, and the old deploy goes on."""
    told = Deployments()
    call_id = told.in_flight()
    with told.deploy(change(told)) as runs:
        runs.resolve("r", call_id, Resolution.succeeded("paid"), by="ann", reason="seen")
        state = runs.advance("r")
        escalations = [event for event in runs.events("r") if isinstance(event, RunEscalated)]

    assert state.status is RunStatus.ESCALATED
    assert escalations[-1].why == "pins"
    assert BREAKING[change] in escalations[-1].message
    assert told.asked[-1].requests == ()
    assert told.acted == ["7"]

    with told.deploy(told.original()) as runs:
        runs.resolve("r", None, Resolution.resume(), by="ann", reason="deployed again")
        state = runs.advance("r")
    assert state.status is RunStatus.COMPLETED
    assert told.acted == ["7", "8"]


@pytest.mark.parametrize("change", BREAKING, ids=lambda change: change.__name__)
def test_a_call_in_doubt_is_not_forgotten_by_a_deploy_without_its_tool(
    change: Callable[[Deployments], ToolRegistry],
) -> None:
    """A run left by a crash, taken up by a deploy that cannot serve it, ends neither done nor undone."""
    told = Deployments()
    told.in_flight()
    with told.deploy(change(told)) as runs:
        state = runs.state("r")
        assert [call.call_id for call in state.in_doubt] == list(state.calls)
        runs.add_input("r", "Hello?")
        assert runs.advance("r").in_doubt == state.in_doubt


@pytest.mark.parametrize("change", HARMLESS, ids=lambda change: change.__name__)
def test_a_change_that_keeps_the_contract_lets_runs_go_on(
    change: Callable[[Deployments], ToolRegistry],
) -> None:
    """Order, further tools, descriptions and mended code stop no run; it sees the tools it started with."""
    told = Deployments()
    call_id = told.in_flight()
    pinned = told.asked[0].requests[0].tools
    with told.deploy(change(told)) as runs:
        runs.resolve("r", call_id, Resolution.succeeded("paid"), by="ann", reason="seen")
        state = runs.advance("r")

    assert state.status is RunStatus.COMPLETED
    assert len(told.acted) == 2
    assert all(request.tools == pinned for request in told.asked[-1].requests)


@pytest.mark.parametrize(
    ("changes", "says_why"),
    [
        ({"version": "v2"}, "prompt version: the run is pinned to 'v1', at hand is 'v2'"),
        ({"prompt": "Pay twice."}, "without giving it a new version"),
    ],
)
def test_a_run_does_not_change_its_prompt(changes: dict[str, str], says_why: str) -> None:
    """Another prompt version, or another text under the same version, is not taken silently."""
    told = Deployments()
    call_id = told.in_flight()
    with told.deploy(told.original(), **changes) as runs:
        runs.resolve("r", call_id, Resolution.succeeded("paid"), by="ann", reason="seen")
        state = runs.advance("r")

    assert state.escalation is not None
    assert says_why in state.escalation.message
    assert told.asked[-1].requests == ()


@pytest.mark.parametrize("stricter_first", [True, False])
def test_a_policy_that_changed_counts_at_its_stricter(stricter_first: bool) -> None:
    """A call started under one policy and found in doubt under another goes by the more conservative one."""
    told = Deployments()
    lax, strict = ToolRegistry(), ToolRegistry()
    pay = told.original()._tools["pay"].function
    lax.tool(policy=Policy.RERUN_WITH_IDEMPOTENCY_KEY)(pay)
    strict.tool(pay)
    first, second = (strict, lax) if stricter_first else (lax, strict)
    with told.deploy(first) as runs:
        runs.start("a", "Pay both.", run_id="r")
        decided = _until_first_start(runs)
    with told.deploy(second) as runs:
        state = runs.advance("r")

    assert decided
    assert state.status is RunStatus.ESCALATED
    assert [call.attempt for call in state.calls.values()] == [1]


def _until_first_start(runs: AgentRuns) -> bool:
    """Drive a run up to the commit of its first start, and stop there as a crash would."""

    class Died(BaseException):
        pass

    class AtFirstStart:
        def reached(self, boundary: object, run_id: str, detail: str) -> None:
            if boundary == "before_tool":
                raise Died

    object.__setattr__(runs.ports, "boundaries", AtFirstStart())
    with pytest.raises(Died):
        runs.advance("r")
    return any(isinstance(event, ToolCallStarted) for event in runs.events("r"))
