"""Runs that a worker does not look at again before a while."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass

from perdure.domain.moves import Limits

_FORGOTTEN_AFTER = 600.0
"""Seconds after which a run that did not come up again is new to the worker."""


@dataclass(frozen=True, slots=True)
class _Passed:
    version: int
    times: int
    until: float


class PassingOver:
    """Each time that a run is passed over it is left alone for longer, unless it has news."""

    def __init__(self, first_delay: float) -> None:
        """Begin with nothing; the first time, a run is left alone for so many seconds at most."""
        self._backoff = Limits(first_delay=first_delay, longest_delay=max(60.0, first_delay))
        self._passed: dict[str, _Passed] = {}

    def note(self, run_id: str, version: int) -> None:
        """Pass over a run, as long as it stays at this version."""
        before = self._passed.get(run_id)
        times = before.times + 1 if before is not None else 1
        wait = self._backoff.delay(times).total_seconds() * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
        self._passed[run_id] = _Passed(version, times, time.monotonic() + wait)

    def forget(self, run_id: str) -> None:
        """Take a run for new again."""
        self._passed.pop(run_id, None)

    def now(self) -> Mapping[str, int]:
        """Return the runs to pass over now, each with the version at which that counts."""
        now = time.monotonic()
        for run_id in [key for key, passed in self._passed.items() if passed.until < now - _FORGOTTEN_AFTER]:
            del self._passed[run_id]
        return {run_id: passed.version for run_id, passed in self._passed.items() if passed.until > now}
