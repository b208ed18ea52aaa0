"""What a run needs from the outside world next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import Field

from perdure.domain.value import Choice


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing: the run is finished, or waits for a person."""


@dataclass(frozen=True, slots=True)
class AskModel:
    """A model call for this step."""

    step: int


@dataclass(frozen=True, slots=True)
class Act:
    """The end of every started call, verdicts, and then a look at the clock.

    Attributes:
        verify: Calls in doubt whose `verify` is due.
        wake_at: When something falls due, if anything will.
    """

    verify: tuple[str, ...] = ()
    wake_at: datetime | None = None


Move = Rest | AskModel | Act


class Limits(Choice):
    """How hard a run may try.

    Attributes:
        parallel_calls: Tools of one run that may run at the same time.
        model_attempts: Transient model failures in a row, after which a person is asked.
        barren_claims: Workers that may die in a row without one new fact, before a person is asked.
        first_delay: Seconds before the first repeat of anything; it doubles from there.
        longest_delay: Seconds at which it stops doubling.
    """

    parallel_calls: int = Field(default=8, ge=1)
    model_attempts: int = Field(default=8, ge=1)
    barren_claims: int = Field(default=5, ge=1)
    first_delay: float = Field(default=1.0, gt=0, le=86_400)
    longest_delay: float = Field(default=60.0, gt=0, le=86_400)

    def delay(self, repeats: int) -> timedelta:
        """Return how long to wait before repeating what was done `repeats` times (from 1)."""
        doublings = min(max(repeats - 1, 0), 62)
        return timedelta(seconds=min(self.longest_delay, self.first_delay * 2**doublings))
