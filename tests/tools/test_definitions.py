"""Mistakes in the definition of a tool are found when it is defined, and said clearly."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from perdure import Agent, ConfigurationError, Policy, ToolContext, ToolDefinitionError, ToolRegistry, Verdict

if TYPE_CHECKING:
    from decimal import Decimal


def no_type(order) -> str:  # type: ignore[no-untyped-def]
    """It has an argument without a type."""
    return ""


def positional_only(order: str, /) -> str:
    return order


def any_number(*orders: str) -> str:
    return ""


def any_names(**orders: str) -> str:
    return ""


def only_for_type_checkers(amount: Decimal) -> str:
    return ""


class Opaque:
    """A type without a JSON Schema."""


def no_schema(thing: Opaque) -> str:
    return ""


def a_callable(then: Callable[[str], str]) -> str:
    return ""


def fine(order: str) -> str:
    """Do it."""
    return order


def verify_otherwise(order: int) -> Verdict:
    return Verdict.unknown()


def verify_too_little() -> Verdict:
    return Verdict.unknown()


def verify_fine(order: str, ctx: ToolContext) -> Verdict:
    return Verdict.unknown()


MISTAKES: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (no_type, {}, r"tool 'no_type': parameter 'order' has no type"),
    (positional_only, {}, r"parameter .order: .*str.*. cannot be given by name"),
    (any_number, {}, r"parameter .\*orders: .*str.*. cannot be given by name"),
    (any_names, {}, r"parameter .\*\*orders: .*str.*. cannot be given by name"),
    (only_for_type_checkers, {}, r"its annotations cannot be read \(name 'Decimal' is not defined\)"),
    (no_schema, {}, r"tool 'no_schema': its parameters have no JSON Schema"),
    (a_callable, {}, r"tool 'a_callable': its parameters have no JSON Schema"),
    (lambda: "", {}, r"'<lambda>' is no name for a tool"),
    (functools.partial(fine), {}, r"'' is no name for a tool"),
    (fine, {"name": "pay order"}, r"'pay order' is no name for a tool"),
    (fine, {"name": "x" * 65}, r"is no name for a tool"),
    (fine, {"name": "büchen"}, r"is no name for a tool"),
    (fine, {"policy": Policy.VERIFY_THEN_DECIDE}, r"VERIFY_THEN_DECIDE, and there is no verify"),
    (fine, {"verify": verify_fine}, r"verify is asked only under VERIFY_THEN_DECIDE"),
    (
        fine,
        {"policy": Policy.VERIFY_THEN_DECIDE, "verify": verify_otherwise},
        r"verify takes \(.*order: .*int.*\), the tool takes \(.*order: .*str.*\)",
    ),
    (
        fine,
        {"policy": Policy.VERIFY_THEN_DECIDE, "verify": verify_too_little},
        r"verify takes \(\), the tool takes",
    ),
    (fine, {"policy": "sometimes"}, r"the terms of a tool do not fit: policy"),
    (fine, {"timeout": 0}, r"the terms of a tool do not fit: timeout"),
    (fine, {"timeout": float("nan")}, r"the terms of a tool do not fit: timeout"),
    (fine, {"timeout": float("inf")}, r"the terms of a tool do not fit: timeout"),
    (fine, {"settle": -1}, r"the terms of a tool do not fit: settle"),
    (fine, {"key_ttl": timedelta(0)}, r"the terms of a tool do not fit: key_ttl"),
    (fine, {"max_attempts": 0}, r"the terms of a tool do not fit: max_attempts"),
    (fine, {"max_verifications": 0}, r"the terms of a tool do not fit: max_verifications"),
    (fine, {"retries": 3}, r"the terms of a tool do not fit: retries"),
]


@pytest.mark.parametrize(("function", "terms", "says"), MISTAKES, ids=[says for _, _, says in MISTAKES])
def test_a_mistake_is_found_at_definition(
    function: Callable[..., Any], terms: dict[str, Any], says: str
) -> None:
    """The error names the tool and what to mend, and the registry stays as it was."""
    tools = ToolRegistry()

    with pytest.raises(ToolDefinitionError, match=says):
        tools.tool(**terms)(function)
    assert tools.pins() == ()


def test_two_tools_of_one_name_are_refused() -> None:
    """The model calls tools by name, so a name is used once."""
    tools = ToolRegistry()
    tools.tool(fine)

    with pytest.raises(ToolDefinitionError, match=r"there is a tool 'fine' already"):
        tools.tool(name="fine")(verify_fine)


def test_the_decorator_leaves_the_function_as_it_is() -> None:
    """A registered function can be called and tested like any other."""
    tools = ToolRegistry()

    assert tools.tool(fine) is fine
    assert tools.tool(name="other", policy=Policy.RERUN)(fine) is fine


class Address(BaseModel):
    street: str
    city: str = "Berlin"


@dataclass
class Item:
    sku: str
    count: int = 1


def rich(
    order: Annotated[str, Field(description="The order's number.", pattern=r"^\d+$")],
    items: list[Item],
    to: Address,
    how: Literal["post", "courier"] = "post",
    note: str | None = None,
    *,
    ctx: ToolContext,
) -> str:
    """Ship an order."""
    return f"{order} {len(items)} {to.city} {how} {note} {ctx.call_id}"


def test_the_schema_is_that_of_the_signature() -> None:
    """Types, defaults, descriptions and nested models are in the schema; the context is not."""
    tools = ToolRegistry()
    tools.tool(rich)
    (pin,) = tools.pins()

    schema: Any = pin.parameters
    assert pin.description == "Ship an order."
    assert schema["type"] == "object"
    assert set(schema["properties"]) == {"order", "items", "to", "how", "note"}
    assert schema["required"] == ["order", "items", "to"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["order"]["description"] == "The order's number."
    assert schema["properties"]["how"]["enum"] == ["post", "courier"]
    assert set(schema["$defs"]) == {"Address", "Item"}


def test_a_tool_without_arguments_has_an_object_as_schema() -> None:
    """Providers want an object even where there is nothing to say."""
    tools = ToolRegistry()

    @tools.tool
    def now() -> str:
        return "now"

    (pin,) = tools.pins()
    assert (pin.parameters["type"], pin.parameters["properties"]) == ("object", {})
    assert pin.description == ""


class Counter:
    """Counts."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, n: int) -> int:
        """Add to the total."""
        self.total += n
        return self.total

    async def __call__(self, n: int, ctx: ToolContext) -> int:
        return self.add(n)


def test_methods_and_callable_objects_are_tools() -> None:
    """Whatever can be called by name with typed arguments can be a tool."""
    tools, counter = ToolRegistry(), Counter()
    tools.tool(counter.add)
    tools.tool(name="call")(counter)

    assert [pin.name for pin in tools.pins()] == ["add", "call"]
    assert [list(pin.parameters["properties"]) for pin in tools.pins()] == [["n"], ["n"]]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "no spaces please"}, "is no name for an agent"),
        ({"name": ""}, "is no name for an agent"),
        ({"prompt_version": ""}, "give the prompt a version"),
        ({"model_timeout": 0}, "model_timeout"),
        ({"model_timeout": float("nan")}, "model_timeout"),
    ],
)
def test_a_mistake_in_an_agent_is_found_at_definition(changes: dict[str, Any], says: str) -> None:
    """An agent that could not be pinned or driven is refused when it is written."""
    with pytest.raises(ConfigurationError, match=says):
        Agent(**{"name": "a", "model": "test:model", "prompt_version": "v1", **changes})
