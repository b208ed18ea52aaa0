"""What `import perdure` offers is chosen, described, and typed."""

from __future__ import annotations

import inspect
from importlib.resources import files

import pytest

import perdure


def test_the_export_list_is_sorted_and_says_nothing_twice() -> None:
    """Names are listed in one order, so that two people who add one do not collide."""
    assert list(perdure.__all__) == sorted(set(perdure.__all__))


def test_nothing_else_is_public() -> None:
    """A name that is not in the export list is not one that users can come to depend on."""
    packages = {"application", "domain", "infrastructure", "testing"}
    found = {
        name
        for name, value in vars(perdure).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }

    assert found - packages == set(perdure.__all__)


@pytest.mark.parametrize("name", perdure.__all__)
def test_every_export_is_there_and_described(name: str) -> None:
    """Each exported name can be imported, and its docstring is its own."""
    exported = getattr(perdure, name)

    own = vars(exported).get("__doc__")
    assert own, f"{name} has no docstring"
    assert own.strip()


@pytest.mark.parametrize("name", perdure.__all__)
def test_public_methods_are_described(name: str) -> None:
    """Each public method of an exported class says what it does."""
    exported = getattr(perdure, name)
    if issubclass(exported, BaseException):
        return

    methods = inspect.getmembers(
        exported, lambda member: inspect.isfunction(member) or inspect.ismethod(member)
    )
    silent = [
        method
        for method, function in methods
        if not method.startswith("_")
        and function.__module__.startswith("perdure")
        and not inspect.getdoc(function)
    ]

    assert silent == []


def test_the_types_are_shipped() -> None:
    """The package says that it is typed, so that type checkers of users read its annotations."""
    assert files("perdure").joinpath("py.typed").is_file()
