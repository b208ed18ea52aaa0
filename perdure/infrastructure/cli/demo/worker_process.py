"""The worker process of the demo: `python -m perdure.infrastructure.cli.demo.worker_process`."""

from __future__ import annotations

import os
import sys
import threading

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from perdure.application.worker import Worker
from perdure.infrastructure.cli.demo.example import support_agent
from perdure.infrastructure.cli.demo.kill import KillPoint, kill_at
from perdure.infrastructure.composition import AgentRuns


@dataclass(frozen=True)
class Orders:
    """What a worker process is told, as JSON on its standard input.

    Attributes:
        victim: A run to drive until the kill point; without one it works until it is asked to stop.
    """

    database: str
    schema: str
    shop_schema: str
    http: str
    smtp_port: int
    lease_seconds: float
    victim: str | None = None
    kill_point: KillPoint | None = None


ORDERS = TypeAdapter(Orders)


def main() -> None:
    """Work as told. When the demo is gone, standard input ends, and so does this process."""
    orders = ORDERS.validate_json(sys.stdin.readline())
    threading.Thread(target=_end_with_the_demo, daemon=True).start()
    agent = support_agent(
        database=orders.database, schema=orders.shop_schema, http=orders.http, smtp_port=orders.smtp_port
    )
    boundaries = None
    if orders.victim is not None and orders.kill_point is not None:
        boundaries = kill_at(orders.kill_point, orders.victim)
    with AgentRuns.connect(
        orders.database,
        agents=[agent],
        schema=orders.schema,
        lease_seconds=orders.lease_seconds,
        boundaries=boundaries,
    ) as runs:
        if orders.victim is not None:
            runs.advance(orders.victim)
        else:
            Worker(runs, concurrency=16, poll_interval=0.2, grace=5).run()


def _end_with_the_demo() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(3)


if __name__ == "__main__":
    main()
