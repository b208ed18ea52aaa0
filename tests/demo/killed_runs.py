"""Logs of killed runs and their effects, as the demo would find them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from perdure import Budget, Policy
from perdure.domain.calls import call_id_for
from perdure.domain.messages import Usage
from perdure.domain.state import RunState
from perdure.infrastructure.cli.demo.comparison import Scenario, compare
from perdure.infrastructure.cli.demo.kill import KillPoint
from perdure.testing import asks, says, together
from perdure.testing.logs import RunLog, a_run

RUN, UNDISTURBED = "effect-done:refund", "undisturbed:refund"
STEP_1 = together(asks("look_up_order"), asks("refund", usage=Usage(input_tokens=50, output_tokens=5)))
ANSWER = "Receipt RF-1."


def started(run_id: str = RUN) -> RunLog:
    """Up to the refund's start: the place where the first worker dies."""
    budget = Budget(steps=10, wall_clock=timedelta(hours=1))
    return (
        a_run("My money, please.", run_id=run_id, budget=budget)
        .claimed("first")
        .responded(STEP_1)
        .call_started(1, policy=Policy.RERUN)
        .call_succeeded(1, "order [1]")
        .call_started(2)
    )


def answered(log: RunLog, answer: str = ANSWER) -> RunLog:
    """The last step."""
    return log.responded(says(answer, usage=Usage(input_tokens=70))).completed(answer)


def undisturbed() -> RunState:
    """The run to compare with."""
    return answered(started(UNDISTURBED).call_succeeded(2, "RF-1")).state


def rescued() -> RunLog:
    """Killed with the effect done; a person looked it up, and all is well."""
    log = started().after(5).crashed("second").call_in_doubt(2).escalated("calls_in_doubt", 2)
    return answered(log.resolved(2, "succeeded").call_succeeded(2, "RF-1", known_by="person"))


def refund(run_id: str = RUN, attempt: int = 1, **more: Any) -> dict[str, Any]:
    """A refund as the world remembers it."""
    who = {"run": run_id, "call": call_id_for(run_id, 1, 2), "attempt": attempt}
    return {"kind": "refund", "order": "1", "cents": 100, **who, **more}


def compared(
    log: RunLog | None = None,
    effects: Sequence[dict[str, Any]] | None = None,
    *,
    point: KillPoint = KillPoint.EFFECT_DONE,
    trouble: str | None = None,
) -> Scenario:
    """What the demo makes of a log and of what happened in the world for it."""
    happened = [refund()] if effects is None else effects
    return compare(
        point,
        "refund",
        "refund",
        "escalate_if_unknown",
        list(log if log is not None else rescued()),
        undisturbed(),
        [refund(UNDISTURBED), *happened],
        trouble,
    )
