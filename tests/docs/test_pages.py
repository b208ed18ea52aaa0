"""What the documentation shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .command_line import CLI
from .pages import PAGES, ROOT, Reader, commands, environment


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_the_snippets_of_a_page_run(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Each snippet runs, behind those above it, and prints what the page shows."""
    text = page.read_text()
    reader = Reader(tmp_path)
    if "database_url" in text or re.search(r"^ *```console$", text, re.MULTILINE):
        database_url: str = request.getfixturevalue("database_url")
        reader.names["database_url"] = database_url
        reader.environment = environment(database_url)

    reader.read(page)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=_name)
def test_the_commands_of_a_page_exist(page: Path) -> None:
    """Each `perdure` command that a page shows exists, with the options and arguments that it shows."""
    for words in commands(page):
        with CLI.make_context("perdure", list(words)) as context:
            name, command, rest = CLI.resolve_command(context, [*context._protected_args, *context.args])
            assert command is not None, words
            command.make_context(name, rest, parent=context)


def test_the_tests_are_run_by_the_line_of_the_readme() -> None:
    """The README gives a line for the main job and one for the tests, and CI runs the latter as it is."""
    lines = (ROOT / "README.md").read_text().splitlines()
    ci = (ROOT / ".ci" / "run").read_text()

    assert lines.count("pip install uv && uv run perdure demo") == 1
    assert [line for line in lines if line.startswith("pip install uv && uv run pytest")] == [
        "pip install uv && uv run pytest"
    ]
    assert "'^pip install uv && uv run pytest' README.md" in ci


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    """Each relative link of a page leads to a file that exists."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)

    broken = [link for link in links if "://" not in link and not (page.parent / link).exists()]

    assert broken == []
