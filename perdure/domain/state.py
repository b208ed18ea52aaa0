"""What the log says about a run, at one version of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from perdure.domain.budget import Budget
from perdure.domain.calls import CallStatus, ToolCall
from perdure.domain.events import EscalationReason
from perdure.domain.messages import AssistantMessage, Message, ToolResultsMessage, UserMessage
from perdure.domain.pins import Pins
from perdure.domain.record import Record
from perdure.domain.transcript import Transcript


class RunStatus(StrEnum):
    """Where a run stands."""

    UNKNOWN = "unknown"
    """The log is empty."""
    RUNNING = "running"
    """It can go on: a worker drives it, or may claim it."""
    ESCALATED = "escalated"
    """It rests until a person decides."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINISHED = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})


@dataclass(frozen=True)
class Step(Record):
    """A model response and the calls that it asked for."""

    number: int
    message: AssistantMessage
    calls: Mapping[str, ToolCall]

    @property
    def is_settled(self) -> bool:
        """Whether every call has an outcome."""
        return all(call.is_settled for call in self.calls.values())

    def messages(self) -> tuple[Message, ...]:
        """Return the response and, right behind it, one result for each call."""
        if not self.message.parts:
            return ()
        if not self.calls:
            return (self.message,)
        results = tuple(call.result() for call in self.calls.values())
        return (self.message, ToolResultsMessage(results=results))


@dataclass(frozen=True)
class Escalation(Record):
    """What a person is asked."""

    why: EscalationReason
    calls: tuple[str, ...]
    message: str
    ask: str
    at: datetime


@dataclass(frozen=True, slots=True)
class ModelTrouble:
    """Failures of the model call that is due, since the last response."""

    attempt: int
    message: str
    retry_at: datetime | None


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person decided about a call."""

    resolution: str
    by: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Cancellation:
    """Who asked the run to stop, and why."""

    by: str
    reason: str


@dataclass(frozen=True)
class RunState(Record):
    """A run at one version of its log: all that a fresh worker needs to go on.

    Attributes:
        version: Number of events folded; the aggregate version.
        at: When the last of them was recorded.
        step: The pending step: the last response, and its calls. None before the first response.
        history: The conversation before the pending step.
        inbox: Input that the model has not been shown, or not at its last response, as (version, message).
        steps: Model responses so far.
        input_tokens: Tokens sent so far; with `output_tokens`, what counts against the budget.
        deadline: No new starts from here on.
        epoch: Number of the newest claim.
        worker: Who made it.
        escalation: What a person is asked, while the status is escalated.
        decisions: Call id -> what a person decided last about it, in any step.
        barren_claims: Claims in a row that ended with an expired lease and brought no new fact, each as
            "worker (epoch)".
        answer: The final answer, once completed.
        failure: (code, message), once failed.
    """

    run_id: str
    version: int = 0
    at: datetime | None = None
    status: RunStatus = RunStatus.UNKNOWN
    agent: str = ""
    tenant: str | None = None
    parent: str | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    pins: Pins = field(default_factory=lambda: Pins(model="", prompt_version="", prompt="", tools=()))
    started_at: datetime | None = None
    budget: Budget = field(default_factory=Budget)
    deadline: datetime | None = None
    history: Transcript = field(default_factory=Transcript, repr=False)
    inbox: tuple[tuple[int, UserMessage], ...] = ()
    step: Step | None = None
    steps: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    epoch: int = 0
    worker: str | None = None
    barren_claims: tuple[str, ...] = ()
    trouble: ModelTrouble | None = None
    escalation: Escalation | None = None
    decisions: Mapping[str, Decision] = field(default_factory=lambda: MappingProxyType({}))
    cancellation: Cancellation | None = None
    answer: str | None = None
    failure: tuple[str, str] | None = None

    @property
    def is_finished(self) -> bool:
        """Whether the run has come to its end."""
        return self.status in FINISHED

    @property
    def is_resting(self) -> bool:
        """Whether there is nothing to do until somebody says more."""
        return self.status is not RunStatus.RUNNING

    @property
    def tokens(self) -> int:
        """Tokens that count against the budget."""
        return self.input_tokens + self.output_tokens

    @property
    def calls(self) -> Mapping[str, ToolCall]:
        """The calls of the pending step, by call id, in the model's order."""
        return self.step.calls if self.step is not None else MappingProxyType({})

    @property
    def in_doubt(self) -> tuple[ToolCall, ...]:
        """Calls that were started and have no known outcome, and that no one is running now."""
        doubtful = {CallStatus.IN_DOUBT}
        if self.is_finished:
            doubtful.add(CallStatus.STARTED)
        return tuple(call for call in self.calls.values() if call.status in doubtful)

    def messages(self) -> list[Message]:
        """Render the whole conversation in a form that every provider accepts, at any version.

        Each tool call has exactly one result, right behind the response that asked for it; for a call with
        no outcome the result says so. Input that came later than a response stands behind its results.
        """
        pending = self.step.messages() if self.step is not None else ()
        return [*self.history, *pending, *(message for _, message in self.inbox)]
