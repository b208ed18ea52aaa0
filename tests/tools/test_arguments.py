"""Arguments are checked before anything runs, and handed on as they are."""

from __future__ import annotations

import pytest

from perdure import Agent, AgentRuns, RunStatus, ToolRegistry
from perdure.domain.events import ToolCallFailed, ToolCallStarted
from perdure.testing import ScriptedModel, asks, says

from .calling import called, result_of

REFUSED = {
    "missing": ("{}", "n: Missing required"),
    "another type": ('{"n": "many"}', "n: Input should be a valid integer"),
    "one too many": ('{"n": 1, "m": 2}', "m: Unexpected"),
    "a list": ("[1]", "arguments"),
    "no JSON": ("{n: 1}", "Invalid JSON"),
    "cut off": ('{"n": 1', "Invalid JSON"),
    "nothing but text": ("hello", "Invalid JSON"),
    "NaN": ('{"n": NaN}', "n: "),
    "ten thousand deep": ('{"n": ' + "[" * 10_000 + "]" * 10_000 + "}", ""),
    "a lone surrogate": ('{"n": "\\ud800"}', ""),
}


@pytest.mark.parametrize(("text", "says_why"), REFUSED.values(), ids=REFUSED.keys())
def test_arguments_that_do_not_fit_are_refused_before_anything_ran(text: str, says_why: str) -> None:
    """The call fails without a start; the model reads why, and the log is readable afterwards."""
    tools, calls = ToolRegistry(), []

    @tools.tool
    def add(n: int) -> int:
        calls.append(n)
        return n

    with called(tools, "add", text) as runs:
        events = runs.events("r")
        state = runs.state("r")

    failed = [event for event in events if isinstance(event, ToolCallFailed)]
    assert calls == []
    assert not [event for event in events if isinstance(event, ToolCallStarted)]
    assert [event.known_by for event in failed] == ["refused"]
    assert says_why in failed[0].error
    assert len(failed[0].error) < 2000
    assert state.status is RunStatus.COMPLETED


def test_a_refusal_does_not_repeat_secrets() -> None:
    """The error names the argument, not its value."""
    tools = ToolRegistry()
    tools.tool(name="add")(lambda_typed)
    with called(tools, "add", {"n": "hunter2"}) as runs:
        (failed,) = [event for event in runs.events("r") if isinstance(event, ToolCallFailed)]

    assert "hunter2" not in failed.error


def lambda_typed(n: int) -> int:
    return n


def test_no_arguments_may_be_written_as_nothing() -> None:
    """Some models send an empty text for a tool without arguments."""
    tools = ToolRegistry()

    @tools.tool
    def now() -> str:
        return "noon"

    for text in ("", "  ", "{}"):
        with called(tools, "now", text) as runs:
            assert result_of(runs).text == "noon"


def test_a_tool_that_is_not_there_is_a_result_that_the_model_reads() -> None:
    """The model is told which tools there are."""
    tools = ToolRegistry()
    tools.tool(name="add")(lambda_typed)
    with called(tools, "subtract") as runs:
        (failed,) = [event for event in runs.events("r") if isinstance(event, ToolCallFailed)]

    assert failed.error == "There is no tool 'subtract'. The tools are: add."


TEXTS = [
    "Grüße",
    "日本語",
    "\U0001f600",
    "nul \x00 nul",
    "e\u0301",
    "\u202eltr",
    "\x7f\x1b[31m",
    "'; DROP TABLE--",
]


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_goes_through_unchanged(text: str, database_url: str) -> None:
    """Arguments and results with all kinds of characters come back from PostgreSQL as they were."""
    tools, seen = ToolRegistry(), []

    @tools.tool
    def echo(text: str) -> str:
        seen.append(text)
        return text

    model = ScriptedModel([asks("echo", {"text": text}), says(text)])
    with AgentRuns.connect(database_url, agents=[Agent("a", model, "v1", tools=tools)]) as runs:
        runs.advance(runs.start("a", text, run_id="r", tenant="t", labels={"k": "Grüße"}))
        state = runs.state("r")
        told = [result.content for message in state.messages() for result in getattr(message, "results", ())]

    assert seen == [text]
    assert told == [text]
    assert state.answer == text
