"""The person who is asked: looks into the world, and decides by what is there."""

from __future__ import annotations

from perdure import AgentRuns, PerdureError, Resolution, RunStatus
from perdure.domain.calls import idempotency_key_for
from perdure.domain.state import RunState
from tests.chaos.program import result_of
from tests.chaos.world import World


class Person:
    """Resolves what is escalated."""

    def __init__(self, runs: AgentRuns, world: World) -> None:
        self._runs = runs
        self._world = world

    def look_after(self, state: RunState) -> None:
        """Decide whatever a run waits for."""
        if state.status is not RunStatus.ESCALATED or state.escalation is None:
            return
        if not state.escalation.calls:
            self._decide(state.run_id, None, Resolution.resume())
            return
        for call_id in state.escalation.calls:
            call = state.calls[call_id]
            what = call.arguments.split('"')[3]
            if self._world.happened(idempotency_key_for(state.run_id, call_id)):
                self._decide(state.run_id, call_id, Resolution.succeeded(result_of(call.name, what)))
            else:
                self._decide(state.run_id, call_id, Resolution.rerun())

    def _decide(self, run_id: str, call_id: str | None, resolution: Resolution) -> None:
        try:
            self._runs.resolve(run_id, call_id, resolution, by="person", reason="seen in the world")
        except PerdureError:
            # The database may be away for a moment, or a worker may have come first: ask again later.
            return
