"""The command: plays, shows, and says by its exit code whether every promise was kept."""

from __future__ import annotations

import json
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from perdure.infrastructure.cli.demo.play import Played, play
from perdure.infrastructure.cli.demo.report import show


def run_demo(*, json_output: bool, database_url: str | None) -> int:
    """Play the demo.

    Args:
        json_output: Print JSON, and nothing else, on standard output.
        database_url: The database to use; without one, as `AgentRuns.connect()` finds it.

    Returns:
        0 when every promise was kept, 1 when one was broken.

    Raises:
        PerdureError: The demo could not be played.
    """
    began = time.monotonic()
    played = _play_with_progress(database_url)
    ok = all(scenario.ok for scenario in played.scenarios) and not played.trouble
    if json_output:
        scenarios = [scenario.model_dump() for scenario in played.scenarios]
        report: dict[str, object] = {"ok": ok, "scenarios": scenarios}
        if played.trouble:
            report["trouble"] = played.trouble
        print(json.dumps(report, indent=2))  # noqa: T201 - it is what was asked for
    else:
        show(Console(), played, time.monotonic() - began)
    return 0 if ok else 1


def _play_with_progress(database_url: str | None) -> Played:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, transient=True) as bars:
        tasks = {"": bars.add_task("starting", total=None)}

        def tell(what: str, done: int, of: int) -> None:
            if what not in tasks:
                bars.update(tasks.popitem()[1], visible=False)
                tasks[what] = bars.add_task(what, total=of)
                if not console.is_terminal:
                    console.print(f"{what} ({of})", highlight=False)
            bars.update(tasks[what], completed=done)

        return play(database_url, tell)
