"""The example that the demo plays: where its files are, and how to load them."""

from __future__ import annotations

import csv
import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from perdure.application.agent import Agent
from perdure.application.ports.model import Model
from perdure.domain.errors import ConfigurationError

_PACKAGE = Path(__file__).parents[3]
_IN_A_CHECKOUT = _PACKAGE.parent / "examples" / "support"
_INSTALLED = _PACKAGE / "examples" / "support"


@dataclass(frozen=True, slots=True)
class CustomerRequest:
    """What a customer wrote, and the tool that this request puts to the test.

    Attributes:
        tool: Called second in the first step, by the script.
        policy: That tool's policy.
    """

    name: str
    tenant: str
    message: str
    tool: str
    policy: str


def example_directory() -> Path:
    """Return the directory of the example: in a checkout, or inside the installed package.

    Raises:
        ConfigurationError: It is in neither.
    """
    for place in (_IN_A_CHECKOUT, _INSTALLED):
        if (place / "agent.py").exists():
            return place
    raise ConfigurationError("the files of the demo (examples/support) are not installed with perdure")


def in_a_checkout() -> bool:
    """Whether perdure runs from a clone of its repository."""
    return example_directory() == _IN_A_CHECKOUT


def customer_requests() -> list[CustomerRequest]:
    """Read what customers wrote."""
    files = sorted((example_directory() / "requests").glob("*.json"))
    entries = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return [
        CustomerRequest(
            entry["name"], entry["tenant"], entry["message"], entry["tests"]["tool"], entry["tests"]["policy"]
        )
        for entry in entries
    ]


def orders() -> list[list[str]]:
    """Read the rows of the table of orders."""
    with (example_directory() / "orders.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def support_agent(*, database: str, schema: str, http: str, smtp_port: int) -> Agent:
    """Put the example's agent together, with its scripted model."""
    place = example_directory()
    agent, script = _load(place / "agent.py"), _load(place / "script.py")
    shop = agent.Shop(database=database, schema=schema, http=http, smtp_port=smtp_port)
    model = cast("Model", script.ScriptedSupport(place / "requests"))
    build = cast("Callable[[Any, Model], Agent]", agent.support_agent)
    return build(shop, model)


def _load(file: Path) -> ModuleType:
    name = f"perdure_example_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{file} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
