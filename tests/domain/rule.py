"""A rule of the domain that can be dropped, to see whether a test minds."""

from __future__ import annotations
import __future__

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any


@dataclass(frozen=True)
class Rule:
    """A rule, as a piece of a function; what stands there when it is dropped; the test that then fails."""

    promise: str
    owner: Any
    function: str | type
    rule: str
    dropped: str
    test: Callable[[], object]

    def dropped_from_source(self) -> FunctionType:
        """Return the function as it would be if the rule had never been written."""
        function = (
            self.owner[self.function] if isinstance(self.owner, dict) else vars(self.owner)[self.function]
        )
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.rule) == 1, f"the rule is not where it was, or is not clear: {self.rule!r}"
        source = source.replace(self.rule, self.dropped)
        code = compile(source, "<rule dropped>", "exec", __future__.annotations.compiler_flag)
        found: dict[str, Any] = {}
        exec(code, function.__globals__, found)  # noqa: S102 - our own source
        return found[function.__name__]
