"""The port to a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from perdure.domain.messages import Message, Reply
from perdure.domain.tools import ToolSpec


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a model is asked.

    Attributes:
        run_id: The run, for logs and provider-side metadata.
        step: Number of the step that the answer begins, from 1.
        prompt: The system prompt pinned for the run.
        messages: The conversation: every tool call has exactly one result, right behind the message that
            asked for it. `perdure.domain.messages.wire_ids` says under which id each call goes out.
        tools: The tools pinned for the run.
        timeout: Seconds after which nobody waits for the answer any more.
    """

    run_id: str
    step: int
    prompt: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    timeout: float


class Model(Protocol):
    """A language model. Users may hand in their own."""

    @property
    def name(self) -> str:
        """The name that runs are pinned to: another name is another model."""
        ...

    async def respond(self, request: ModelRequest) -> Reply:
        """Ask for the next message. It is safe to ask the same again.

        Raises:
            perdure.domain.errors.ModelError: With `kind="transient"` when asking again later may help, and
                `kind="permanent"` when it cannot. Any other exception counts as transient.
        """
        ...
