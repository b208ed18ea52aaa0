"""How much a run may use; never reset by a restart."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, TypeVar

from pydantic import Field

from perdure.domain.value import Choice

LONGEST = timedelta(days=36_525)
"""A century; times beyond it have no place in a calendar."""

Positive = Annotated[int, Field(gt=0)]
PositiveTime = Annotated[timedelta, Field(gt=timedelta(0), le=LONGEST)]
_Amount = TypeVar("_Amount", int, timedelta)


class Budget(Choice):
    """What a run may use in all its processes together. `None` is no limit.

    Attributes:
        steps: Model responses.
        tokens: Input and output tokens over all model calls. The call that crosses the limit is not cut
            short: the next one is refused.
        wall_clock: Time from the start of the run, waiting included. It stops new model calls and new tool
            starts; calls in doubt are still verified after it.
    """

    steps: Positive | None = None
    tokens: Positive | None = None
    wall_clock: PositiveTime | None = None

    def extended(self, by: Budget) -> Budget:
        """Return this budget with the other's amounts added; what has no limit stays without."""
        time = _total(self.wall_clock, by.wall_clock)
        return Budget(
            steps=_total(self.steps, by.steps),
            tokens=_total(self.tokens, by.tokens),
            wall_clock=min(time, LONGEST) if time is not None else None,
        )


def _total(now: _Amount | None, more: _Amount | None) -> _Amount | None:
    return now + more if now is not None and more is not None else now
