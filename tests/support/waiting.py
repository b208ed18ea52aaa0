"""Waiting for what can be observed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T], *, within: float = 20.0, every: float = 0.01) -> T:
    """Look until something true is seen, and return it.

    Args:
        look: What to look at; an `AssertionError` counts as not seen yet.
        within: Seconds after which it should have been seen.
        every: Seconds between looks.
    """
    deadline = time.monotonic() + within
    failure: AssertionError | None = None
    while time.monotonic() < deadline:
        try:
            seen = look()
        except AssertionError as error:
            failure = error
        else:
            if seen:
                return seen
            failure = None
        time.sleep(every)
    raise failure or AssertionError(f"not seen within {within} s: {look}")
