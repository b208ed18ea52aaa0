"""The play: undisturbed runs first, then one death for each kill point and policy, then the rescue."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace

from perdure.domain.errors import MissingExtra, PerdureError
from perdure.domain.events import Event
from perdure.domain.state import RunState
from perdure.domain.tools import Resolution
from perdure.infrastructure.cli.demo.comparison import Scenario, compare
from perdure.infrastructure.cli.demo.example import CustomerRequest, customer_requests, support_agent
from perdure.infrastructure.cli.demo.kill import KillPoint
from perdure.infrastructure.cli.demo.processes import Process, Processes, Services
from perdure.infrastructure.cli.demo.scenery import SCHEMA, SHOP_SCHEMA, scenery
from perdure.infrastructure.cli.demo.worker_process import Orders
from perdure.infrastructure.composition import AgentRuns
from perdure.infrastructure.postgres.address import Address, resolve_address

_LEASE_SECONDS = 2.0
_PATIENCE = 90.0
"""Seconds that all runs together may take before what is unfinished is reported as such."""
_AT_A_TIME = 4
"""Workers that are killed side by side: more of them only wait for each other's start."""

Progress = Callable[[str, int, int], None]
"""Is told what is being done, how much of it is done, and how much there is."""
Victims = dict[str, tuple[KillPoint, CustomerRequest]]
"""Where the worker of a run is killed, by run id."""


@dataclass(frozen=True, slots=True)
class Played:
    """What the play brought.

    Attributes:
        story: The log of one killed run, to be shown.
        address: The database that was used.
        trouble: What went wrong besides the scenarios.
    """

    scenarios: list[Scenario]
    story: list[Event]
    address: Address
    trouble: list[str]

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return not self.trouble and all(scenario.ok for scenario in self.scenarios)


def play(database_url: str | None, progress: Progress) -> Played:
    """Play it all.

    Raises:
        PerdureError: It could not be played; nothing was found out.
    """
    if importlib.util.find_spec("aiosmtpd") is None:
        raise MissingExtra("the demo needs aiosmtpd, for its mail server: pip install 'perdure[demo]'")
    requests = customer_requests()
    with closing(resolve_address(database_url)) as address, scenery(address), Processes() as processes:
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
            story = _victim(KillPoint.EFFECT_DONE, requests[-1])
            return Played(scenarios, list(runs.events(story)), address, stage.trouble)


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

        victims = {_victim(point, request): (point, request) for request in requests for point in KillPoint}
        deaths = self._kill_them(victims)
        self._work_until_done(list(victims), "finishing what was killed")

        effects = self._services.effects()
        for run_id in undisturbed.values():
            if not any(effect["run"] == run_id for effect in effects):
                self.trouble.append(f"{run_id} had no effect: there is nothing to compare with")
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

    def _kill_them(self, victims: Victims) -> dict[str, str | None]:
        deaths: dict[str, str | None] = {}
        waiting, dying = list(victims.items()), dict[str, Process]()
        deadline = time.monotonic() + _PATIENCE
        while waiting or dying:
            while waiting and len(dying) < _AT_A_TIME:
                run_id, (point, request) = waiting.pop(0)
                self._start(run_id, request)
                dying[run_id] = self._processes.start_worker(
                    replace(self._told, victim=run_id, kill_point=point)
                )
            for run_id, process in list(dying.items()):
                if process.exit_code is not None or time.monotonic() > deadline:
                    deaths[run_id] = dying.pop(run_id).was_killed()
            self._progress("killing workers", len(deaths), len(victims))
            time.sleep(0.02)
        return deaths

    def _work_until_done(self, run_ids: list[str], what: str) -> None:
        worker = self._processes.start_worker(self._told)
        deadline = time.monotonic() + _PATIENCE
        left = set(run_ids)
        while left and time.monotonic() < deadline and worker.exit_code is None:
            for state in self._states(left):
                if state.is_finished:
                    left.discard(state.run_id)
                elif state.escalation is not None:
                    self._decide(state)
                    if not state.escalation.calls:
                        left.discard(state.run_id)
            self._progress(what, len(run_ids) - len(left), len(run_ids))
            time.sleep(0.1)
        trouble = worker.drain()
        if trouble is not None:
            self.trouble.append(trouble)

    def _states(self, run_ids: Iterable[str]) -> list[RunState]:
        return [self._runs.state(run_id) for run_id in sorted(run_ids)]

    def _decide(self, state: RunState) -> None:
        """Be the person who is asked: look into the ledger of the payment service."""
        asked = state.escalation.calls if state.escalation is not None else ()
        ledger = {entry["call"]: entry for entry in self._services.effects() if entry["kind"] == "refund"}
        for call_id in asked:
            paid = ledger.get(call_id)
            resolution = Resolution.succeeded(paid["receipt"]) if paid else Resolution.rerun()
            reason = f"receipt {paid['receipt']} is in the ledger" if paid else "it is not in the ledger"
            try:
                self._runs.resolve(state.run_id, call_id, resolution, by="ann@shop.example", reason=reason)
            except PerdureError as error:
                self.trouble.append(f"{state.run_id}: {error}")


def _victim(point: KillPoint, request: CustomerRequest) -> str:
    return f"{point.value.replace(' ', '-')}:{request.name}"
