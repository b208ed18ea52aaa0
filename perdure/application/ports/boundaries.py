"""The port through which tests and the demo stop a process at a chosen point."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class Boundary(StrEnum):
    """A point between two things that a crash can come between."""

    BEFORE_APPEND = "before_append"
    AFTER_APPEND = "after_append"
    BEFORE_TOOL = "before_tool"
    AFTER_TOOL = "after_tool"
    BEFORE_MODEL = "before_model"
    AFTER_MODEL = "after_model"
    BEFORE_VERIFY = "before_verify"
    AFTER_VERIFY = "after_verify"
    BEFORE_CLAIM = "before_claim"
    AFTER_CLAIM = "after_claim"
    BEFORE_RELEASE = "before_release"


class Boundaries(Protocol):
    """Is told of every boundary that a run comes to; it may kill the process or raise."""

    def reached(self, boundary: Boundary, run_id: str, detail: str) -> None:
        """Take note.

        Args:
            boundary: Which one.
            run_id: The run.
            detail: The events of an append, by type name and comma; the call id of a tool or verify; the
                step of a model call.
        """
        ...


class Unobserved:
    """Nobody is told."""

    def reached(self, boundary: Boundary, run_id: str, detail: str) -> None:
        """Do nothing."""
