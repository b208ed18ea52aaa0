"""The facts of a run, in the past tense. Their stored form is a promise: see `upcasts.py`."""

from __future__ import annotations

from datetime import UTC
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, AwareDatetime, Field

from perdure.domain.budget import Budget
from perdure.domain.content import Content
from perdure.domain.messages import AssistantMessage, InputMessage, Usage, UserMessage
from perdure.domain.pins import Pins
from perdure.domain.tools import Policy
from perdure.domain.value import Text, Value

Instant = Annotated[AwareDatetime, AfterValidator(lambda moment: moment.astimezone(UTC))]
"""A moment in UTC."""

DoubtReason = Literal["crash", "timeout", "lost_connection", "cancelled", "exception"]
EscalationReason = Literal["calls_in_doubt", "budget", "deadline", "model", "pins", "quarantine"]


class Event(Value):
    """What all events have.

    Attributes:
        run_id: The run.
        seq: Position in the run's log, from 1: the aggregate version.
        at: When it was recorded, by the database's clock. Never goes back within a run.
    """

    TOPIC: ClassVar[str] = ""
    """Name in the store; it stays when the class is moved or renamed."""
    VERSION: ClassVar[int] = 1
    """Version of the stored form; a change that old readers or old logs cannot take raises it."""

    run_id: str
    seq: int = Field(ge=1)
    at: Instant


class RunStarted(Event):
    """A run began, with everything that must not change under it."""

    TOPIC = "perdure.run-started"

    agent: Text
    input: tuple[InputMessage, ...]
    pins: Pins
    budget: Budget
    tenant: Text | None = None
    deadline: Instant | None = None
    labels: dict[Text, Text] | None = None
    parent: Text | None = None


class RunClaimed(Event):
    """A worker took the run; nobody with a lower epoch writes after this.

    Attributes:
        left: How the run was left before: never owned, released by its owner, or its lease expired.
    """

    TOPIC = "perdure.run-claimed"

    worker: Text
    epoch: int = Field(ge=1)
    left: Literal["new", "released", "expired"]


class ModelResponded(Event):
    """The model answered: its decision is on record before anything is done about it.

    Attributes:
        step: Number of the step that this response begins, from 1.
        seen: The version of the run that the model was shown. Input after it comes later in the conversation.
        model: The model's name as the provider gave it.
    """

    TOPIC = "perdure.model-responded"

    step: int = Field(ge=1)
    seen: int = Field(ge=0)
    message: AssistantMessage
    usage: Usage
    finish_reason: Text | None = None
    model: Text | None = None


class ModelCallFailed(Event):
    """A model call brought no response.

    Attributes:
        attempt: Failures of this step so far, this one included.
        retry_at: When it is tried again; None when it is left to a person.
    """

    TOPIC = "perdure.model-call-failed"

    step: int = Field(ge=1)
    attempt: int = Field(ge=1)
    failure: Literal["transient", "permanent"]
    message: Text
    retry_at: Instant | None = None


class ToolCallStarted(Event):
    """A tool is about to run. From here on, its effect may have happened.

    Attributes:
        policy: The policy in force, should the end not be seen.
        timeout: Seconds that the attempt may take.
        settle: Seconds beyond the timeout before "not landed" may be believed of this attempt.
    """

    TOPIC = "perdure.tool-call-started"

    call_id: str
    attempt: int = Field(ge=1)
    policy: Policy
    idempotency_key: str
    timeout: float = Field(ge=0, allow_inf_nan=False)
    settle: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class ToolCallSucceeded(Event):
    """A call happened, and this is what it brought back.

    Attributes:
        known_by: How we know: it ran to its end, `verify` found it, or a person said so.
    """

    TOPIC = "perdure.tool-call-succeeded"

    call_id: str
    content: Content
    known_by: Literal["ran", "verified", "person"]


class ToolCallFailed(Event):
    """A call did not happen, or only read and failed; the model reads why."""

    TOPIC = "perdure.tool-call-failed"

    call_id: str
    error: Text
    known_by: Literal["ran", "refused", "verified", "person"]


class ToolCallInDoubt(Event):
    """A call was started, and nobody saw its end."""

    TOPIC = "perdure.tool-call-in-doubt"

    call_id: str
    attempt: int = Field(ge=1)
    why: DoubtReason
    detail: Text | None = None


class ToolCallVerified(Event):
    """`verify` was asked about a call in doubt."""

    TOPIC = "perdure.tool-call-verified"

    call_id: str
    attempt: int = Field(ge=1)
    verdict: Literal["landed", "not_landed", "unknown"]
    evidence: Text | None = None


class RunEscalated(Event):
    """The run rests until a person decides.

    Attributes:
        calls: Calls that need a decision each; none when the run itself needs one.
        message: What happened, for the person.
        ask: What is asked of the person.
    """

    TOPIC = "perdure.run-escalated"

    why: EscalationReason
    calls: tuple[str, ...] = ()
    message: Text
    ask: Text


class EscalationResolved(Event):
    """A person decided.

    Attributes:
        call_id: The call decided on; None for a decision about the run.
    """

    TOPIC = "perdure.escalation-resolved"

    call_id: str | None = None
    resolution: Literal["succeeded", "failed", "rerun", "resume", "abandon"]
    by: Text
    reason: Text


class InputAdded(Event):
    """Somebody told the agent something more."""

    TOPIC = "perdure.input-added"

    message: UserMessage
    by: Text | None = None


class BudgetExtended(Event):
    """Somebody allowed the run more.

    Attributes:
        more: What is added to each limit.
        deadline: The new deadline, when time was added.
    """

    TOPIC = "perdure.budget-extended"

    more: Budget
    deadline: Instant | None = None
    by: Text
    reason: Text


class CancelRequested(Event):
    """Somebody asked the run to stop; its owner settles what is in flight first."""

    TOPIC = "perdure.cancel-requested"

    by: Text
    reason: Text


class RunCompleted(Event):
    """The agent answered, and nothing was left to do."""

    TOPIC = "perdure.run-completed"

    answer: Text


class RunFailed(Event):
    """The run was given up.

    Attributes:
        code: A word for programs.
    """

    TOPIC = "perdure.run-failed"

    code: Text
    message: Text
    by: Text | None = None


class RunCancelled(Event):
    """The run stopped because somebody asked for it."""

    TOPIC = "perdure.run-cancelled"

    by: Text
    reason: Text


EVENTS: tuple[type[Event], ...] = (
    RunStarted,
    RunClaimed,
    ModelResponded,
    ModelCallFailed,
    ToolCallStarted,
    ToolCallSucceeded,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallVerified,
    RunEscalated,
    EscalationResolved,
    InputAdded,
    BudgetExtended,
    CancelRequested,
    RunCompleted,
    RunFailed,
    RunCancelled,
)
"""Every event type, in the order of design: the one list that the store and the tests go by."""
