"""What the contracts expect, said so that a failure explains itself."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager


def equal(actual: object, expected: object, what: str) -> None:
    """Hold that two things are equal.

    Raises:
        AssertionError: When they are not.
    """
    __tracebackhide__ = True
    if actual != expected:
        raise AssertionError(f"{what}: expected {expected!r}, was {actual!r}")


def holds(condition: object, what: str) -> None:
    """Hold that something is so.

    Raises:
        AssertionError: When it is not.
    """
    __tracebackhide__ = True
    if not condition:
        raise AssertionError(f"not so: {what}")


@contextmanager
def raises(error_type: type[Exception], what: str) -> Generator[None]:
    """Hold that an error of this type is raised.

    Raises:
        AssertionError: When it is not.
    """
    __tracebackhide__ = True
    try:
        yield
    except error_type:
        return
    raise AssertionError(f"{what}: {error_type.__name__} was expected, and nothing was raised")
