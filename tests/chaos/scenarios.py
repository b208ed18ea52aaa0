"""The storms, by what they do; the short form and the long one differ in their numbers alone."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from perdure.infrastructure.postgres.embedded import EmbeddedPostgres
from tests.chaos import harm
from tests.chaos.disk import Disk, LimitedFiles, small_disk
from tests.chaos.program import LINGERER, Settings, connect
from tests.chaos.server import OFFICE, owners
from tests.chaos.storm import Harm, Outcome, Report, storm
from tests.support.proxy import Proxy


@dataclass(frozen=True)
class Size:
    """How large a storm is.

    Attributes:
        harm: How often harm is done.
        workers: Worker processes at a time.
        runs: Runs under way at a time.
        patience: Seconds after which what is not finished is judged as it is.
    """

    harm: int
    workers: int
    runs: int
    patience: float = 120.0
    report: Report = lambda _: None


def killed(settings: Settings, size: Size) -> Outcome:
    """Workers are killed with SIGKILL."""
    fleet = [settings] * size.workers
    return storm(fleet, harm.kills(size.harm), runs=size.runs, patience=size.patience, report=size.report)


def frozen(settings: Settings, size: Size) -> Outcome:
    """Workers are stopped with SIGSTOP for longer than their lease, and go on."""
    freezes = _freezes(settings, size, leases=1.6)
    fleet = [settings] * size.workers
    return storm(fleet, freezes, runs=size.runs, patience=size.patience, report=size.report)


def frozen_in_long_tools(settings: Settings, size: Size) -> Outcome:
    """Likewise, until all that they were doing has ended, and another worker does it again."""
    return storm(
        [settings] * size.workers,
        _freezes(settings, size, leases=2.2),
        runs=size.runs,
        kind=LINGERER,
        patience=size.patience,
        report=size.report,
    )


def _freezes(settings: Settings, size: Size, leases: float) -> Harm:
    seconds = leases * settings.lease_seconds
    return harm.freezes(size.harm, seconds, lambda: owners(settings.conninfo, settings.schema))


def cut_off(settings: Settings, size: Size) -> Outcome:
    """Connections are cut in both directions, also between commit and answer."""
    with Proxy(settings.conninfo) as proxy:
        behind = replace(settings, conninfo=proxy.conninfo)
        return storm(
            [behind] * size.workers,
            harm.cuts(proxy, size.harm),
            runs=size.runs,
            direct=settings,
            patience=size.patience,
            report=size.report,
        )


def stalled(settings: Settings, size: Size) -> Outcome:
    """The network of all workers but one swallows packets, for up to three leases, and closes nothing."""
    with Proxy(settings.conninfo) as proxy:
        behind = replace(settings, conninfo=proxy.conninfo)
        return storm(
            [replace(settings, concurrency=4), *[behind] * (size.workers - 1)],
            harm.stalls(proxy, size.harm, settings.lease_seconds),
            runs=size.runs,
            direct=settings,
            patience=size.patience,
            report=size.report,
        )


def crashed_server(directory: Path) -> Callable[[Settings, Size], Outcome]:
    """The server of a directory is stopped without a checkpoint, and comes back."""

    def play(settings: Settings, size: Size) -> Outcome:
        with EmbeddedPostgres.start(directory) as server:
            return storm(
                [replace(settings, conninfo=server.conninfo)] * size.workers,
                harm.crashes_of_the_server(directory, size.harm),
                runs=size.runs,
                pause=(0.5, 1.0),
                patience=size.patience,
                report=size.report,
            )

    return play


def on_a_small_disk(server: EmbeddedPostgres) -> AbstractContextManager[Disk]:
    """A file system of its own; see `small_disk()` for what it raises."""
    return small_disk(server)


def with_limited_files(server: EmbeddedPostgres) -> AbstractContextManager[Disk]:
    """Files that cannot grow."""
    return nullcontext(LimitedFiles(server))


def full_disk(
    directory: Path, kind: Callable[[EmbeddedPostgres], AbstractContextManager[Disk]]
) -> Callable[[Settings, Size], Outcome]:
    """The server of a directory has no space left, and then has some again."""

    def play(settings: Settings, size: Size) -> Outcome:
        with EmbeddedPostgres.start(directory, durable=False) as server, kind(server) as disk:
            there = replace(settings, conninfo=disk.conninfo)
            connect(there, OFFICE).close()
            disk.prepare()
            outcome = storm(
                [there] * size.workers,
                harm.full_disks(disk, there.refusals, size.harm),
                runs=size.runs,
                pause=(0.3, 0.6),
                patience=size.patience,
                report=size.report,
            )
            if there.refusals.count(disk.refusal) < size.harm:
                outcome.verdicts.faults.append("the disk was never full: nothing was tried")
            return outcome

    return play


@contextmanager
def a_place(conninfo: str) -> Generator[Settings]:
    """Settings with a directory of their own, which is deleted afterwards."""
    with tempfile.TemporaryDirectory() as directory:
        yield Settings(conninfo, "perdure", Path(directory))
