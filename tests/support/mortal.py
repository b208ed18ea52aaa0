"""Processes that are really killed: forked with everything imported, and ended by SIGKILL where told."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context

import psycopg

from perdure import AgentRuns, RunState, RunStatus, ToolContext
from perdure.application.ports.boundaries import Boundary
from tests.support.cluster import Outcome, decide
from tests.support.scenarios import Scenario
from tests.support.world import Effect, World

_CREATE = """
CREATE TABLE IF NOT EXISTS public.effects (
    number bigserial, run_id text, call_id text, attempt int, key text, tool text, n int, was_marked bool
)"""
_INSERT = """
INSERT INTO public.effects (run_id, call_id, attempt, key, tool, n, was_marked)
VALUES (%(run_id)s, %(call_id)s, %(attempt)s, %(key)s, %(tool)s, %(n)s, EXISTS (
    SELECT FROM perdure.perdure_events
     WHERE originator_id = %(run_id)s AND topic = 'perdure.tool-call-started'
       AND convert_from(state, 'UTF8')::json ->> 'call_id' = %(call_id)s
       AND (convert_from(state, 'UTF8')::json ->> 'attempt')::int = %(attempt)s))
"""
_SELECT = "SELECT run_id, call_id, attempt, key, tool, n, was_marked FROM public.effects ORDER BY number"


class WorldInPostgres(World):
    """A world that outlives processes: each effect is a row, committed at once."""

    def __init__(self, conninfo: str) -> None:
        super().__init__()
        self._conninfo = conninfo

    def create(self) -> None:
        """Create the table."""
        with psycopg.connect(self._conninfo) as connection:
            connection.execute(_CREATE)

    @property
    def effects(self) -> list[Effect]:
        """All effects, in order."""
        with psycopg.connect(self._conninfo) as connection:
            return [Effect(*row) for row in connection.execute(_SELECT)]

    def act(self, tool: str, n: int, context: ToolContext) -> str:
        """Do something, for good."""
        effect = Effect(context.run_id, context.call_id, context.attempt, context.idempotency_key, tool, n)
        with psycopg.connect(self._conninfo) as connection:
            connection.execute(_INSERT, vars(effect))
        return effect.result


@dataclass
class Killer:
    """Kills its process at a boundary, as the kernel would: nothing is tidied up.

    Attributes:
        at: The boundary and a part of its detail; None to live on.
    """

    at: tuple[Boundary, str] | None

    def reached(self, boundary: Boundary, run_id: str, detail: str) -> None:
        """Die, if it is here."""
        if self.at is not None and boundary is self.at[0] and self.at[1] in detail:
            os.kill(os.getpid(), signal.SIGKILL)


def live(conninfo: str, scenario: Scenario, kill_at: tuple[Boundary, str] | None) -> None:
    """Drive the run in this process until it ends, or this process does."""
    world = WorldInPostgres(conninfo)
    agent, _ = scenario.agent(scenario.tools(world))
    with AgentRuns.connect(conninfo, agents=[agent], boundaries=Killer(kill_at)) as runs:
        state: RunState = runs.advance("run-1")
        while state.status is RunStatus.ESCALATED:
            decide(runs, state, world)
            state = runs.advance("run-1")


_processes = get_context("forkserver")
_processes.set_forkserver_preload(["tests.support.mortal"])


def killed_and_resumed(conninfo: str, scenario: Scenario, kills: Sequence[tuple[Boundary, str]]) -> Outcome:
    """Start a run, drive it in processes that are killed one after the other, and in one that lives."""
    WorldInPostgres(conninfo).create()
    agent, _ = scenario.agent(scenario.tools(WorldInPostgres(conninfo)))
    with AgentRuns.connect(conninfo, agents=[agent]) as office:
        office.start("actor", "Act.", run_id="run-1")
        for kill_at in (*kills, None):
            process = _processes.Process(target=live, args=(conninfo, scenario, kill_at))
            process.start()
            process.join(60)
            assert process.exitcode == (-signal.SIGKILL if kill_at is not None else 0)
            _let_the_lease_run_out(conninfo)
        return Outcome(
            scenario, WorldInPostgres(conninfo), office.events("run-1"), office.state("run-1"), requests=[]
        )


def _let_the_lease_run_out(conninfo: str) -> None:
    """Make the lease of the dead as old as it would be after a while."""
    with psycopg.connect(conninfo) as connection:
        connection.execute("UPDATE perdure.leases SET expires_at = clock_timestamp() WHERE owner IS NOT NULL")
