"""Logs of runs, written the way they are told: `a_run("Refund it").claimed().responded(asks("refund"))`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, overload

from perdure.domain.budget import Budget
from perdure.domain.calls import call_id_for, idempotency_key_for
from perdure.domain.content import InlineContent, StoredContent
from perdure.domain.events import (
    BudgetExtended,
    CancelRequested,
    DoubtReason,
    EscalationReason,
    EscalationResolved,
    Event,
    InputAdded,
    ModelCallFailed,
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunEscalated,
    RunFailed,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallStarted,
    ToolCallSucceeded,
    ToolCallVerified,
)
from perdure.domain.evolution import fold
from perdure.domain.messages import AssistantMessage, Reply, UserMessage
from perdure.domain.pins import Pins, ToolPin
from perdure.domain.run import AgentRun
from perdure.domain.state import RunState
from perdure.domain.tools import Policy
from perdure.testing.scripted_model import says

Call = int | str
"""A call of the pending step by its position (from 1), or any call by its id."""


def a_run(
    *messages: str | UserMessage | AssistantMessage,
    run_id: str = "run-1",
    agent: str = "agent",
    pins: Pins | None = None,
    tools: Iterable[ToolPin] = (),
    budget: Budget | None = None,
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC),
    tenant: str | None = None,
    labels: Mapping[str, str] | None = None,
    parent: str | None = None,
) -> RunLog:
    """Return the log of a run that has just been started.

    Args:
        messages: What it was started with; text is a user's message.
        run_id: The run.
        agent: Name of its agent.
        pins: What it is pinned to; by default a scripted model, and the tools.
        tools: Tools of the default pins.
        budget: What it may use; by default all it wants.
        at: When it was started.
        tenant: For whom it runs.
        labels: Words on it.
        parent: The run that started it.
    """
    told = [UserMessage(text=each) if isinstance(each, str) else each for each in messages or ("Go.",)]
    run = AgentRun.start(
        run_id,
        agent=agent,
        messages=told,
        pins=pins or Pins(model="scripted", prompt_version="v1", prompt="", tools=tuple(tools)),
        budget=budget or Budget(),
        now=at,
        tenant=tenant,
        labels=labels,
        parent=parent,
    )
    return RunLog(run_id, run.pending, at)


class RunLog(Sequence[Event]):
    """The events of a run so far. Each method returns a longer log and leaves this one as it is.

    Time stands still unless `after` lets it pass. Nothing is checked: any log can be told.

    Attributes:
        now: The time at which the next event is recorded.
    """

    def __init__(self, run_id: str, events: Iterable[Event], now: datetime) -> None:
        self._run_id = run_id
        self._events = tuple(events)
        self._state = fold(run_id, self._events)
        self.now = now

    @property
    def state(self) -> RunState:
        """The state after these events."""
        return self._state

    @property
    def run(self) -> AgentRun:
        """The run after these events."""
        return AgentRun.from_events(self._run_id, self._events)

    def call_id(self, call: Call = 1, *, step: int | None = None) -> str:
        """Return the id of a call, by its position in a step; by default in the pending one."""
        return call if isinstance(call, str) else call_id_for(self._run_id, step or self._state.steps, call)

    def after(self, seconds: float | timedelta) -> RunLog:
        """Let time pass before the next event."""
        passed = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
        return RunLog(self._run_id, self._events, self.now + passed)

    def record(self, event_type: type[Event], **fields: Any) -> RunLog:
        """Add any event; run id, seq and time are filled in."""
        filled: dict[str, Any] = {
            "run_id": self._run_id,
            "seq": len(self._events) + 1,
            "at": self.now,
            **fields,
        }
        return self.also(event_type(**filled))

    def also(self, *events: Event) -> RunLog:
        """Add events as they are."""
        return RunLog(self._run_id, (*self._events, *events), self.now)

    # -- what workers record -----------------------------------------------------------------------

    def claimed(
        self,
        worker: str = "worker",
        *,
        left: Literal["new", "released", "expired"] | None = None,
        epoch: int | None = None,
    ) -> RunLog:
        """A worker took the run; by default as new, or as released by the one before."""
        before = self._state.epoch
        how = left or ("released" if before else "new")
        return self.record(RunClaimed, worker=worker, epoch=epoch or before + 1, left=how)

    def crashed(self, worker: str = "worker") -> RunLog:
        """The worker died, its lease ran out, and another one took the run."""
        return self.claimed(worker, left="expired")

    def responded(self, reply: Reply | str, *, seen: int | None = None) -> RunLog:
        """The model answered; by default it had seen everything so far."""
        run = AgentRun(self._state)
        answer = says(reply) if isinstance(reply, str) else reply
        run.respond(answer, seen=len(self) if seen is None else seen, now=self.now)
        return self.also(*run.pending)

    def model_failed(
        self,
        message: str = "overloaded",
        *,
        failure: Literal["transient", "permanent"] = "transient",
        retry_in: float | None = None,
    ) -> RunLog:
        """A model call failed; without `retry_in` (seconds) it is left to a person."""
        trouble = self._state.trouble
        return self.record(
            ModelCallFailed,
            step=self._state.steps + 1,
            attempt=(trouble.attempt if trouble else 0) + 1,
            failure=failure,
            message=message,
            retry_at=None if retry_in is None else self.now + timedelta(seconds=retry_in),
        )

    def call_started(
        self,
        call: Call = 1,
        *,
        policy: Policy = Policy.ESCALATE_IF_UNKNOWN,
        timeout: float = 300.0,
        settle: float | None = None,
        attempt: int | None = None,
    ) -> RunLog:
        """A tool was started; by default one attempt after the last."""
        call_id = self.call_id(call)
        return self.record(
            ToolCallStarted,
            call_id=call_id,
            attempt=attempt or self._attempt(call_id) + 1,
            policy=policy,
            idempotency_key=idempotency_key_for(self._run_id, call_id),
            timeout=timeout,
            settle=settle,
        )

    def call_succeeded(
        self,
        call: Call = 1,
        content: str | InlineContent | StoredContent = "done",
        *,
        known_by: Literal["ran", "verified", "person"] = "ran",
    ) -> RunLog:
        """A call happened."""
        brought = InlineContent(text=content) if isinstance(content, str) else content
        return self.record(ToolCallSucceeded, call_id=self.call_id(call), content=brought, known_by=known_by)

    def call_failed(
        self,
        call: Call = 1,
        error: str = "failed",
        *,
        known_by: Literal["ran", "refused", "verified", "person"] = "ran",
    ) -> RunLog:
        """A call did not happen."""
        return self.record(ToolCallFailed, call_id=self.call_id(call), error=error, known_by=known_by)

    def call_in_doubt(
        self, call: Call = 1, why: DoubtReason = "crash", *, detail: str | None = None
    ) -> RunLog:
        """Nobody saw the end of a call."""
        call_id = self.call_id(call)
        attempt = self._attempt(call_id) or 1
        return self.record(ToolCallInDoubt, call_id=call_id, attempt=attempt, why=why, detail=detail)

    def call_verified(
        self,
        call: Call = 1,
        verdict: Literal["landed", "not_landed", "unknown"] = "unknown",
        *,
        evidence: str | None = None,
    ) -> RunLog:
        """`verify` was asked about a call."""
        call_id = self.call_id(call)
        attempt = self._attempt(call_id) or 1
        return self.record(
            ToolCallVerified, call_id=call_id, attempt=attempt, verdict=verdict, evidence=evidence
        )

    def escalated(self, why: EscalationReason = "calls_in_doubt", *calls: Call) -> RunLog:
        """The run was left to a person."""
        ids = tuple(self.call_id(call) for call in calls)
        return self.record(RunEscalated, why=why, calls=ids, message=f"{why}.", ask="Decide.")

    def completed(self, answer: str = "Done.") -> RunLog:
        """The run came to its end."""
        return self.record(RunCompleted, answer=answer)

    def run_failed(self, code: str = "abandoned", message: str = "given up") -> RunLog:
        """The run was given up."""
        return self.record(RunFailed, code=code, message=message)

    def cancelled(self, *, by: str = "ann", reason: str = "not needed") -> RunLog:
        """The run stopped because somebody had asked for it."""
        return self.record(RunCancelled, by=by, reason=reason)

    # -- what people record ------------------------------------------------------------------------

    def resolved(
        self,
        call: Call | None,
        resolution: Literal["succeeded", "failed", "rerun", "resume", "abandon"],
        *,
        by: str = "ann",
        reason: str = "looked it up",
    ) -> RunLog:
        """A person decided about a call, or (None) about the run; the result is an event of its own."""
        call_id = None if call is None else self.call_id(call)
        return self.record(EscalationResolved, call_id=call_id, resolution=resolution, by=by, reason=reason)

    def input_added(self, text: str = "One more thing.", *, by: str | None = None) -> RunLog:
        """Somebody told the agent something more."""
        return self.record(InputAdded, message=UserMessage(text=text), by=by)

    def budget_extended(
        self, more: Budget, *, deadline: datetime | None = None, by: str = "ann", reason: str = "worth it"
    ) -> RunLog:
        """Somebody allowed the run more."""
        return self.record(BudgetExtended, more=more, deadline=deadline, by=by, reason=reason)

    def cancel_requested(self, *, by: str = "ann", reason: str = "not needed") -> RunLog:
        """Somebody asked the run to stop."""
        return self.record(CancelRequested, by=by, reason=reason)

    # -- a sequence --------------------------------------------------------------------------------

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | Sequence[Event]:
        return self._events[index]

    def __len__(self) -> int:
        return len(self._events)

    def _attempt(self, call_id: str) -> int:
        call = self._state.calls.get(call_id)
        return call.attempt if call is not None else 0
