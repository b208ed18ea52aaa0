"""The reference says what the code says, and leaves nothing out."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

import perdure
import perdure.testing
from perdure.domain.errors import PerdureError
from perdure.domain.events import EVENTS
from perdure.domain.moves import Limits
from perdure.domain.tools import ToolContract
from perdure.infrastructure.event_store.topics import topic_of

from .command_line import parameters
from .event_tables import expected, on_page, shown
from .pages import ROOT

REFERENCE = ROOT / "docs" / "reference"


@pytest.mark.parametrize("name", expected())
def test_each_event_is_described_field_by_field(name: str) -> None:
    """The table of an event, or of a value in one, has its fields with their types, in their order."""
    wanted = expected()[name]

    found = on_page((REFERENCE / "events.md").read_text()).get(name, [])

    assert found == wanted, f"docs/reference/events.md, {name}: these rows are wanted:\n{shown(wanted)}"


def test_the_reference_describes_no_event_that_is_not_there() -> None:
    """A table for an event or a value that was removed is removed too."""
    described = {name for name, rows in on_page((REFERENCE / "events.md").read_text()).items() if rows}

    assert described == set(expected())


@pytest.mark.parametrize("event_type", EVENTS, ids=lambda event_type: event_type.__name__)
def test_topic_and_version_are_given(event_type: type[perdure.domain.events.Event]) -> None:
    """Each event is listed with the topic under which it is stored, and with its version."""
    text = (REFERENCE / "events.md").read_text()

    assert f"](#{event_type.__name__.lower()}) | `{topic_of(event_type)}` |" in text
    assert f"Topic `{topic_of(event_type)}`, version {event_type.VERSION}." in text


@pytest.mark.parametrize("name", perdure.__all__)
def test_each_export_is_in_the_reference(name: str) -> None:
    """Each exported name is on a page of the reference; errors are all on one."""
    exported = getattr(perdure, name)
    page = "errors.md" if issubclass(exported, PerdureError) else "api.md"

    assert f"::: perdure.{name}\n" in (REFERENCE / page).read_text()


@pytest.mark.parametrize("name", perdure.testing.__all__)
def test_each_testing_helper_is_in_the_reference(name: str) -> None:
    """Each name of `perdure.testing` is on the page about it."""
    assert f"::: perdure.testing.{name}\n" in (REFERENCE / "testing.md").read_text()


def test_the_tree_of_errors_is_the_real_one() -> None:
    """The tree on the page about errors shows every error below its base."""
    text = (REFERENCE / "errors.md").read_text()
    tree = re.search(r"```text\n(PerdureError\n.*?)```", text, re.DOTALL)
    assert tree is not None
    path: list[str] = []
    shown_bases: dict[str, str] = {}
    for line in tree[1].splitlines():
        found = re.match(r"([│├└─ ]*)(\w+)", line)
        assert found is not None, line
        depth = len(found[1]) // 4
        path[depth:] = [found[2]]
        if depth:
            shown_bases[found[2]] = path[depth - 1]

    exported = [getattr(perdure, name) for name in perdure.__all__]
    errors = [each for each in exported if issubclass(each, PerdureError) and each is not PerdureError]
    assert shown_bases == {error.__name__: error.__base__.__name__ for error in errors}


@pytest.mark.parametrize("command", parameters())
def test_each_command_is_described_option_by_option(command: str) -> None:
    """The page about the command line lists what each command can be told, and nothing else."""
    text = (REFERENCE / "command-line.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))

    listed = re.findall(r"^\| `([^`]+)` \|", sections[command], re.MULTILINE)

    assert listed == parameters()[command]
    assert f"| [`{command}`](#{command}) |" in text


def test_no_command_is_described_that_is_not_there() -> None:
    """A command that was removed is removed from the page too."""
    text = (REFERENCE / "command-line.md").read_text()

    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == list(parameters())


def test_the_terms_of_a_tool_are_given_with_their_defaults() -> None:
    """The guide to policies lists each term of a tool's contract."""
    text = (ROOT / "docs" / "how-to" / "choose-a-policy.md").read_text()
    terms = [name for name in ToolContract.model_fields if name != "policy"]

    assert [name for name in terms if f"| `{name}` |" not in text] == []


def test_the_settings_are_given_with_their_defaults() -> None:
    """The page about configuration lists what `connect`, `Agent`, `Worker` and `Limits` can be told."""
    text = (REFERENCE / "configuration.md").read_text()
    settings = [name for name in inspect.signature(perdure.AgentRuns.connect).parameters if name != "agents"]
    settings += [name for name in inspect.signature(perdure.Worker).parameters if name != "runs"]
    settings += [*Limits.model_fields, *(field.name for field in fields(perdure.Agent))]

    assert [name for name in settings if f"| `{name}` |" not in text] == []


def test_each_environment_variable_is_given() -> None:
    """Every variable that the package reads is on the page about configuration."""
    text = (REFERENCE / "configuration.md").read_text()
    sources = [path.read_text() for path in Path(ROOT, "perdure").rglob("*.py")]
    read = {name for source in sources for name in re.findall(r"[\"'](PERDURE_[A-Z_]+)[\"']", source)}
    internal = {"PERDURE_CONNINFO"}

    assert [name for name in sorted(read - internal) if f"`{name}`" not in text] == []


def test_paths_in_the_documentation_exist() -> None:
    """Files of the project that a page names are there."""
    for page in (ROOT / "docs").rglob("*.md"):
        for path in re.findall(r"`((?:perdure|tests|docs)/[\w./-]+)`", page.read_text()):
            assert (ROOT / path).exists(), f"{page.relative_to(ROOT)} names {path}"
