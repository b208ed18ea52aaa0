"""What a tool is told about the call that it serves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The call that a tool runs for; a parameter of this type is filled in and is not in the schema.

    Attributes:
        run_id: The run.
        call_id: The call; the same for every attempt.
        attempt: Which start of the call this is, from 1.
        idempotency_key: Hand it to the service behind the tool; the same for every attempt.
        tenant: The tenant that the run belongs to.
        deadline: When the run's wall-clock budget ends, in UTC.
    """

    run_id: str
    call_id: str
    attempt: int
    idempotency_key: str
    tenant: str | None
    deadline: datetime | None
    _require_ownership: Callable[[], None] = field(repr=False, compare=False)

    def ensure_owned(self) -> None:
        """Ask, right before an effect, whether this worker still holds the run.

        It narrows the window in which a process that was frozen for longer than its lease acts after
        another one took over; only an idempotency key closes it.

        Raises:
            perdure.OwnershipLost: When it does not: let it pass through, and do nothing more.
        """
        self._require_ownership()
