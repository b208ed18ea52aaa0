"""Kinds of harm."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

from perdure.infrastructure.postgres.embedded import EmbeddedPostgres
from tests.chaos.fleet import Fleet
from tests.chaos.storm import Harm
from tests.support.proxy import Cut, Proxy


def none(fleet: Fleet) -> bool:
    """No harm at all."""
    return False


def kills(number: int) -> Harm:
    """Kill random workers with SIGKILL, so many in all."""

    def harm(fleet: Fleet) -> bool:
        fleet.kill_one()
        return fleet.deaths < number

    return harm


def freezes(number: int, seconds: float) -> Harm:
    """Stop random workers with SIGSTOP for so many seconds each."""

    def harm(fleet: Fleet) -> bool:
        if fleet.thaw() == 0 and fleet.freezes < number:
            fleet.freeze_one(seconds)
        return fleet.freezes < number or fleet.thaw() > 0

    return harm


def cuts(proxy: Proxy, number: int) -> Harm:
    """Cut connections, before and after inserts and commits; now and then the whole network is away."""
    left = [number]

    def harm(fleet: Fleet) -> bool:
        left[0] -= 1
        if left[0] % 10 == 5:
            proxy.go_down()
            time.sleep(random.uniform(0.05, 0.5))
            proxy.come_up()
        else:
            proxy.cut_next(random.choice(list(Cut)))
        return left[0] > 0

    return harm


def crashes_of_the_server(directory: Path, number: int) -> Harm:
    """Stop the server at once, as a crash would, and start it again."""
    left = [number]

    def harm(fleet: Fleet) -> bool:
        left[0] -= 1
        with EmbeddedPostgres.start(directory) as server:
            stop = [
                server.binaries.program("pg_ctl"),
                "-D",
                str(directory / "data"),
                "-m",
                "immediate",
                "stop",
            ]
            owner = (directory / "data").stat()
            subprocess.run(
                stop,
                check=True,
                user=owner.st_uid,
                group=owner.st_gid,
                extra_groups=[],
                cwd="/",
                stdout=subprocess.DEVNULL,
            )
            EmbeddedPostgres.start(directory).close()
        return left[0] > 0

    return harm
