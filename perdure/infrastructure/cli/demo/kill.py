"""Where a worker is killed, and how it kills itself exactly there."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from enum import StrEnum

from perdure.application.ports.boundaries import Boundary
from perdure.domain.calls import call_id_for


class KillPoint(StrEnum):
    """The kinds of places between two writes, in the order in which a run comes to them."""

    DECISION_STORED = "decision stored"
    """The model's response is on record, and the call has not been started."""
    CALL_STARTED = "call started"
    """The started marker is on record, and nothing has been done."""
    EFFECT_DONE = "effect done"
    """The tool has acted, and no result is on record."""
    RESULT_STORED = "result stored"
    """The result is on record, and the model has not been asked again."""


@dataclass
class KillSelf:
    """Kills its own process, with SIGKILL, the nth time that a boundary is reached."""

    boundary: Boundary
    detail: str
    nth: int = 1

    def reached(self, boundary: Boundary, run_id: str, detail: str) -> None:  # noqa: ARG002 - the port's form
        """Die, if this is the place."""
        if boundary is self.boundary and self.detail in detail.split(","):
            self.nth -= 1
            if self.nth == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def kill_at(point: KillPoint, run_id: str) -> KillSelf:
    """Return what kills the worker of a run at a point of the second call of its first step."""
    call_id = call_id_for(run_id, 1, 2)
    match point:
        case KillPoint.DECISION_STORED:
            return KillSelf(Boundary.AFTER_APPEND, "ModelResponded")
        case KillPoint.CALL_STARTED:
            return KillSelf(Boundary.BEFORE_TOOL, call_id)
        case KillPoint.EFFECT_DONE:
            return KillSelf(Boundary.AFTER_TOOL, call_id)
        case KillPoint.RESULT_STORED:
            return KillSelf(Boundary.AFTER_APPEND, "ToolCallSucceeded", nth=2)
