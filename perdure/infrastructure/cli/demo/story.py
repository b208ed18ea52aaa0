"""The log of one run, told in few words: for a reader who sees an event log for the first time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from perdure.domain.calls import call_id_for
from perdure.domain.events import (
    EscalationResolved,
    Event,
    ModelResponded,
    RunClaimed,
    RunCompleted,
    RunEscalated,
    RunStarted,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallStarted,
    ToolCallSucceeded,
    ToolCallVerified,
)

_KNOWN_BY = {"ran": "", "verified": ", as verify found", "person": ", as a person said"}
_LEFT = {
    "new": "",
    "released": ", which its worker had given back",
    "expired": ", whose worker was not heard of any more",
}


@dataclass(frozen=True, slots=True)
class Line:
    """What is told of an event.

    Attributes:
        after: Seconds since the run was started.
        is_last_word: Whether nothing more was heard of the worker after it.
    """

    seq: int
    after: float
    event: str
    what: str
    is_last_word: bool


def story_of(events: Sequence[Event]) -> list[Line]:
    """Tell the log of a run."""
    names = _names_of_calls(events)
    lines: list[Line] = []
    for event, following in pairwise([*events, None]):
        if event is None:
            break
        lines.append(
            Line(
                event.seq,
                (event.at - events[0].at).total_seconds(),
                type(event).__name__,
                _what(event, names),
                isinstance(following, RunClaimed) and following.left == "expired",
            )
        )
    return lines


def _names_of_calls(events: Sequence[Event]) -> Mapping[str, str]:
    return {
        call_id_for(event.run_id, event.step, position): call.name
        for event in events
        if isinstance(event, ModelResponded)
        for position, call in enumerate(event.message.tool_calls, start=1)
    }


def _what(event: Event, names: Mapping[str, str]) -> str:
    match event:
        case RunStarted():
            return f"{event.agent}, prompt {event.pins.prompt_version}, model {event.pins.model}"
        case RunClaimed():
            return f"{event.worker} took the run{_LEFT[event.left]}"
        case ModelResponded():
            calls = ", ".join(call.name for call in event.message.tool_calls)
            return f"step {event.step}: " + (f"calls {calls}" if calls else "answers")
        case ToolCallStarted():
            return f"{names[event.call_id]}, attempt {event.attempt}, {event.policy}"
        case ToolCallSucceeded():
            return f"{names[event.call_id]}: {event.content.for_model}{_KNOWN_BY[event.known_by]}"
        case ToolCallFailed():
            return f"{names[event.call_id]}: {event.error}"
        case ToolCallInDoubt():
            return f"{names[event.call_id]}, attempt {event.attempt}: {event.why}, nobody saw its end"
        case ToolCallVerified():
            return f"{names[event.call_id]}: {event.verdict}"
        case RunEscalated():
            return f"{event.why}: a person is asked"
        case EscalationResolved():
            return f"{event.by}: {event.resolution}, for {event.reason}"
        case RunCompleted():
            return event.answer
        case _:
            return ""
