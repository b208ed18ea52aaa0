"""One tool call, as the log shows it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from perdure.domain.content import InlineContent, StoredContent
from perdure.domain.events import DoubtReason
from perdure.domain.messages import ToolResult
from perdure.domain.record import Record
from perdure.domain.tools import Policy


class CallStatus(StrEnum):
    """Where a call stands."""

    REQUESTED = "requested"
    """The model asked for it; it never ran."""
    STARTED = "started"
    """An attempt is under way, or its process died under it."""
    IN_DOUBT = "in_doubt"
    """It was started and its end was not seen."""
    CLEARED = "cleared"
    """It was in doubt, and may run again."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"


SETTLED = frozenset({CallStatus.SUCCEEDED, CallStatus.FAILED})


@dataclass(frozen=True)
class ToolCall(Record):
    """A call and what became of it.

    Attributes:
        call_id: Stable over restarts, made from run, step and position.
        arguments: JSON text as the model wrote it.
        attempt: Starts so far.
        epoch: The claim under which it was last started.
        policy: The policy that was in force at the last start.
        timeout: Seconds that the last attempt may take.
        settle: Seconds beyond that before "not landed" may be believed.
        first_started_at: When the first attempt started: the age of its idempotency key.
        doubted_at: When it last fell in doubt.
        verifications: Times `verify` was asked about the present attempt.
        conclusive: Those of them at which "not landed" would have been believed.
        verified_at: When it was last asked.
        content: What it brought back, once it succeeded.
        error: Why it failed, once it did.
        known_by: How the outcome is known.
    """

    call_id: str
    name: str
    arguments: str
    step: int
    position: int
    status: CallStatus = CallStatus.REQUESTED
    attempt: int = 0
    epoch: int = 0
    policy: Policy = Policy.ESCALATE_IF_UNKNOWN
    timeout: float = 0.0
    settle: float = 0.0
    first_started_at: datetime | None = None
    started_at: datetime | None = None
    doubt: DoubtReason | None = None
    doubt_detail: str | None = None
    doubted_at: datetime | None = None
    verifications: int = 0
    conclusive: int = 0
    verified_at: datetime | None = None
    evidence: str | None = None
    cleared_by: Literal["verify", "person"] | None = None
    content: InlineContent | StoredContent | None = None
    error: str | None = None
    known_by: str | None = None

    @property
    def is_settled(self) -> bool:
        """Whether its outcome is known."""
        return self.status in SETTLED

    def believes_not_landed(self, at: datetime) -> bool:
        """Whether "not landed" may be believed: the last attempt can no longer act by then."""
        if self.started_at is None:
            return False
        return (at - self.started_at).total_seconds() >= self.timeout + self.settle

    def result(self) -> ToolResult:
        """What the model is told; a call without an outcome is never told as one that did not happen."""
        if self.status is CallStatus.SUCCEEDED and self.content is not None:
            return self._told(self.content.for_model, ok=True)
        if self.status is CallStatus.FAILED:
            return self._told(self.error or "failed", ok=False)
        if self.status is CallStatus.REQUESTED:
            return self._told("This call has not been started yet.", ok=False)
        return self._told(
            "The outcome of this call is not known yet: it may or may not have happened.", ok=False
        )

    def _told(self, content: str, *, ok: bool) -> ToolResult:
        return ToolResult(call_id=self.call_id, name=self.name, ok=ok, content=content)


def call_id_for(run_id: str, step: int, position: int) -> str:
    """Make the id of a call: `call_<step>_<position>_<hash of the run id>`.

    It depends on nothing that the model or a process chose, and so it is the same after every restart.

    Args:
        run_id: The run.
        step: Number of the step, from 1.
        position: Place of the call in the step, from 1.
    """
    return f"call_{step}_{position}_{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"


def idempotency_key_for(run_id: str, call_id: str) -> str:
    """Make the key under which a service may know a call: the same for every attempt."""
    return f"perdure:{run_id}:{call_id}"
