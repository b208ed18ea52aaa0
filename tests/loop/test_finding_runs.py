"""Workers find what waits, in turn between tenants, and nobody's input hides a run."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from perdure import Agent, AgentRuns, Policy, ToolRegistry
from perdure.testing import ScriptedModel, says


def agents(version: str = "v1", prompt: str = "") -> list[Agent]:
    tools = ToolRegistry()

    @tools.tool(policy=Policy.RERUN)
    def look_up(what: str) -> str:
        """Look something up."""
        return what

    model = ScriptedModel([says("done")])
    return [Agent("clerk", model=model, prompt_version=version, prompt=prompt, tools=tools)]


@pytest.fixture(params=["memory", "postgres"])
def runs(request: pytest.FixtureRequest) -> Generator[AgentRuns]:
    if request.param == "memory":
        with AgentRuns.in_memory(agents=agents(prompt="NUL \x00 in a prompt")) as in_memory:
            yield in_memory
    else:
        url: str = request.getfixturevalue("database_url")
        with AgentRuns.connect(url, agents=agents(prompt="NUL \x00 in a prompt")) as on_postgres:
            yield on_postgres


def found(runs: AgentRuns, limit: int = 100, **wanted: object) -> list[str]:
    versions = {("clerk", "scripted", "v1")}
    options: dict[str, object] = {"versions": versions, "passing_over": {}, **wanted}
    return [run.run_id for run in runs.ports.finder.find(limit=limit, **options)]  # type: ignore[arg-type]


def test_a_run_is_found_until_it_rests(runs: AgentRuns) -> None:
    """A started run waits; a finished one does not, and a held one neither."""
    runs.start("clerk", "hello", run_id="one")
    assert found(runs) == ["one"]
    lease = runs.ports.leases.claim("one", "somebody", ttl=60, above=0)
    assert found(runs) == []
    runs.ports.leases.release(lease)
    runs.advance("one")
    assert found(runs) == []


def test_text_that_the_database_cannot_take_apart_hides_no_run(runs: AgentRuns) -> None:
    """A NUL, a quote or an escape in one run's input stops neither that run nor the others."""
    nasty = ["nul \x00", 'quote " and \\u0000 written out', "back\\slash\\", "☕"]
    for place, text in enumerate(nasty):
        runs.start("clerk", text, run_id=f"nasty-{place}", labels={"text": text})
    runs.start("clerk", "plain", run_id="plain")
    assert found(runs) == ["nasty-0", "nasty-1", "nasty-2", "nasty-3", "plain"]
    for run_id in found(runs):
        assert runs.advance(run_id).answer == "done"


def test_tenants_take_turns(runs: AgentRuns) -> None:
    """A tenant with many runs does not stand before one with a single run."""
    for number in range(5):
        runs.start("clerk", "x", run_id=f"big-{number}", tenant="big")
    runs.start("clerk", "x", run_id="small-0", tenant="small")
    assert found(runs, limit=2) == ["big-0", "small-0"]


def test_only_what_can_be_served_is_found_unless_everything_is_asked_for(runs: AgentRuns) -> None:
    """Runs pinned to another version are left to others; a sweep sees them all."""
    runs.start("clerk", "x", run_id="one")
    assert found(runs, versions={("clerk", "scripted", "v2")}) == []
    assert found(runs, versions=None) == ["one"]


def test_a_run_is_passed_over_at_the_version_at_which_it_was_seen(runs: AgentRuns) -> None:
    """Passed over once, it is found again as soon as somebody says something to it."""
    runs.start("clerk", "x", run_id="one")
    assert found(runs, passing_over={"one": 1}) == []
    assert found(runs, passing_over={"one": None}) == []
    runs.add_input("one", "more")
    assert found(runs, passing_over={"one": 1}) == ["one"]
