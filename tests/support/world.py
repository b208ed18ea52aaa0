"""The world outside: what tools did to it stays done, whatever becomes of the process that did it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from perdure import ToolContext
from perdure.domain.calls import call_id_for
from perdure.domain.events import (
    Event,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallStarted,
    ToolCallSucceeded,
)


@dataclass(frozen=True)
class Effect:
    """Something that a tool did.

    Attributes:
        was_marked: Whether the log held the start of this very attempt when it was done.
    """

    run_id: str
    call_id: str
    attempt: int
    key: str
    tool: str
    n: int
    was_marked: bool = True

    @property
    def result(self) -> str:
        """What the tool that did it returns."""
        return f"{self.tool} {self.n}"


class World:
    """Remembers effects, and can be asked about them by idempotency key."""

    def __init__(self, effects: Sequence[Effect] = ()) -> None:
        self._effects = list(effects)
        self._turn = threading.Lock()
        self.read_log: Callable[[str], Sequence[Event]] | None = None

    @property
    def effects(self) -> list[Effect]:
        """All effects, in order; repeats included."""
        with self._turn:
            return list(self._effects)

    def act(self, tool: str, n: int, context: ToolContext) -> str:
        """Do something, and return the tool's result."""
        effect = Effect(context.run_id, context.call_id, context.attempt, context.idempotency_key, tool, n)
        effect = replace(effect, was_marked=self._is_marked(effect))
        with self._turn:
            self._effects.append(effect)
        return effect.result

    def find(self, key: str) -> Effect | None:
        """Return the effect that was done under a key."""
        return next((effect for effect in self.effects if effect.key == key), None)

    def of_call(self, call_id: str) -> Effect | None:
        """Return the effect of a call."""
        return next((effect for effect in self.effects if effect.call_id == call_id), None)

    def times(self, tool: str | None = None) -> Counter[str]:
        """Count effects by call, of one tool or of all."""
        return Counter(effect.call_id for effect in self.effects if tool in (None, effect.tool))

    def has_ended(self, context: ToolContext, position: int) -> bool:
        """Whether the end of another call of the same step is on record, as far as it was seen."""
        assert self.read_log is not None
        step = int(context.call_id.split("_")[1])
        call_id = call_id_for(context.run_id, step, position)
        ends = (ToolCallSucceeded, ToolCallFailed, ToolCallInDoubt)
        log = self.read_log(context.run_id)
        return any(isinstance(event, ends) and event.call_id == call_id for event in log)

    def _is_marked(self, effect: Effect) -> bool:
        if self.read_log is None:
            return True
        return any(
            isinstance(event, ToolCallStarted)
            and event.call_id == effect.call_id
            and event.attempt == effect.attempt
            for event in self.read_log(effect.run_id)
        )
