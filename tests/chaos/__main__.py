"""The long form of the chaos suite: `uv run python -m tests.chaos [--kills 1000]`; prints a table."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from perdure.infrastructure.postgres.embedded import EmbeddedPostgres
from tests.chaos import scenarios
from tests.chaos.disk import CannotMount
from tests.chaos.program import Settings
from tests.chaos.scenarios import Size, a_place
from tests.chaos.storm import Outcome, Report
from tests.support.postgres import clean_up, fresh_database, new_directory

Play = Callable[[Settings, Size], Outcome]

COLUMNS = (
    ("storm", "left"),
    *((name, "right") for name in ("deaths", "freezes", "runs", "takeovers", "expected", "seen")),
    *((name, "right") for name in ("twice", "refused", "escalated", "s", "broken")),
)
_BETWEEN_REPORTS = 10.0
"""Seconds from one line of progress to the next."""
_PATIENCE = 3600.0
"""Seconds that a storm may take."""


def main() -> int:
    """Play storms, and say by the exit code whether every promise was kept: 0 yes, 1 no, 130 not known."""
    options = _options()
    console = Console()
    console.width = max(console.width, 120)  # a table without its figures says nothing
    table = Table(title="What storms left")
    for name, justify in COLUMNS:
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    faults: list[str] = []
    code = 0
    # A polite request to end is met like Ctrl-C, and both also where a shell ignores them: nothing stays.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    directory = new_directory()
    directory.chmod(0o711)
    try:
        with EmbeddedPostgres.start(
            directory / "shared", settings={"max_connections": "300"}, durable=False
        ) as server:
            for name, (play, size) in _storms(directory, options, _progress(console)).items():
                if options.only and name not in options.only:
                    continue
                console.rule(name)
                with fresh_database(server) as url, a_place(url) as settings:
                    try:
                        outcome = play(settings, size)
                    except CannotMount as error:
                        console.print(f"left out: {error}", highlight=False)
                        continue
                table.add_row(name, *_row(outcome))
                faults += [f"{name}: {fault}" for fault in outcome.verdicts.faults]
    except KeyboardInterrupt:
        console.print("ended early: the table shows the storms that were over")
        code = 130
    finally:
        for place in directory.iterdir():
            clean_up(place)
        clean_up(directory)
    console.print(table)
    for fault in faults:
        console.print(f"[red]broken[/] {fault}", highlight=False)
    if not code:
        console.print("every promise was kept" if not faults else f"{len(faults)} promises were broken")
    return 1 if faults else code


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="workers to kill with SIGKILL")
    parser.add_argument("--workers", type=int, default=8, help="worker processes at a time")
    parser.add_argument("--runs", type=int, default=200, help="runs under way at a time")
    names = list(_storms(Path(), argparse.Namespace(kills=0, workers=0, runs=0), lambda _: None))
    parser.add_argument(
        "--only", action="append", choices=names, metavar="NAME", help=f"one of: {', '.join(names)}"
    )
    return parser.parse_args()


def _storms(directory: Path, options: argparse.Namespace, report: Report) -> dict[str, tuple[Play, Size]]:
    """All storms by name: how to play each, and how large."""
    kills, workers, runs = options.kills, options.workers, options.runs

    def size(harm: int, part_of_runs: int, few: int = 4) -> Size:
        return Size(harm, min(few, workers), runs // part_of_runs, _PATIENCE, report)

    crash = scenarios.crashed_server(directory / "crashing")
    small = scenarios.full_disk(directory / "small", scenarios.on_a_small_disk)
    limited = scenarios.full_disk(directory / "limited", scenarios.with_limited_files)
    return {
        "kills": (scenarios.killed, Size(kills, workers, runs, _PATIENCE, report)),
        "freezes": (scenarios.frozen, size(max(5, kills // 50), 8)),
        "sleepers": (scenarios.frozen_in_long_tools, size(max(3, kills // 100), 8)),
        "cuts": (scenarios.cut_off, size(max(10, kills // 5), 4)),
        "stalls": (scenarios.stalled, size(max(5, kills // 50), 4)),
        "crashes": (crash, size(max(3, kills // 50), 4)),
        "full-disk": (small, size(max(2, kills // 100), 4)),
        "full-files": (limited, size(max(2, kills // 100), 4)),
    }


def _progress(console: Console) -> Report:
    due = [0.0]

    def report(text: str) -> None:
        if time.monotonic() >= due[0]:
            due[0] = time.monotonic() + _BETWEEN_REPORTS
            console.print(text, highlight=False)

    return report


def _row(outcome: Outcome) -> list[str]:
    """The figures of a storm."""
    found = outcome.verdicts
    escalated = sum(found.escalated.values())
    figures = (outcome.deaths, outcome.freezes, found.runs, found.takeovers, found.expected, found.seen)
    more = (found.duplicated, found.refused, escalated, round(outcome.seconds), len(found.faults))
    return [str(figure) for figure in (*figures, *more)]


if __name__ == "__main__":
    sys.exit(main())
