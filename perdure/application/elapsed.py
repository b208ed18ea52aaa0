"""A clock for durations that goes on while the machine is suspended, where there is one."""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


def elapsed() -> float:
    """Return seconds since some moment in the past; only differences mean something.

    A lease ends and a deadline comes while a machine sleeps. Linux's monotonic clock stands still then;
    CLOCK_BOOTTIME (clock_gettime(2)) does not. Where there is none, the monotonic clock has to do.
    """
    return time.clock_gettime(_CLOCK) if _CLOCK is not None else time.monotonic()
