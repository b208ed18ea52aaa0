"""A model that answers from a script, so that runs can be tested without a provider."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from perdure.application.ports.model import ModelRequest
from perdure.domain.errors import ConfigurationError, ModelError
from perdure.domain.messages import Message, Reply, ReplyPart, TextPart, ToolRequest, Usage


@dataclass(frozen=True, slots=True)
class Failing:
    """An error for the first few times that a step is asked for, and then an answer."""

    error: Exception
    times: int
    then: Reply | str


Answer = Reply | str | Exception | Failing
"""One entry of a script: a reply, its text alone, an error that is always raised, or `fails(...)`."""
Script = Sequence[Answer] | Callable[[Sequence[Message]], Answer]


def says(text: str, *, usage: Usage | None = None) -> Reply:
    """Return a reply that is text and asks for no tool, so that it ends the run."""
    return Reply(parts=(TextPart(text=text),), usage=usage or Usage(), finish_reason="stop")


def asks(
    tool: str,
    arguments: Mapping[str, object] | str | None = None,
    *,
    id: str | None = None,  # noqa: A002 - the word that providers use
    usage: Usage | None = None,
) -> Reply:
    """Return a reply that asks for one tool call; `together` makes one reply of several.

    Args:
        tool: The tool's name.
        arguments: The arguments, or JSON text that goes out exactly as it stands, valid or not.
        id: The call id as a provider would send it. None stands for a provider that sends none.
        usage: Tokens that the model call took.
    """
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    request = ToolRequest(provider_call_id=id, name=tool, arguments=text)
    return Reply(parts=(request,), usage=usage or Usage(), finish_reason="tool_calls")


def together(*replies: Reply) -> Reply:
    """Return one reply with the parts of all of them, in order; their usage is added up.

    Example:
        ```python
        together(says("Let me look."), asks("find_order", {"id": 7}), asks("find_customer", {"id": 8}))
        ```
    """
    parts: list[ReplyPart] = [part for reply in replies for part in reply.parts]
    return Reply(
        parts=tuple(parts),
        usage=Usage(
            input_tokens=sum(reply.usage.input_tokens for reply in replies),
            output_tokens=sum(reply.usage.output_tokens for reply in replies),
            cache_read_tokens=_sum_of_known(reply.usage.cache_read_tokens for reply in replies),
            cache_write_tokens=_sum_of_known(reply.usage.cache_write_tokens for reply in replies),
        ),
        finish_reason="tool_calls" if any(isinstance(part, ToolRequest) for part in parts) else "stop",
    )


def fails(error: Exception | str, *, times: int = 1, then: Reply | str) -> Failing:
    """Return a script entry that raises first and answers afterwards.

    The failures are counted for each run and step by the `ScriptedModel` at hand, so a new process starts
    counting again. An error that never goes away is put in the script as it is.

    Args:
        error: What is raised; text stands for a transient `ModelError` that says so.
        times: How often it is raised.
        then: The answer after that.
    """
    if times < 1:
        raise ConfigurationError(f"fails(times={times}): say how often it fails, at least once")
    raised = ModelError(error) if isinstance(error, str) else error
    return Failing(raised, times, then)


class ScriptedModel:
    """A model that gives the answers of a script.

    A sequence is indexed by the step that is asked for and not by counting calls: a run that goes on in
    another process, or that asks for a step again, gets what an uninterrupted one would have got. One
    model can thus serve many runs at a time. A function gets the conversation and returns the answer; it
    serves restarts as well as long as it looks at nothing else.

    Example:
        ```python
        model = ScriptedModel([
            asks("send_email", {"to": "ann@example.com"}),
            fails("overloaded", then=says("Sent.")),
        ])
        ```
    """

    def __init__(self, responses: Script, *, name: str = "scripted") -> None:
        """Take the script.

        Args:
            responses: An entry for each step, or a function from the conversation to an entry. An entry is
                a reply (`says`, `asks`, `together`), its text alone, an exception (raised each time), or
                `fails(...)`.
            name: The name that runs are pinned to.

        Raises:
            ConfigurationError: When the script is none.
        """
        self._name = name
        self._script: tuple[Answer, ...] | Callable[[Sequence[Message]], Answer]
        if callable(responses):
            self._script = responses
        elif isinstance(responses, str):
            raise ConfigurationError("a script is a list of entries: write [text] for a single answer")
        else:
            self._script = tuple(responses)
            for number, entry in enumerate(self._script, start=1):
                _require_answer(entry, f"entry {number} of the script")
        self._requests: list[ModelRequest] = []
        self._failures: Counter[tuple[str, int]] = Counter()

    @property
    def name(self) -> str:
        """The name that runs are pinned to."""
        return self._name

    @property
    def requests(self) -> tuple[ModelRequest, ...]:
        """What this instance was asked, in order; requests that it failed included."""
        return tuple(self._requests)

    async def respond(self, request: ModelRequest) -> Reply:
        """Give the answer for the step that is asked for.

        Raises:
            perdure.domain.errors.ModelError: `permanent` when the script has no answer for this step.
            Exception: Whatever the script says.
        """
        self._requests.append(request)
        answer = self._answer_to(request)
        if isinstance(answer, Failing):
            asked = (request.run_id, request.step)
            if self._failures[asked] < answer.times:
                self._failures[asked] += 1
                raise answer.error
            answer = answer.then
        if isinstance(answer, Exception):
            raise answer
        reply = says(answer) if isinstance(answer, str) else answer
        return reply if reply.model is not None else reply.model_copy(update={"model": self._name})

    def _answer_to(self, request: ModelRequest) -> Answer:
        if callable(self._script):
            answer = self._script(request.messages)
            _require_answer(answer, f"what the script function returned for step {request.step}")
            return answer
        if request.step > len(self._script):
            raise ModelError(
                f"the script of model {self._name!r} is at its end: run {request.run_id!r} asked for step "
                f"{request.step}, and the script has {len(self._script)} responses",
                kind="permanent",
            )
        return self._script[request.step - 1]


def _require_answer(entry: object, what: str) -> None:
    if not isinstance(entry, Reply | str | Exception | Failing):
        raise ConfigurationError(
            f"{what} is a {type(entry).__name__}: "
            "use says(), asks(), together(), fails(), text or an exception"
        )


def _sum_of_known(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
