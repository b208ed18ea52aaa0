"""What the demo shows on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from perdure.domain.events import Event
from perdure.infrastructure.cli.demo.comparison import Scenario
from perdure.infrastructure.cli.demo.play import SCHEMA, SHOP_SCHEMA, Played


def show(console: Console, played: Played, seconds: float) -> None:
    """Show the table, the story of one run, and how to look further."""
    console.print(_table(played.scenarios))
    console.print(
        "[dim]Effects are tickets, mails and refunds: seen after the kill / of the run that nobody disturbed."
        "[/]\n"
    )
    for scenario in played.scenarios:
        for fault in scenario.faults:
            console.print(f"[red]broken[/] {escape(scenario.run_id)}: {escape(fault)}", highlight=False)
    for trouble in played.trouble:
        console.print(f"[red]broken[/] {escape(trouble)}", highlight=False)
    console.print(_timeline(played.story))
    _look_further(console, played)
    broken = sum(len(scenario.faults) for scenario in played.scenarios) + len(played.trouble)
    verdict = f"[red]{broken} faults were found[/]" if broken else "[green]every promise was kept[/]"
    console.print(f"{len(played.scenarios)} workers killed with SIGKILL, {verdict}, {seconds:.0f} s.")


def _table(scenarios: Sequence[Scenario]) -> Table:
    table = Table(title="Killed there, finished by another process", title_justify="left")
    table.add_column("killed when")
    table.add_column("tool and policy", overflow="fold")
    table.add_column("effects", justify="right")
    table.add_column("answer")
    table.add_column("budget")
    table.add_column("the call", overflow="fold")
    for scenario in scenarios:
        table.add_row(
            scenario.kill_point,
            f"{scenario.tool}\n[dim]{scenario.policy}[/]",
            _mark(scenario.effects_seen == scenario.effects_expected)
            + f" {scenario.effects_seen}/{scenario.effects_expected}",
            _mark(scenario.answer_equal) + (" same" if scenario.answer_equal else " other"),
            _mark(scenario.budget_equal) + (" same" if scenario.budget_equal else " other"),
            escape(scenario.settled),
            end_section=scenario.kill_point == "result stored",
        )
    return table


def _mark(kept: bool) -> str:
    return "[green]ok[/]" if kept else "[red]NO[/]"


def _timeline(events: Sequence[Event]) -> Table:
    table = Table(title=f"The log of run {events[0].run_id}", title_justify="left")
    table.add_column("seq", justify="right")
    table.add_column("after s", justify="right")
    table.add_column("event")
    table.add_column("what", overflow="fold")
    for event in events:
        after = (event.at - events[0].at).total_seconds()
        table.add_row(str(event.seq), f"{after:.2f}", type(event).__name__, escape(_what(event)))
    return table


_TELLING = ("worker", "epoch", "left", "step", "call_id", "attempt", "why", "known_by", "resolution")
_MORE = ("by", "reason", "error", "detail", "answer")


def _what(event: Event) -> str:
    facts = [
        f"{name} {value}" for name in (*_TELLING, *_MORE) if (value := getattr(event, name, None)) is not None
    ]
    return ", ".join(facts)


def _look_further(console: Console, played: Played) -> None:
    run_id = played.story[0].run_id
    console.print("\n[bold]Look further[/]")
    for command in (f"show {run_id}", f"replay {run_id} --at 5", f"replay {run_id}", "doctor"):
        console.print(f"  uv run perdure {command} --schema {SCHEMA}", highlight=False, soft_wrap=True)
    where = "the embedded PostgreSQL" if played.embedded else played.database
    console.print(
        f"[dim]The runs stay in schema {SCHEMA} of {escape(where)}, the orders in {SHOP_SCHEMA}; "
        "the next demo starts them afresh.[/]\n"
    )
