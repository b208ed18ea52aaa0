"""The long form of the chaos suite: `uv run python -m tests.chaos [--kills 1000]`; prints a table."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from perdure.infrastructure.postgres.embedded import EmbeddedPostgres
from tests.chaos import harm
from tests.chaos.program import Settings
from tests.chaos.storm import Outcome, storm
from tests.support.postgres import clean_up, fresh_database, new_directory
from tests.support.proxy import Proxy


def main() -> int:
    """Play all storms, and say by the exit code whether every promise was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="workers to kill with SIGKILL")
    parser.add_argument("--workers", type=int, default=8, help="worker processes at a time")
    parser.add_argument("--runs", type=int, default=200, help="runs under way at a time")
    options = parser.parse_args()
    console = Console()
    directory = new_directory()
    table = Table(title="What storms left")
    for name in (
        "storm",
        "deaths",
        "freezes",
        "runs",
        "takeovers",
        "expected",
        "seen",
        "twice",
        "asked",
        "s",
    ):
        table.add_column(name, justify="left" if name == "storm" else "right")
    faults: list[str] = []
    try:
        with EmbeddedPostgres.start(directory, settings={"max_connections": "300"}) as server:
            for name, play in storms(server, directory, options).items():
                console.print(f"{name} ...")
                with fresh_database(server) as url, tempfile.TemporaryDirectory() as effects:
                    outcome = play(Settings(url, "perdure", Path(effects, "effects")))
                table.add_row(name, *row(outcome))
                faults += [f"{name}: {fault}" for fault in outcome.verdicts.faults]
    finally:
        clean_up(directory)
    console.print(table)
    for fault in faults:
        console.print(f"[red]broken[/] {fault}", highlight=False)
    console.print("every promise was kept" if not faults else f"{len(faults)} promises were broken")
    return 1 if faults else 0


def storms(
    server: EmbeddedPostgres, directory: Path, options: argparse.Namespace
) -> dict[str, Callable[[Settings], Outcome]]:
    """All storms by name, each a function of where."""
    fleet, runs, patience = options.workers, options.runs, 3600.0

    def cut(settings: Settings) -> Outcome:
        with Proxy(settings.conninfo) as proxy:
            behind = replace(settings, conninfo=proxy.conninfo)
            harm_done = harm.cuts(proxy, options.kills // 5)
            return storm([behind] * 4, harm_done, runs=runs // 4, direct=settings, patience=patience)

    def kill(settings: Settings) -> Outcome:
        return storm([settings] * fleet, harm.kills(options.kills), runs=runs, patience=patience)

    def freeze(settings: Settings) -> Outcome:
        number = max(4, options.kills // 50)
        return storm([settings] * 4, harm.freezes(number, 1.6), runs=runs // 8, patience=patience)

    def crash(settings: Settings) -> Outcome:
        crashes = harm.crashes_of_the_server(directory, max(3, options.kills // 50))
        return storm([settings] * 4, crashes, runs=runs // 4, pause=(0.5, 1.5), patience=patience)

    return {"SIGKILL": kill, "SIGSTOP": freeze, "cut wires": cut, "server crashes": crash}


def row(outcome: Outcome) -> list[str]:
    """The figures of a storm."""
    found = outcome.verdicts
    figures = (outcome.deaths, outcome.freezes, found.runs, found.takeovers, found.expected, found.seen)
    asked = sum(outcome.asked.values())
    return [*map(str, figures), str(found.duplicated), str(asked), f"{outcome.seconds:.0f}"]


if __name__ == "__main__":
    sys.exit(main())
