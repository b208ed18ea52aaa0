"""Every rule that keeps a promise is held by a test: without the rule, that test fails."""

from __future__ import annotations

import inspect

import pytest

from perdure.domain import messages, planning, resolving
from perdure.domain.planning import Plan

from . import rules_of_facts, rules_of_planning, test_messages
from .rule import Rule


@pytest.mark.parametrize(
    "rule", [*rules_of_planning.RULES, *rules_of_facts.RULES], ids=lambda rule: rule.promise
)
def test_rule(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test of a promise passes with the rule that keeps it, and fails without."""
    rule.test()
    if isinstance(rule.owner, dict):
        monkeypatch.setitem(rule.owner, rule.function, rule.dropped_from_source())
    else:
        monkeypatch.setattr(rule.owner, rule.function, rule.dropped_from_source())
        # these two were imported by name
        monkeypatch.setattr("perdure.domain.run.require_resolvable", resolving.require_resolvable)
        monkeypatch.setattr(test_messages, "wire_ids", messages.wire_ids)
    with pytest.raises((AssertionError, LookupError, pytest.fail.Exception)):
        rule.test()


def test_nothing_is_planned_elsewhere() -> None:
    """The plan decides alone: no other class of the module takes part."""
    own = [
        each
        for each in vars(planning).values()
        if inspect.isclass(each) and each.__module__ == planning.__name__
    ]
    assert own == [Plan]
