"""The play: undisturbed runs first, then one death for each kill point and policy, then the rescue."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace

import psycopg
from psycopg.sql import SQL, Identifier

from perdure.domain.errors import DatabaseError, PerdureError
from perdure.domain.events import Event
from perdure.domain.state import RunState, RunStatus
from perdure.domain.tools import Resolution
from perdure.infrastructure.cli.demo.comparison import Scenario, compare
from perdure.infrastructure.cli.demo.example import CustomerRequest, customer_requests, orders, support_agent
from perdure.infrastructure.cli.demo.kill import KillPoint
from perdure.infrastructure.cli.demo.processes import Processes, Services
from perdure.infrastructure.cli.demo.worker_process import Orders
from perdure.infrastructure.composition import AgentRuns
from perdure.infrastructure.postgres.address import resolve_address

SCHEMA = "perdure_demo"
SHOP_SCHEMA = "perdure_demo_shop"
_LEASE_SECONDS = 2.0
_PATIENCE = 90.0
"""Seconds that all runs together may take before what is unfinished is reported as such."""

Progress = Callable[[str, int, int], None]
"""Is told what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True, slots=True)
class Played:
    """What the play brought.

    Attributes:
        story: The log of one killed run, to be shown.
        database: The database, in words that hold no password.
    """

    scenarios: list[Scenario]
    story: list[Event]
    database: str
    embedded: bool
    trouble: list[str]


def play(database_url: str | None, progress: Progress) -> Played:
    """Play it all.

    Raises:
        PerdureError: It could not be played; nothing was found out.
    """
    requests = customer_requests()
    address = resolve_address(database_url)
    with closing(address), Processes() as processes:
        try:
            _fresh_schemas(address.conninfo)
        except psycopg.Error as error:
            raise DatabaseError(f"the demo cannot use {address.redacted()}: {error}") from error
        services = processes.start_services()
        told = Orders(
            address.conninfo, SCHEMA, SHOP_SCHEMA, services.http, services.smtp_port, _LEASE_SECONDS
        )
        agent = support_agent(
            database=address.conninfo, schema=SHOP_SCHEMA, http=services.http, smtp_port=services.smtp_port
        )
        with AgentRuns.connect(address.conninfo, agents=[agent], schema=SCHEMA) as runs:
            stage = _Stage(runs, processes, services, told, progress)
            scenarios = stage.play(requests)
            return Played(
                scenarios,
                list(runs.events("effect-done:refund")),
                address.redacted(),
                address.embedded is not None,
                stage.trouble,
            )


class _Stage:
    def __init__(
        self, runs: AgentRuns, processes: Processes, services: Services, told: Orders, progress: Progress
    ) -> None:
        self._runs = runs
        self._processes = processes
        self._services = services
        self._told = told
        self._progress = progress
        self.trouble: list[str] = []

    def play(self, requests: list[CustomerRequest]) -> list[Scenario]:
        undisturbed = {request.name: f"undisturbed:{request.name}" for request in requests}
        for request in requests:
            self._start(undisturbed[request.name], request)
        self._work_until_done(list(undisturbed.values()), "working undisturbed")

        victims = {
            f"{point.value.replace(' ', '-')}:{request.name}": (point, request)
            for request in requests
            for point in KillPoint
        }
        deaths = self._kill_them(victims)
        self._work_until_done(list(victims), "finishing what was killed")

        effects = self._services.effects()
        return [
            compare(
                point,
                request.name,
                request.tool,
                request.policy,
                self._runs.events(run_id),
                self._runs.state(undisturbed[request.name]),
                effects,
                deaths[run_id],
            )
            for run_id, (point, request) in victims.items()
        ]

    def _start(self, run_id: str, request: CustomerRequest) -> None:
        self._runs.start("support", request.message, run_id=run_id, tenant=request.tenant)

    def _kill_them(self, victims: dict[str, tuple[KillPoint, CustomerRequest]]) -> dict[str, str | None]:
        def kill(entry: tuple[str, tuple[KillPoint, CustomerRequest]]) -> tuple[str, str | None]:
            run_id, (point, request) = entry
            self._start(run_id, request)
            told = replace(self._told, victim=run_id, kill_point=point)
            return run_id, self._processes.start_worker(told).was_killed()

        deaths: dict[str, str | None] = {}
        self._progress("killing workers", 0, len(victims))
        with ThreadPoolExecutor(max_workers=4) as pool:
            for run_id, trouble in pool.map(kill, victims.items()):
                deaths[run_id] = trouble
                self._progress("killing workers", len(deaths), len(victims))
        return deaths

    def _work_until_done(self, run_ids: list[str], what: str) -> None:
        worker = self._processes.start_worker(self._told)
        deadline = time.monotonic() + _PATIENCE
        left = set(run_ids)
        while left and time.monotonic() < deadline and worker.exit_code is None:
            for state in self._states(left):
                if state.is_finished:
                    left.discard(state.run_id)
                elif state.status is RunStatus.ESCALATED:
                    self._decide(state)
            self._progress(what, len(run_ids) - len(left), len(run_ids))
            time.sleep(0.05)
        trouble = worker.drain()
        if trouble is not None:
            self.trouble.append(trouble)

    def _states(self, run_ids: Iterable[str]) -> list[RunState]:
        return [self._runs.state(run_id) for run_id in sorted(run_ids)]

    def _decide(self, state: RunState) -> None:
        """Be the person who is asked: look into the ledger of the payment service."""
        if state.escalation is None:
            return
        ledger = {entry["call"]: entry for entry in self._services.effects()["refunds"]}
        for call_id in state.escalation.calls:
            paid = ledger.get(call_id)
            resolution = Resolution.succeeded(paid["receipt"]) if paid else Resolution.rerun()
            reason = f"receipt {paid['receipt']} is in the ledger" if paid else "it is not in the ledger"
            try:
                self._runs.resolve(state.run_id, call_id, resolution, by="ann@shop.example", reason=reason)
            except PerdureError as error:
                self.trouble.append(f"{state.run_id}: {error}")


def _fresh_schemas(database: str) -> None:
    """Forget what an earlier demo left, and fill the shop's table of orders."""
    with psycopg.connect(database, autocommit=True) as connection:
        for schema in (SCHEMA, SHOP_SCHEMA):
            connection.execute(SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(Identifier(schema)))
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(SHOP_SCHEMA)))
        table = Identifier(SHOP_SCHEMA, "orders")
        connection.execute(
            SQL(
                "CREATE TABLE {} (order_id text PRIMARY KEY, customer text NOT NULL, item text NOT NULL, "
                "cents integer NOT NULL, status text NOT NULL)"
            ).format(table)
        )
        with connection.cursor() as cursor:
            cursor.executemany(SQL("INSERT INTO {} VALUES (%s, %s, %s, %s, %s)").format(table), orders())
