"""Kinds of harm."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from perdure.infrastructure.postgres.embedded import EmbeddedPostgres
from tests.chaos.disk import Disk
from tests.chaos.fleet import Fleet
from tests.chaos.refusals import Refusals
from tests.chaos.storm import Harm
from tests.support.proxy import Cut, Proxy
from tests.support.restarts import stop_at_once
from tests.support.waiting import eventually


def none(fleet: Fleet) -> bool:
    """No harm at all."""
    return False


def kills(number: int) -> Harm:
    """Kill random workers with SIGKILL, so many in all."""

    def harm(fleet: Fleet) -> bool:
        fleet.kill_one()
        return fleet.deaths < number

    return harm


def freezes(number: int, seconds: float, owners: Callable[[], Collection[int]]) -> Harm:
    """Stop workers that hold runs with SIGSTOP, one at a time, for so many seconds each.

    Args:
        number: How often.
        seconds: For how long.
        owners: Tells the processes that hold runs.
    """

    def harm(fleet: Fleet) -> bool:
        if fleet.thaw() == 0 and fleet.freezes < number:
            fleet.freeze_one_of(owners(), seconds)
        return fleet.freezes < number or fleet.thaw() > 0

    return harm


def cuts(proxy: Proxy, number: int) -> Harm:
    """Cut so many connections before and after appends; now and then the whole network is away."""
    rounds = itertools.count(1)

    def harm(fleet: Fleet) -> bool:
        if next(rounds) % 10 == 5:
            proxy.go_down()
            time.sleep(random.uniform(0.05, 0.5))
            proxy.come_up()
        elif not proxy.is_going_to_cut:
            proxy.cut_next(random.choice(list(Cut)))
        return len(proxy.cuts) < number

    return harm


def stalls(proxy: Proxy, number: int, lease_seconds: float) -> Harm:
    """Let the network swallow all while somebody writes, in turn for less and for more than a lease."""
    left = [number]

    def harm(fleet: Fleet) -> bool:
        seen = proxy.appends
        with suppress(AssertionError):
            eventually(lambda: proxy.appends > seen, within=5)
        left[0] -= 1
        leases = random.uniform(0.1, 0.8) if left[0] % 2 else random.uniform(1.5, 3)
        with proxy.stalled():
            time.sleep(leases * lease_seconds)
        return left[0] > 0

    return harm


def full_disks(disk: Disk, refusals: Refusals, number: int) -> Harm:
    """Leave the server no space until that was refused to a worker; so many times."""
    left = [number]

    def harm(fleet: Fleet) -> bool:
        before = refusals.count(disk.refusal)
        disk.fill()
        try:
            # Who waits for a person, or for nothing, writes nothing: then it is tried again later.
            with suppress(AssertionError):
                eventually(lambda: refusals.count(disk.refusal) > before, within=5)
                left[0] -= 1
        finally:
            disk.free()
        return left[0] > 0

    return harm


def crashes_of_the_server(directory: Path, number: int) -> Harm:
    """Stop the server at once, as a crash would, and start it again."""
    left = itertools.count(number - 1, -1)

    def harm(fleet: Fleet) -> bool:
        with EmbeddedPostgres.start(directory) as server:
            stop_at_once(server)
            EmbeddedPostgres.start(directory).close()
        return next(left) > 0

    return harm
