"""The aggregate: commands in, events out. It decides and raises; `state.py` does what was decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Self

from perdure.domain.budget import Budget
from perdure.domain.calls import CallStatus, ToolCall, call_id_for
from perdure.domain.content import InlineContent, StoredContent
from perdure.domain.errors import (
    InvalidInput,
    RunFinished,
    RunNotRunnable,
)
from perdure.domain.events import (
    BudgetExtended,
    CancelRequested,
    DoubtReason,
    EscalationReason,
    EscalationResolved,
    Event,
    InputAdded,
    ModelCallFailed,
    ModelResponded,
    RunCancelled,
    RunClaimed,
    RunEscalated,
    RunFailed,
    RunStarted,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallSucceeded,
    ToolCallVerified,
)
from perdure.domain.evolution import evolve, fold
from perdure.domain.messages import (
    AssistantMessage,
    Reply,
    ToolCallPart,
    ToolRequest,
    UserMessage,
)
from perdure.domain.moves import Limits, Move
from perdure.domain.pins import Pins
from perdure.domain.planning import Plan
from perdure.domain.resolving import call_of, require_resolvable
from perdure.domain.state import RunState, RunStatus
from perdure.domain.tools import Resolution, Toolbox, Verdict


class AgentRun:
    """One execution of an agent, as an event-sourced aggregate.

    Every command takes the time as data (`now`), raises if it does not fit the state, and otherwise emits
    events, which are the only way the state changes. Events wait in `pending` until `committed()` says
    that they are stored; `rebase()` throws them away and takes in what others stored meanwhile.
    """

    def __init__(self, state: RunState) -> None:
        self._stored = state
        self._state = state
        self._pending: list[Event] = []

    @property
    def id(self) -> str:
        """The run id."""
        return self._state.run_id

    @property
    def version(self) -> int:
        """Number of events, pending ones included."""
        return self._state.version

    @property
    def state(self) -> RunState:
        """The state after all events, pending ones included."""
        return self._state

    @property
    def pending(self) -> Sequence[Event]:
        """Events that are not known to be stored."""
        return tuple(self._pending)

    @property
    def stored_version(self) -> int:
        """Number of events that are known to be stored."""
        return self._stored.version

    @classmethod
    def from_events(cls, run_id: str, events: Iterable[Event]) -> Self:
        """Rebuild a run from its log, or from any prefix of it."""
        return cls(fold(run_id, events))

    def committed(self) -> None:
        """Take note that all pending events are stored."""
        self._stored = self._state
        self._pending.clear()

    def rebase(self, facts: Iterable[Event]) -> None:
        """Drop pending events and take in what others stored; commands are then to be decided again."""
        self._pending.clear()
        self._stored = self._state = fold(self.id, facts, self._stored)

    def collect_events(self) -> Sequence[Event]:
        """Hand over the pending events; what `Application.save()` of `eventsourcing` calls."""
        events = tuple(self._pending)
        self.committed()
        return events

    # -- beginning and ownership -------------------------------------------------------------------

    @classmethod
    def start(
        cls,
        run_id: str,
        *,
        agent: str,
        messages: Sequence[UserMessage | AssistantMessage],
        pins: Pins,
        budget: Budget,
        now: datetime,
        tenant: str | None = None,
        labels: Mapping[str, str] | None = None,
        parent: str | None = None,
    ) -> Self:
        """Begin a run.

        Raises:
            InvalidInput: When there is nothing for the agent to answer.
        """
        if not messages or not isinstance(messages[-1], UserMessage):
            raise InvalidInput("a run starts with input: its last message must be the user's")
        for message in messages:
            if isinstance(message, AssistantMessage) and (message.tool_calls or not message.parts):
                raise InvalidInput(
                    "a conversation that a run starts with holds text: no tool calls (their results "
                    "have no place in it), and no empty messages"
                )
        run = cls(RunState(run_id))
        run._emit(
            RunStarted,
            now,
            agent=agent,
            input=tuple(messages),
            pins=pins,
            budget=budget,
            tenant=tenant,
            deadline=now + budget.wall_clock if budget.wall_clock is not None else None,
            labels=dict(labels) if labels else None,
            parent=parent,
        )
        return run

    def claim(
        self, worker: str, epoch: int, left: Literal["new", "released", "expired"], now: datetime
    ) -> None:
        """Record that a worker took the run.

        Raises:
            RunNotRunnable: When there is nothing to do.
        """
        if self._state.is_resting:
            raise RunNotRunnable(f"run {self.id!r} is {self._state.status}: nothing to claim")
        if epoch <= self._state.epoch:
            raise ValueError(f"epoch {epoch} is not above {self._state.epoch}")
        self._emit(RunClaimed, now, worker=worker, epoch=epoch, left=left)

    def advance(self, now: datetime, tools: Toolbox, limits: Limits) -> Move:
        """Decide all that can be decided from the log alone, and say what the run needs next.

        Fresh and resumed runs both come through here, and nothing else decides what happens to a call.
        """
        return Plan(self._state, now, tools, limits, self._emit).move()

    # -- what the owner found out ------------------------------------------------------------------

    def respond(self, reply: Reply, *, seen: int, now: datetime) -> None:
        """Record a model response; its tool calls get their ids here.

        Args:
            reply: What the model answered.
            seen: The version of the run whose conversation the model was shown.
            now: The time.
        """
        self._require_unfinished()
        if self._state.step is not None and not self._state.step.is_settled:
            raise RunNotRunnable(f"run {self.id!r} has calls without an outcome: the model is not asked yet")
        step = self._state.steps + 1
        parts: list[Any] = []
        position = 0
        for part in reply.parts:
            if isinstance(part, ToolRequest):
                position += 1
                call_id = call_id_for(self.id, step, position)
                fields = {name: getattr(part, name) for name in ToolRequest.model_fields}
                parts.append(ToolCallPart(**fields, call_id=call_id))
            else:
                parts.append(part)
        self._emit(
            ModelResponded,
            now,
            step=step,
            seen=seen,
            message=AssistantMessage(parts=tuple(parts)),
            usage=reply.usage,
            finish_reason=reply.finish_reason,
            model=reply.model,
        )

    def model_failed(
        self,
        failure: Literal["transient", "permanent"],
        message: str,
        *,
        retry_at: datetime | None,
        now: datetime,
    ) -> None:
        """Record that a model call brought nothing; without `retry_at` a person is asked."""
        self._require_unfinished()
        trouble = self._state.trouble
        self._emit(
            ModelCallFailed,
            now,
            step=self._state.steps + 1,
            attempt=(trouble.attempt if trouble is not None else 0) + 1,
            failure=failure,
            message=message,
            retry_at=retry_at,
        )

    def call_succeeded(self, call_id: str, content: InlineContent | StoredContent, now: datetime) -> None:
        """Record the result of a call that ran to its end."""
        self._require_started(call_id)
        self._emit(ToolCallSucceeded, now, call_id=call_id, content=content, known_by="ran")

    def call_failed(self, call_id: str, error: str, now: datetime) -> None:
        """Record that a call did not happen (the tool said so), or only read and failed."""
        self._require_started(call_id)
        self._emit(ToolCallFailed, now, call_id=call_id, error=error, known_by="ran")

    def call_in_doubt(self, call_id: str, why: DoubtReason, now: datetime, detail: str | None = None) -> None:
        """Record that the end of a call was not seen."""
        call = self._require_started(call_id)
        self._emit(ToolCallInDoubt, now, call_id=call_id, attempt=call.attempt, why=why, detail=detail)

    def call_verified(
        self,
        call_id: str,
        verdict: Verdict,
        now: datetime,
        content: InlineContent | StoredContent | None = None,
    ) -> None:
        """Record what `verify` found.

        "Not landed" counts as unknown until the attempt can no longer act: a frozen process could still
        wake up and do it.

        Args:
            call_id: The call.
            verdict: What was found.
            now: The time.
            content: What the call brought back, when it landed.
        """
        call = call_of(self._state, call_id)
        if call.status is not CallStatus.IN_DOUBT:
            return
        outcome, evidence = verdict.outcome, verdict.evidence
        if outcome == "not_landed" and not call.believes_not_landed(now):
            outcome = "unknown"
            evidence = "not landed so far, but the attempt may still act" + (
                f": {evidence}" if evidence else ""
            )
        self._emit(
            ToolCallVerified,
            now,
            call_id=call_id,
            attempt=call.attempt,
            verdict=outcome,
            evidence=evidence,
        )
        if outcome == "landed":
            self._emit(
                ToolCallSucceeded,
                now,
                call_id=call_id,
                content=content if content is not None else InlineContent(text="null"),
                known_by="verified",
            )

    def escalate(self, why: EscalationReason, message: str, ask: str, now: datetime) -> None:
        """Leave the run to a person; nobody runs its calls any more, so those that were started are in doubt.

        Raises:
            RunNotRunnable: When the run rests already.
        """
        if self._state.is_resting:
            raise RunNotRunnable(f"run {self.id!r} is {self._state.status} already")
        for call in self._state.calls.values():
            if call.status is CallStatus.STARTED:
                self.call_in_doubt(call.call_id, "crash", now)
        self._emit(RunEscalated, now, why=why, message=message, ask=ask)

    # -- what people say ---------------------------------------------------------------------------

    def add_input(self, message: UserMessage, now: datetime, by: str | None = None) -> None:
        """Tell the agent something more; it keeps a completing run going.

        Raises:
            RunFinished: When the run has ended.
        """
        self._require_unfinished()
        self._emit(InputAdded, now, message=message, by=by)

    def extend_budget(self, more: Budget, now: datetime, *, by: str, reason: str) -> None:
        """Allow the run more; time counts from now when the deadline has passed.

        Raises:
            RunFinished: When the run has ended.
            InvalidInput: When nothing is added, or to a limit that the run does not have.
        """
        self._require_unfinished()
        deadline = None
        for limit in ("steps", "tokens", "wall_clock"):
            if getattr(more, limit) is not None and getattr(self._state.budget, limit) is None:
                raise InvalidInput(f"run {self.id!r} has no limit of {limit}: nothing to extend")
        if more == Budget():
            raise InvalidInput("say what to add: steps, tokens or wall_clock")
        if more.wall_clock is not None and self._state.deadline is not None:
            deadline = max(self._state.deadline, now) + more.wall_clock
        self._emit(BudgetExtended, now, more=more, deadline=deadline, by=by, reason=reason)

    def request_cancel(self, now: datetime, *, by: str, reason: str, owned: bool) -> None:
        """Ask the run to stop. With no owner and nothing in flight it stops at once.

        Args:
            now: The time.
            by: Who asks.
            reason: Why.
            owned: Whether a worker holds the run; it then settles what is in flight first.

        Raises:
            RunFinished: When the run has ended.
        """
        self._require_unfinished()
        if self._state.cancellation is None:
            self._emit(CancelRequested, now, by=by, reason=reason)
        in_flight = any(call.status is CallStatus.STARTED for call in self._state.calls.values())
        if not owned and not in_flight:
            self._emit(RunCancelled, now, by=by, reason=reason)

    def resolve(
        self,
        call_id: str | None,
        resolution: Resolution,
        now: datetime,
        *,
        by: str,
        reason: str,
        content: InlineContent | StoredContent | None = None,
    ) -> None:
        """Decide a call in doubt, or (without a call id) an escalated run.

        Args:
            call_id: The call, or None for the run itself.
            resolution: What was decided.
            now: The time.
            by: Who decided.
            reason: Why.
            content: The result, for a call that succeeded.

        Raises:
            CallNotFound: The run has no such call in its pending step.
            CallAlreadyResolved: The call has an outcome, or a decision.
            RunNotRunnable: The resolution does not fit.
        """
        require_resolvable(self._state, call_id, resolution)
        self._emit(
            EscalationResolved,
            now,
            call_id=call_id,
            resolution=resolution.outcome,
            by=by,
            reason=reason,
        )
        if resolution.outcome == "succeeded":
            self._emit(
                ToolCallSucceeded,
                now,
                call_id=call_id,
                content=content if content is not None else InlineContent(text="null"),
                known_by="person",
            )
        elif resolution.outcome == "failed":
            self._emit(ToolCallFailed, now, call_id=call_id, error=resolution.error, known_by="person")
        elif resolution.outcome == "abandon":
            self._emit(RunFailed, now, code="abandoned", message=reason, by=by)

    # -- inside ------------------------------------------------------------------------------------

    def _emit(self, event_type: type[Event], now: datetime, **facts: Any) -> None:
        at = max(now, self._state.at) if self._state.at is not None else now
        event = event_type(run_id=self.id, seq=self.version + 1, at=at, **facts)
        self._state = evolve(self._state, event)
        self._pending.append(event)

    def _require_started(self, call_id: str) -> ToolCall:
        self._require_unfinished()
        call = call_of(self._state, call_id)
        if call.status is not CallStatus.STARTED:
            raise RunNotRunnable(f"call {call_id!r} is {call.status}, not started")
        return call

    def _require_unfinished(self) -> None:
        if self._state.status is RunStatus.UNKNOWN:
            raise RunNotRunnable(f"run {self.id!r} has not been started")
        if self._state.is_finished:
            raise RunFinished(f"run {self.id!r} is {self._state.status}; start a new run to go on from it")
