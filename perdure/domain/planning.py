"""What happens next to a run and to each of its calls: the resume table, and the only path there is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from perdure.domain.calls import CallStatus, ToolCall, idempotency_key_for
from perdure.domain.events import (
    EscalationReason,
    Event,
    RunCancelled,
    RunCompleted,
    RunEscalated,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallStarted,
)
from perdure.domain.moves import Act, AskModel, Limits, Move, Rest
from perdure.domain.state import RunState
from perdure.domain.tools import Policy, Toolbox, ToolContract

Emit = Callable[..., None]


class Plan:
    """One look at a run: decides what the log alone can decide, and says what it needs next.

    `emit(event_type, now, **facts)` records a decision and changes the run's state.
    """

    def __init__(self, state: RunState, now: datetime, tools: Toolbox, limits: Limits, emit: Emit) -> None:
        self._state = state
        self._now = now
        self._tools = tools
        self._limits = limits
        self._emit_event = emit
        self._running = 0
        self._verify: list[str] = []
        self._wakes: list[datetime] = []
        self._for_a_person: list[tuple[ToolCall, str]] = []
        self._held_back = False

    def move(self) -> Move:
        """Decide, and return what the run needs next."""
        if self._state.is_resting:
            return Rest()
        if len(self._state.barren_claims) >= self._limits.barren_claims:
            return self._quarantine()
        calls = list(self._state.calls.values())
        self._running = sum(self._is_ours(call) for call in calls)
        for call in calls:
            self._plan_call(call)
        if self._running or self._verify or self._wakes:
            return Act(tuple(self._verify), min(self._wakes, default=None))
        return self._when_calls_are_done()

    # -- one call ----------------------------------------------------------------------------------

    def _is_ours(self, call: ToolCall) -> bool:
        return call.status is CallStatus.STARTED and call.epoch == self._state.epoch

    def _plan_call(self, call: ToolCall) -> None:
        match call.status:
            case CallStatus.REQUESTED:
                self._plan_first_start(call)
            case CallStatus.STARTED if not self._is_ours(call):
                why = "crash"
                self._emit(ToolCallInDoubt, call_id=call.call_id, attempt=call.attempt, why=why)
                self._plan_doubt(call, due=self._now)
            case CallStatus.IN_DOUBT:
                waited = self._limits.delay(call.attempt)
                lost = call.doubt == "crash" or call.doubted_at is None
                due = self._now if lost or call.doubted_at is None else call.doubted_at + waited
                self._plan_doubt(call, due=due)
            case CallStatus.CLEARED:
                self._plan_repeat(call)
            case _:
                pass

    def _plan_first_start(self, call: ToolCall) -> None:
        if self._is_full() and not self._stops_starts():
            return  # nor are its arguments checked at each look
        refusal = self._tools.refusal(call.name, call.arguments)
        if refusal is not None:
            self._emit(ToolCallFailed, call_id=call.call_id, error=refusal, known_by="refused")
        else:
            self._start(call)

    def _plan_repeat(self, call: ToolCall) -> None:
        contract = self._tools.contract(call.name)
        if call.cleared_by == "verify" and contract and call.attempt >= contract.max_attempts:
            error = f"It did not happen: {call.attempt} attempts, each verified not to have landed."
            self._emit(ToolCallFailed, call_id=call.call_id, error=error, known_by="verified")
        else:
            self._start(call)

    def _plan_doubt(self, call: ToolCall, due: datetime) -> None:
        contract = self._tools.contract(call.name)
        if contract is None:
            return self._ask_a_person(call, "its tool is no longer registered")
        match Policy.stricter(call.policy, contract.policy):
            case Policy.ESCALATE_IF_UNKNOWN:
                self._ask_a_person(call, f"the policy is {Policy.ESCALATE_IF_UNKNOWN}")
            case Policy.VERIFY_THEN_DECIDE:
                self._plan_verification(call, contract)
            case Policy.RERUN_WITH_IDEMPOTENCY_KEY if self._key_is_too_old(call, contract):
                self._ask_a_person(call, f"its idempotency key is older than {contract.key_ttl}")
            case _ if call.attempt >= contract.max_attempts:
                self._ask_a_person(call, f"it was started {call.attempt} times, its end never seen")
            case _ if self._stops_starts():
                self._held_back = True
            case _ if due > self._now:
                self._wakes.append(due)
            case _:
                self._start(call)
        return None

    def _plan_verification(self, call: ToolCall, contract: ToolContract) -> None:
        if call.conclusive >= contract.max_verifications:
            self._ask_a_person(call, f"verify was asked {call.verifications} times to no avail")
            return
        if call.verified_at is None:
            self._verify.append(call.call_id)
            return
        due = call.verified_at + self._limits.delay(call.verifications)
        if due > self._now:
            self._wakes.append(due)
        else:
            self._verify.append(call.call_id)

    def _key_is_too_old(self, call: ToolCall, contract: ToolContract) -> bool:
        first = call.first_started_at
        return first is not None and self._now - first >= contract.key_ttl

    def _stops_starts(self) -> bool:
        late = self._state.deadline is not None and self._now >= self._state.deadline
        return late or self._state.cancellation is not None

    def _is_full(self) -> bool:
        return self._running >= self._limits.parallel_calls

    def _start(self, call: ToolCall) -> None:
        if self._stops_starts():
            self._held_back = True
            return
        if self._is_full():
            return
        contract = self._tools.contract(call.name)
        if contract is None:
            self._ask_a_person(call, "its tool is no longer registered")
            return
        self._running += 1
        self._emit(
            ToolCallStarted,
            call_id=call.call_id,
            attempt=call.attempt + 1,
            policy=contract.policy,
            idempotency_key=idempotency_key_for(self._state.run_id, call.call_id),
            timeout=contract.timeout,
            settle=contract.settle or None,
        )

    # -- the run -----------------------------------------------------------------------------------

    def _when_calls_are_done(self) -> Move:
        state = self._state
        if state.cancellation is not None:
            who = state.cancellation
            self._emit(RunCancelled, by=who.by, reason=who.reason)
            return Rest()
        if self._for_a_person:
            return self._escalate_calls()
        if self._held_back:
            return self._escalate_deadline("tool calls")
        if state.step is not None and not state.calls and not state.inbox:
            self._emit(RunCompleted, answer=state.step.message.text)
            return Rest()
        return self._before_model_call()

    def _before_model_call(self) -> Move:
        state = self._state
        budget = state.budget
        if budget.steps is not None and state.steps >= budget.steps:
            return self._escalate_budget(f"{state.steps} of {budget.steps} steps are used")
        if budget.tokens is not None and state.tokens >= budget.tokens:
            return self._escalate_budget(f"{state.tokens} of {budget.tokens} tokens are used")
        if state.deadline is not None and self._now >= state.deadline:
            return self._escalate_deadline("model calls")
        if state.trouble is not None and state.trouble.retry_at is None:
            return self._escalate(
                "model",
                f"The model call of step {state.steps + 1} failed {state.trouble.attempt} times: "
                f"{state.trouble.message}",
                "Mend the cause and resume the run, or abandon it.",
            )
        retry_at = state.trouble.retry_at if state.trouble is not None else None
        if retry_at is not None and retry_at > self._now:
            return Act(wake_at=retry_at)
        return AskModel(state.steps + 1)

    def _quarantine(self) -> Move:
        for call in self._state.calls.values():
            if call.status is CallStatus.STARTED:
                self._emit(ToolCallInDoubt, call_id=call.call_id, attempt=call.attempt, why="crash")
        lost = self._state.barren_claims
        return self._escalate(
            "quarantine",
            f"{len(lost)} workers in a row were lost with this run and brought nothing: " + ", ".join(lost),
            "Find out what kills the workers, then resume the run, or abandon it.",
        )

    def _escalate_calls(self) -> Move:
        reasons = "; ".join(
            f"{call.call_id} ({call.name}): {call.doubt or 'crash'}"
            + (f" ({call.doubt_detail})" if call.doubt_detail else "")
            + f", and {why}"
            for call, why in self._for_a_person
        )
        return self._escalate(
            "calls_in_doubt",
            f"Started, and the end was not seen: {reasons}.",
            "For each call: did it happen? Resolve it as succeeded (with its result), failed, or rerun; "
            "or abandon the run.",
            calls=tuple(call.call_id for call, _ in self._for_a_person),
        )

    def _escalate_budget(self, used: str) -> Move:
        ask = "Extend the budget, or cancel the run."
        return self._escalate("budget", f"The budget is spent: {used}.", ask)

    def _escalate_deadline(self, what: str) -> Move:
        return self._escalate(
            "deadline",
            f"The deadline ({self._state.deadline:%Y-%m-%d %H:%M:%SZ}) has passed; "
            f"no new {what} are started.",
            "Extend the wall-clock budget, or cancel the run.",
        )

    def _escalate(self, why: EscalationReason, message: str, ask: str, calls: tuple[str, ...] = ()) -> Move:
        self._emit(RunEscalated, why=why, message=message, ask=ask, calls=calls)
        return Rest()

    def _ask_a_person(self, call: ToolCall, why: str) -> None:
        self._for_a_person.append((call, why))

    def _emit(self, event_type: type[Event], **facts: Any) -> None:
        self._emit_event(event_type, self._now, **facts)
