"""What the demo shows on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby

from psycopg.conninfo import conninfo_to_dict
from rich import box
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from perdure.infrastructure.cli.demo import clean_up
from perdure.infrastructure.cli.demo.comparison import Scenario
from perdure.infrastructure.cli.demo.example import in_a_checkout
from perdure.infrastructure.cli.demo.play import Played
from perdure.infrastructure.cli.demo.scenery import SCHEMA, SHOP_SCHEMA
from perdure.infrastructure.cli.demo.story import story_of

_POLICY_WIDTH = 13
"""Characters in which the longest policy takes the three lines that are left below its tool."""

_TABLE_WIDTH = 72
"""Columns of a terminal from which on the table is easier to read than a list."""


def show(console: Console, played: Played, seconds: float) -> None:
    """Show the table, the story of one run, and how to look further."""
    console.print(_table(played.scenarios) if console.width >= _TABLE_WIDTH else _list(played.scenarios))
    console.print("[dim]effects: tickets, mails and refunds seen / expected, as without the kill[/]\n")
    for fault in _faults(played):
        console.print(f"[red]broken:[/] {escape(fault)}")
    console.print(_timeline(played))
    _look_further(console, played)
    _verdict(console, played, seconds)


def _table(scenarios: Sequence[Scenario]) -> Table:
    table = Table(
        title="Killed there, finished by another process",
        title_justify="left",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
    )
    table.add_column("tool, policy", no_wrap=True)
    table.add_column("killed when", overflow="fold")
    table.add_column("effects", no_wrap=True)
    table.add_column("answer", no_wrap=True)
    table.add_column("budget", no_wrap=True)
    table.add_column("the call", overflow="fold")
    for _, group in groupby(scenarios, key=lambda scenario: scenario.request):
        of_one_tool = list(group)
        named = [f"[bold]{of_one_tool[0].tool}[/]", *_lines_of(of_one_tool[0].policy)]
        named += [""] * (len(of_one_tool) - len(named))
        for place, (name, scenario) in enumerate(zip(named, of_one_tool, strict=True), start=1):
            table.add_row(
                name, scenario.kill_point, *_findings(scenario), end_section=place == len(of_one_tool)
            )
    return table


def _list(scenarios: Sequence[Scenario]) -> Group:
    lines = [Text("Killed there, finished by another process", style="bold")]
    for _, group in groupby(scenarios, key=lambda scenario: scenario.request):
        of_one_tool = list(group)
        lines.append(Text(f"{of_one_tool[0].tool}, {of_one_tool[0].policy}", style="bold"))
        for scenario in of_one_tool:
            effects, answer, budget, call = _findings(scenario)
            what = f"effects {effects}, answer {answer}, budget {budget}, {call}"
            lines.append(Text.from_markup(f"  {scenario.kill_point}: {what}"))
    return Group(*lines)


def _findings(scenario: Scenario) -> tuple[str, str, str, str]:
    seen, expected = scenario.effects_seen, scenario.effects_expected
    return (
        _mark(f"{seen}/{expected}", seen == expected),
        _mark("same" if scenario.answer_equal else "OTHER", scenario.answer_equal),
        _mark("same" if scenario.budget_equal else "OTHER", scenario.budget_equal),
        escape(scenario.settled) + ("" if scenario.ok else " [red]BROKEN[/]"),
    )


def _lines_of(policy: str) -> list[str]:
    words = textwrap.wrap(policy.replace("_", "_ "), _POLICY_WIDTH + 1)
    return [line.replace("_ ", "_") for line in words]


def _mark(text: str, kept: bool) -> str:
    return f"[green]{text}[/]" if kept else f"[red bold]{text} ![/]"


def _faults(played: Played) -> list[str]:
    faults = [f"{scenario.run_id}: {fault}" for scenario in played.scenarios for fault in scenario.faults]
    return [*faults, *played.trouble]


def _timeline(played: Played) -> Table:
    run_id = played.story[0].run_id
    table = Table(
        title=f"The log of run {run_id}", title_justify="left", box=box.SIMPLE, padding=(0, 1, 0, 0)
    )
    table.add_column("seq", justify="right", no_wrap=True)
    table.add_column("after", justify="right", no_wrap=True)
    table.add_column("event", no_wrap=True)
    table.add_column("what", overflow="fold")
    for line in story_of(played.story):
        table.add_row(
            str(line.seq), f"{line.after:.2f} s", line.event, escape(line.what), end_section=line.is_last_word
        )
    return table


def _look_further(console: Console, played: Played) -> None:
    address, run_id = played.address, played.story[0].run_id
    run = "uv run " if in_a_checkout() else ""
    url = f'"{address.redacted()}"' if address.source == "given" else ""
    options = f"--schema {SCHEMA}" + (f" --database-url {url}" if url else "")
    console.print("[bold]Look further[/]")
    for what in (f"show {run_id}", f"replay {run_id} --at {_telling_version(played)}", "runs", "doctor"):
        console.print(f"  {run}perdure {what} {options}", soft_wrap=True, markup=False)
    where = "the embedded PostgreSQL" if address.embedded is not None else address.redacted()
    console.print(
        f"[dim]The runs stay in the schema {SCHEMA} of {escape(where)}, the orders in {SHOP_SCHEMA}. "
        "The next demo starts them afresh. To drop both:[/]"
    )
    console.print(f"  {run}python -m {clean_up.__name__} {url}".rstrip(), soft_wrap=True, markup=False)
    if url and conninfo_to_dict(address.conninfo) != conninfo_to_dict(address.redacted()):
        console.print("[dim]The password is not shown: add it, or set PGPASSWORD.[/]")
    console.print()


def _telling_version(played: Played) -> int:
    """The version at which a person is asked, or else the last one."""
    asked = [event.seq for event in played.story if type(event).__name__ == "RunEscalated"]
    return asked[0] if asked else played.story[-1].seq


def _verdict(console: Console, played: Played, seconds: float) -> None:
    broken = len(_faults(played))
    verdict = (
        f"[red bold]{broken} faults were found[/]" if broken else "[green bold]every promise was kept[/]"
    )
    console.print(f"{len(played.scenarios)} workers killed with SIGKILL, {verdict}, {seconds:.0f} s.")
