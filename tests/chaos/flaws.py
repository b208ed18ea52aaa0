"""Broken variants of the library, by name: the chaos suite has to notice each of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from psycopg.rows import DictRow
from psycopg.sql import SQL, Composed, Identifier

from perdure.application.agent_loop import AgentLoop, Drain
from perdure.application.journal import Journal
from perdure.application.lease_keeper import LeaseKeeper
from perdure.domain.errors import LogConflict
from perdure.domain.events import Event
from perdure.domain.run import AgentRun
from perdure.domain.state import RunState
from perdure.infrastructure.postgres import leases, schema
from perdure.infrastructure.postgres.database import Database


def no_claim_event() -> None:
    """A claim leaves no event: whoever comes later takes calls of the dead for its own."""

    def claim(self: AgentRun, *_: object, **__: object) -> None:
        return None

    AgentRun.claim = claim  # type: ignore[method-assign]


def renewal_on_the_loop() -> None:
    """Leases are renewed by the event loop: a blocked loop looks like a dead worker."""
    loops: list[asyncio.AbstractEventLoop] = []
    drive = AgentLoop.drive

    async def remembering(self: AgentLoop, drain: Drain | None = None) -> RunState:
        loops.append(asyncio.get_running_loop())
        return await drive(self, drain)

    def keep(self: LeaseKeeper) -> None:
        while not self._closing:
            time.sleep(self.ttl / 3)
            if loops:
                loops[-1].call_soon_threadsafe(self._renew, dict(self._held))

    AgentLoop.drive = remembering  # type: ignore[method-assign]
    LeaseKeeper._keep = keep  # type: ignore[method-assign]


def clock_of_the_worker() -> None:
    """Leases go by the worker's own clock."""
    rows = Database.rows

    def with_own_time(
        self: Database, statement: Composed, parameters: Mapping[str, Any] | None = None
    ) -> list[DictRow]:
        now = datetime.fromtimestamp(time.time(), UTC)
        return rows(self, statement, {**(parameters or {}), "now": now})

    def statements(
        name: str, in_schema: str, *, package: str | None = None, **identifiers: str
    ) -> dict[str, Composed]:
        found = schema.statements(name, in_schema, package=package, **identifiers)
        names = {"schema": Identifier(in_schema)}
        text = {key: statement.as_string(None) for key, statement in found.items()}
        return {
            key: SQL(body.replace("clock_timestamp()", "%(now)s::timestamptz")).format(**names)  # type: ignore[arg-type]
            if key in ("claim", "renew")
            else found[key]
            for key, body in text.items()
        }

    Database.rows = with_own_time  # type: ignore[method-assign]
    leases.statements = statements  # type: ignore[attr-defined]


def claims_of_others_are_ignored() -> None:
    """A refused append takes in whatever stands there, another worker's claim too, and goes on top of it."""

    def take_in(self: Journal, news: Sequence[Event], conflict: LogConflict | None) -> None:
        self._run.rebase(news)

    Journal._take_in = take_in  # type: ignore[method-assign]


FLAWS: dict[str, Callable[[], None]] = {
    flaw.__name__: flaw
    for flaw in (no_claim_event, renewal_on_the_loop, clock_of_the_worker, claims_of_others_are_ignored)
}


def break_library(names: Sequence[str]) -> None:
    """Break what is named, in this process."""
    for name in names:
        FLAWS[name]()
