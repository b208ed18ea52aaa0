"""The command: plays, shows, and says by its exit code whether every promise was kept."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from perdure.infrastructure.cli.demo.play import Played, play
from perdure.infrastructure.cli.demo.report import show
from perdure.infrastructure.cli.output import print_json


def play_and_show(*, json_output: bool, database_url: str | None) -> int:
    """Play the demo; see `run_demo()`."""
    began = time.monotonic()
    played = _play_with_progress(database_url)
    if json_output:
        print_json({"ok": played.ok, "scenarios": [scenario.model_dump() for scenario in played.scenarios]})
        for trouble in played.trouble:
            sys.stderr.write(f"perdure: {trouble}\n")
    else:
        show(Console(highlight=False), played, time.monotonic() - began)
    return 0 if played.ok else 1


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
