"""Each promise is broken on purpose, and the check of it notices: a check that cannot fail proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from perdure import Budget, OwnershipLost, PerdureError, Policy, ToolRegistry, Verdict
from perdure.application import activities, journal, registered_agents
from perdure.application.ports.boundaries import Boundary
from perdure.domain import evolution, planning
from perdure.domain.calls import CallStatus, ToolCall
from perdure.domain.events import Event, RunClaimed
from perdure.domain.run import AgentRun
from perdure.domain.state import RunState, Step
from perdure.infrastructure.event_store.store import EventSourcedStore
from tests.support.cluster import LEASE, Cluster, FrozenProcess, Outcome
from tests.support.promises import violations
from tests.support.scenarios import Call, Scenario, one_call, several_steps

Patch = pytest.MonkeyPatch


# -- ways to break it ----------------------------------------------------------------------------------


def a_tool_without_a_policy_reruns(patch: Patch) -> None:
    patch.setitem(ToolRegistry.tool.__kwdefaults__, "policy", Policy.RERUN)


def a_started_call_counts_as_not_started(patch: Patch) -> None:
    right = planning.Plan._plan_call

    def plan_call(plan: planning.Plan, call: ToolCall) -> None:
        if call.status is CallStatus.STARTED and not plan._is_ours(call):
            plan._plan_first_start(call)
        else:
            right(plan, call)

    patch.setattr(planning.Plan, "_plan_call", plan_call)


def appends_are_written_one_later(patch: Patch) -> None:
    right = EventSourcedStore.append
    waiting: list[Event] = []

    def append(store: EventSourcedStore, events: Sequence[Event]) -> None:
        written, waiting[:] = [*waiting], list(events)
        if any(event.seq == 1 for event in events):
            written, waiting[:] = list(events), []
        if written:
            right(store, written)

    patch.setattr(EventSourcedStore, "append", append)


def unknown_is_taken_for_not_landed(patch: Patch) -> None:
    right = activities._verdict

    def verdict(found: object) -> Verdict:
        judged = right(found)
        return Verdict.not_landed() if judged.outcome == "unknown" else judged

    patch.setattr(activities, "_verdict", verdict)


def not_landed_is_believed_at_once(patch: Patch) -> None:
    patch.setattr(ToolCall, "believes_not_landed", lambda call, at: True)


def claims_of_others_are_ignored(patch: Patch) -> None:
    def take_in(book: journal.Journal, news: Sequence[Event], conflict: object) -> None:
        book._run.rebase(news)

    patch.setattr(journal.Journal, "_take_in", take_in)


def every_conflict_is_taken_for_a_lost_answer(patch: Patch) -> None:
    patch.setattr(EventSourcedStore, "_stand_there", lambda store, stored: True)


def a_claim_resets_the_budget(patch: Patch) -> None:
    right = evolution._CHANGES[RunClaimed]

    def claimed(state: RunState, event: RunClaimed) -> RunState:
        return replace(right(state, event), steps=0, input_tokens=0, output_tokens=0)

    patch.setitem(evolution._CHANGES, RunClaimed, claimed)


def each_attempt_has_a_key_of_its_own(patch: Patch) -> None:
    right = activities.Activities._context

    def context(self: activities.Activities, state: RunState, call: ToolCall) -> object:
        given = right(self, state, call)
        return replace(given, idempotency_key=f"{given.idempotency_key}:{call.attempt}")

    patch.setattr(activities.Activities, "_context", context)


def whatever_was_not_seen_counts_as_failed(patch: Patch) -> None:
    def unseen(
        self: activities.Activities, call: ToolCall, why: str, detail: str
    ) -> Callable[[AgentRun], None]:
        return lambda run: run.call_failed(call.call_id, detail, self._clock.now())

    patch.setattr(activities.Activities, "_unseen", unseen)


def pins_are_not_checked(patch: Patch) -> None:
    patch.setattr(registered_agents, "differences", lambda *pins, **sources: ())


def the_model_is_asked_before_all_calls_are_done(patch: Patch) -> None:
    right = planning.Plan.move

    def move(plan: planning.Plan) -> object:
        return plan._before_model_call() if plan._state.in_doubt else right(plan)

    patch.setattr(planning.Plan, "move", move)
    patch.setattr(Step, "is_settled", property(lambda step: True))


# -- runs that show it ---------------------------------------------------------------------------------


def killed_everywhere(scenario: Scenario) -> list[Outcome]:
    """Let a process die at each boundary of the run, one after the other."""
    first = Cluster(scenario)
    count = len(first.live(first.start()).processes[-1].passed)
    outcomes: list[Outcome] = []
    for crash_at in range(1, count + 1):
        cluster = Cluster(scenario)
        run_id = cluster.start()
        try:
            outcomes.append(cluster.live(run_id, crashes=[crash_at]))
        except PerdureError:
            outcomes.append(cluster.outcome(run_id))
    return outcomes


def a_call_of_each_policy_killed_everywhere() -> list[Outcome]:
    calls = [Call("order", 1), Call("send", 2), Call("pay", 3)]
    return [outcome for call in calls for outcome in killed_everywhere(Scenario([[call]]))]


def verify_cannot_tell() -> list[Outcome]:
    return killed_everywhere(Scenario([[Call("send", 1, verify="unknown")]]))


def the_effect_comes_late() -> list[Outcome]:
    """A process freezes right before its tool acts; another takes over and asks; then the first one wakes."""
    cluster = Cluster(replace(one_call("send"), timeout=20 * LEASE))
    run_id = cluster.start()
    frozen = FrozenProcess(Boundary.BEFORE_TOOL)
    driving = cluster.freeze(run_id, frozen)
    cluster.clock.jump(LEASE + 1)
    asking = FrozenProcess(Boundary.AFTER_APPEND, "ToolCallVerified")
    heir = cluster.freeze(run_id, asking)
    frozen.thaw.set()
    with pytest.raises(OwnershipLost):
        driving.result(timeout=20)
    asking.thaw.set()
    heir.result(timeout=20)
    return [cluster.outcome(run_id)]


def taken_over_while_the_tool_ran() -> list[Outcome]:
    """Another process claims the run, and nothing more, while the tool of the first one runs."""
    cluster = Cluster(one_call("pay"))
    run_id = cluster.start()
    process = FrozenProcess(Boundary.AFTER_TOOL)
    driving = cluster.freeze(run_id, process)
    cluster.clock.jump(LEASE + 1)
    claimed_only = next(
        at for at, passed in enumerate(process.passed, start=1) if passed == ("after_append", "RunClaimed")
    )
    cluster.die(run_id, claimed_only)
    process.thaw.set()
    assert isinstance(driving.exception(timeout=20), OwnershipLost | None)
    return [cluster.outcome(run_id)]


def two_decide_at_the_same_version() -> list[Outcome]:
    """Two processes have the same answer of the model in hand; the lease of the first one ran out."""
    cluster = Cluster(one_call("pay"))
    run_id = cluster.start()
    process = FrozenProcess(Boundary.BEFORE_APPEND, "ModelResponded,ToolCallStarted")
    driving = cluster.freeze(run_id, process)
    cluster.clock.jump(LEASE + 1)
    cluster.live(run_id)
    process.thaw.set()
    assert isinstance(driving.exception(timeout=20), OwnershipLost | None)
    return [cluster.outcome(run_id)]


def little_budget_killed_everywhere() -> list[Outcome]:
    scenario = replace(several_steps("look_up"), budget=Budget(steps=3, tokens=1000))
    return killed_everywhere(scenario)


def slow_tools() -> list[Outcome]:
    scenario = replace(one_call("pay"), steps=[[Call("pay", 1, "acts_then_hangs")]], timeout=0.05)
    cluster = Cluster(scenario)
    return [cluster.live(cluster.start())]


def another_model_after_the_crash() -> list[Outcome]:
    cluster = Cluster(several_steps("look_up"))
    run_id = cluster.start()
    cluster.die(run_id, 12)
    cluster.scenario = replace(cluster.scenario, model_name="another")
    return [cluster.live(run_id)]


def in_doubt_beside_another() -> list[Outcome]:
    cluster = Cluster(Scenario([[Call("pay", 1, "acts_then_raises"), Call("look_up", 2)]]))
    return [cluster.live(cluster.start())]


@dataclass(frozen=True)
class Control:
    broken: Callable[[Patch], None]
    shown_by: Callable[[], list[Outcome]]
    kinds: tuple[str, ...]


CONTROLS = [
    Control(a_tool_without_a_policy_reruns, a_call_of_each_policy_killed_everywhere, ("repeated effect",)),
    Control(
        a_started_call_counts_as_not_started, a_call_of_each_policy_killed_everywhere, ("repeated effect",)
    ),
    Control(appends_are_written_one_later, a_call_of_each_policy_killed_everywhere, ("unmarked effect",)),
    Control(unknown_is_taken_for_not_landed, verify_cannot_tell, ("repeated effect", "denied effect")),
    Control(not_landed_is_believed_at_once, the_effect_comes_late, ("repeated effect",)),
    Control(claims_of_others_are_ignored, taken_over_while_the_tool_ran, ("stale write",)),
    Control(every_conflict_is_taken_for_a_lost_answer, two_decide_at_the_same_version, ("repeated effect",)),
    Control(a_claim_resets_the_budget, little_budget_killed_everywhere, ("overspent",)),
    Control(each_attempt_has_a_key_of_its_own, a_call_of_each_policy_killed_everywhere, ("repeated effect",)),
    Control(whatever_was_not_seen_counts_as_failed, slow_tools, ("denied effect",)),
    Control(pins_are_not_checked, another_model_after_the_crash, ("unpinned",)),
    Control(
        the_model_is_asked_before_all_calls_are_done, in_doubt_beside_another, ("disorder", "denied effect")
    ),
]


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.broken.__name__)
def test_a_broken_promise_is_noticed(control: Control, monkeypatch: Patch) -> None:
    """The code keeps the promise in this run; with the promise broken on purpose, the check says so."""
    assert [fault for outcome in control.shown_by() for fault in violations(outcome)] == []

    with monkeypatch.context() as patch:
        control.broken(patch)
        found = {fault for outcome in control.shown_by() for fault in violations(outcome)}

    kinds = {fault.split(":")[0] for fault in found}
    assert set(control.kinds) <= kinds, found
