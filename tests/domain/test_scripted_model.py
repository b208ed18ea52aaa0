"""The scripted model that users test with."""

from __future__ import annotations

import asyncio

import pytest

from perdure.application.ports.model import Model, ModelRequest
from perdure.domain.errors import ConfigurationError, ModelError
from perdure.domain.messages import Message, Reply, ToolRequest, Usage, UserMessage
from perdure.testing import ScriptedModel, asks, fails, says, together


def request(step: int, *messages: Message, run_id: str = "run-1") -> ModelRequest:
    return ModelRequest(run_id=run_id, step=step, prompt="", messages=messages, tools=(), timeout=1.0)


def ask(model: Model, step: int, *messages: Message, run_id: str = "run-1") -> Reply:
    return asyncio.run(model.respond(request(step, *messages, run_id=run_id)))


def test_answers_by_the_step() -> None:
    """A model in a new process answers the step it is asked for, not the first of its script."""
    script = [asks("search", {"q": "a"}), says("one"), "two"]
    assert ask(ScriptedModel(script), 3).parts == says("two").parts
    assert ask(ScriptedModel(script), 1).parts == asks("search", {"q": "a"}).parts


def test_same_step_again() -> None:
    """A step that is asked for twice gets the same answer twice, and both requests are kept."""
    model = ScriptedModel([says("one"), says("two")])
    assert ask(model, 1) == ask(model, 1)
    assert [kept.step for kept in model.requests] == [1, 1]


def test_end_of_script() -> None:
    """A script that is at its end says which step was asked for and how long it is."""
    with pytest.raises(ModelError, match=r"'run-1' asked for step 3, and the script has 2 ") as caught:
        ask(ScriptedModel(["a", "b"]), 3)
    assert caught.value.kind == "permanent"


def test_failures_come_first() -> None:
    """`fails` raises as often as it says, for each run and step by itself, and answers then."""
    model = ScriptedModel([fails("overloaded", times=2, then="at last")])
    for run_id in ("run-1", "run-2"):
        for _ in range(2):
            with pytest.raises(ModelError, match="overloaded") as caught:
                ask(model, 1, run_id=run_id)
            assert caught.value.kind == "transient"
        assert ask(model, 1, run_id=run_id).parts == says("at last").parts
    assert len(model.requests) == 6


def test_error_that_stays() -> None:
    """An exception that stands in the script itself is raised every time."""
    model = ScriptedModel([ModelError("bad key", kind="permanent"), says("next")])
    for _ in range(3):
        with pytest.raises(ModelError, match="bad key"):
            ask(model, 1)
    assert ask(model, 2).parts == says("next").parts


def test_function() -> None:
    """A function is given the conversation, and may return all that a script may hold."""

    def script(messages: object) -> Reply | str | Exception:
        return {0: says("none"), 1: "one"}.get(len(messages), ModelError("many"))  # type: ignore[arg-type]

    model = ScriptedModel(script)
    hello = UserMessage(text="hello")
    assert ask(model, 1).parts == says("none").parts
    assert ask(model, 7, hello).parts == says("one").parts
    with pytest.raises(ModelError, match="many"):
        ask(model, 1, hello, hello)


def test_together() -> None:
    """Several calls make one reply: parts in order, usage added up."""
    reply = together(
        says("Let me look.", usage=Usage(input_tokens=3, output_tokens=1)),
        asks("a", {"n": 1}, id="x", usage=Usage(input_tokens=4, output_tokens=2, cache_read_tokens=5)),
        asks("b", "{not json"),
    )
    assert [part.kind for part in reply.parts] == ["text", "tool_call", "tool_call"]
    assert reply.parts[1] == ToolRequest(provider_call_id="x", name="a", arguments='{"n": 1}')
    assert reply.parts[2] == ToolRequest(name="b", arguments="{not json")
    assert reply.usage == Usage(input_tokens=7, output_tokens=3, cache_read_tokens=5)
    assert (reply.finish_reason, says("x").finish_reason) == ("tool_calls", "stop")


def test_model_name() -> None:
    """The reply says which model answered, unless the script does."""
    model = ScriptedModel(["a", Reply(parts=(), model="other")], name="small")
    assert (model.name, ask(model, 1).model, ask(model, 2).model) == ("small", "small", "other")


@pytest.mark.parametrize("script", ["text", [7], ["a", None]])
def test_bad_scripts(script: object) -> None:
    """What cannot be a script is refused when it is written, not when it is asked."""
    with pytest.raises(ConfigurationError):
        ScriptedModel(script)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="step 1"):
        ask(ScriptedModel(lambda messages: None), 1)  # type: ignore[arg-type,return-value]
    with pytest.raises(ConfigurationError, match="at least once"):
        fails("x", times=0, then="y")
