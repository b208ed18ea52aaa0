"""What a run needs that is no longer there, in words for a person."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import JsonValue

from perdure.domain.pins import Pins, ToolPin, contract_of, differences
from perdure.domain.tools import Policy

SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "title": "Refund",
    "properties": {
        "order": {"type": "string", "description": "Which order.", "title": "Order"},
        "cents": {"type": "integer", "minimum": 1},
    },
    "required": ["order", "cents"],
}


def tool(name: str = "refund", parameters: dict[str, Any] | None = None, **more: Any) -> ToolPin:
    fields = {"description": "Pay back.", "policy": Policy.RERUN, **more}
    return ToolPin(name=name, parameters=SCHEMA if parameters is None else parameters, **fields)


def pins(*tools: ToolPin, **more: Any) -> Pins:
    return Pins(**{"model": "m", "prompt_version": "v1", "prompt": "Be kind.", **more}, tools=tools)


def changed(**properties: JsonValue) -> dict[str, JsonValue]:
    return {**SCHEMA, "properties": {**SCHEMA["properties"], **properties}}  # type: ignore[dict-item]


def test_same() -> None:
    """A run that finds what it was pinned to misses nothing."""
    assert differences(pins(tool()), pins(tool())) == ()
    assert differences(pins(), pins()) == ()


@pytest.mark.parametrize(
    "offered",
    [
        pins(tool("b"), tool("a")),
        pins(tool("a"), tool("b"), tool("c")),
        pins(tool("a", description="Other words."), tool("b")),
        pins(tool("a", policy=Policy.ESCALATE_IF_UNKNOWN), tool("b")),
        pins(tool("a", {**SCHEMA, "title": "Other", "required": ["cents", "order"]}), tool("b")),
        pins(tool("a", changed(order={"title": "x", "type": "string"})), tool("b")),
    ],
    ids=["reordered", "one more", "description", "policy", "title and order", "description of an argument"],
)
def test_no_difference(offered: Pins) -> None:
    """Order, other tools, policies and words that only inform make no difference."""
    assert differences(pins(tool("a"), tool("b")), offered) == ()


def test_gone_and_renamed() -> None:
    """A tool that is gone, or has another name now, is named."""
    gone = ("tool 'refund': no longer registered",)
    assert differences(pins(tool()), pins()) == gone
    assert differences(pins(tool()), pins(tool("pay_back"))) == gone


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        (
            changed(cents={"type": "number", "minimum": 1}),
            '\'cents\' was {"minimum": 1, "type": "integer"} and is {"minimum": 1, "type": "number"}',
        ),
        (changed(why={"type": "string"}), "'why' is new"),
        ({**changed(why={}), "required": ["order", "cents", "why"]}, "'why' is new"),
        (
            {**SCHEMA, "properties": {"order": SCHEMA["properties"]["order"]}, "required": ["order"]},  # type: ignore[index,call-overload]
            "'cents' is gone",
        ),
        ({**SCHEMA, "required": ["order"]}, "'cents' is no longer required"),
        ({**SCHEMA, "$defs": {"x": {"type": "string"}}}, "a definition that they refer to is another"),
    ],
)
def test_arguments_changed(parameters: dict[str, Any], said: str) -> None:
    """A tool whose arguments changed is named, with what changed about them."""
    assert differences(pins(tool()), pins(tool(parameters=parameters))) == (
        f"tool 'refund': its arguments changed: {said}",
    )


def test_newly_required() -> None:
    """An argument that became required is a change."""
    laxer = {**SCHEMA, "required": ["order"]}
    (said,) = differences(pins(tool(parameters=laxer)), pins(tool()))
    assert said.endswith("'cents' is now required")


@pytest.mark.parametrize(
    "name", ["title", "description", "examples", "$comment", "properties", "type", "enum"]
)
def test_arguments_named_like_keywords(name: str) -> None:
    """An argument that is called like a word of JSON Schema is an argument."""
    with_it = tool(parameters=changed(**{name: {"type": "string"}}))
    (gone,) = differences(pins(with_it), pins(tool()))
    assert gone.endswith(f"{name!r} is gone")
    (other,) = differences(pins(with_it), pins(tool(parameters=changed(**{name: {"type": "integer"}}))))
    assert f"{name!r} was" in other


@pytest.mark.parametrize("keyword", ["const", "default", "enum"])
def test_data_in_schemas(keyword: str) -> None:
    """Values that a schema names are data: what looks like a title in them counts."""
    one, other = ({keyword: [{"title": title, "type": ["b", "a"]}]} for title in ("x", "y"))
    assert contract_of(one) != contract_of(other)  # type: ignore[arg-type]


def test_required_together() -> None:
    """An argument that requires others counts, whatever it is called."""
    schema: JsonValue = {"dependentRequired": {"title": ["cents"]}}
    assert contract_of(schema) == schema


def test_model_and_prompt() -> None:
    """Another model, another prompt version, and a prompt changed without a new version are told apart."""
    assert differences(pins(model="old"), pins(model="new")) == (
        "model: the run is pinned to 'old', at hand is 'new'",
    )
    assert differences(pins(prompt_version="v1"), pins(prompt_version="v2", prompt="Other.")) == (
        "prompt version: the run is pinned to 'v1', at hand is 'v2'",
    )
    assert differences(pins(), pins(prompt="Other.")) == (
        "prompt: the text of version 'v1' was changed without giving it a new version",
    )


def test_everything_at_once() -> None:
    """All differences are said, not the first alone."""
    pinned = pins(tool("a"), tool("b"), tool("c", source="crm"), model="old")
    found = differences(pinned, pins(tool("b", {}), prompt_version="v2"))
    assert [each.split(":")[0] for each in found] == [
        "model",
        "prompt version",
        "tool 'a'",
        "tool 'b'",
        "tool 'c'",
    ]


def test_sources() -> None:
    """A tool of a source is served by its pin: the source must be there, and is not asked."""
    pinned = pins(tool(source="crm"))
    assert differences(pinned, pins(), sources=["crm"]) == ()
    assert differences(pinned, pins(), sources=["erp"]) == (
        "tool 'refund': its source 'crm' is not registered",
    )


def test_long_schemas_are_cut() -> None:
    """What changed is told in a line a person can read, however long the schemas are."""
    long = {"enum": [f"word {n}" for n in range(1000)]}
    (said,) = differences(pins(tool(parameters=changed(cents=long))), pins(tool()))
    assert len(said) < 300


def test_find_by_name() -> None:
    """A pinned tool is found by its name."""
    assert pins(tool("a"), tool("b")).tool("b") == tool("b")
    assert pins(tool("a")).tool("b") is None
