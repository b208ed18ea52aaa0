"""Runs that are told beforehand: what the model asks for, and how each tool behaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from perdure import Agent, Budget, Limits, Policy, ToolContext, ToolError, ToolRegistry, Verdict
from perdure.application.ports.model import ModelRequest
from perdure.domain.messages import AssistantMessage, Message, Reply, ToolResultsMessage, Usage
from perdure.testing import ScriptedModel, asks, says, together
from tests.support.world import World

TOOLS = {
    "look_up": Policy.RERUN,
    "order": Policy.RERUN_WITH_IDEMPOTENCY_KEY,
    "send": Policy.VERIFY_THEN_DECIDE,
    "pay": Policy.ESCALATE_IF_UNKNOWN,
}
"""One tool for each policy."""

BEHAVIOURS = ("works", "raises", "acts_then_raises", "refuses", "hangs", "acts_then_hangs")
USAGE = Usage(input_tokens=90, output_tokens=10)


@dataclass(frozen=True)
class Call:
    """A tool call that the model asks for.

    Attributes:
        does: One of `BEHAVIOURS`.
        verify: What `verify` does: `knows`, `unknown` or `raises`.
        after: Position in its step of the call whose end must be on record before this one ends.
    """

    tool: str
    n: int
    does: str = "works"
    verify: str = "knows"
    after: int = 0

    def asked(self) -> Reply:
        """The call as the model asks for it."""
        arguments = {"n": self.n, "does": self.does, "verify": self.verify, "after": self.after}
        return asks(self.tool, arguments)


@dataclass(frozen=True)
class Scenario:
    """A run: each step is the calls of one model response; at the end the model says what it was told."""

    steps: Sequence[Sequence[Call]]
    budget: Budget = field(default_factory=Budget)
    limits: Limits = field(default_factory=lambda: Limits(first_delay=0.001, longest_delay=0.01))
    timeout: float = 20.0
    max_attempts: int = 3
    prompt: str = "You act."
    model_name: str = "scripted"

    @property
    def calls(self) -> list[Call]:
        """All calls, in the model's order."""
        return [call for step in self.steps for call in step]

    def script(self, messages: Sequence[Message]) -> Reply:
        """Answer by the conversation alone."""
        done = sum(isinstance(message, AssistantMessage) for message in messages)
        if done < len(self.steps):
            reply = together(*(call.asked() for call in self.steps[done]))
            return reply.model_copy(update={"usage": USAGE})
        results = [
            f"{result.name} {'ok' if result.ok else 'failed'}: {result.content}"
            for message in messages
            if isinstance(message, ToolResultsMessage)
            for result in message.results
        ]
        return says("; ".join(results), usage=USAGE)

    def agent(
        self, tools: ToolRegistry, require_alive: Callable[[], None] = lambda: None
    ) -> tuple[Agent, Asked]:
        """Return the agent as one process has it, and the model that keeps what it is asked."""
        asked = Asked(self.model_name, self.script, require_alive)
        agent = Agent(
            "actor",
            model=asked,
            prompt_version="v1",
            prompt=self.prompt,
            tools=tools,
            budget=self.budget,
            limits=self.limits,
        )
        return agent, asked

    def tools(self, world: World, require_alive: Callable[[], None] = lambda: None) -> ToolRegistry:
        """Return a tool for each policy, acting on a world."""
        tools = ToolRegistry()

        def landed(n: int, does: str, verify: str, after: int, ctx: ToolContext) -> Verdict:
            require_alive()
            if verify == "unknown":
                return Verdict.unknown()
            if verify == "raises":
                raise ConnectionError("the outbox cannot be reached")
            effect = world.find(ctx.idempotency_key)
            return Verdict.landed(effect.result) if effect else Verdict.not_landed()

        for name, policy in TOOLS.items():
            verify = landed if policy is Policy.VERIFY_THEN_DECIDE else None
            tool = _acting(name, world, require_alive)
            # The default is not named, so that what holds of it holds of a tool without a policy.
            named = {} if policy is Policy.ESCALATE_IF_UNKNOWN else {"policy": policy}
            tools.tool(
                **named,
                verify=verify,
                name=name,
                timeout=self.timeout,
                max_attempts=self.max_attempts,
                key_ttl=timedelta(days=7),
            )(tool)
        return tools


class Asked(ScriptedModel):
    """A scripted model of one process: it answers only while that lives."""

    def __init__(
        self, name: str, script: Callable[[Sequence[Message]], Reply], require_alive: Callable[[], None]
    ) -> None:
        super().__init__(script, name=name)
        self._require_alive = require_alive

    async def respond(self, request: ModelRequest) -> Reply:
        """Answer, unless the process is dead."""
        self._require_alive()
        return await super().respond(request)


def _acting(name: str, world: World, require_alive: Callable[[], None]) -> Callable[..., object]:
    async def act(n: int, does: str, verify: str, after: int, ctx: ToolContext) -> str:
        require_alive()
        if does == "refuses":
            raise ToolError(f"{name} {n} is not allowed")
        if does == "raises":
            raise ValueError("it broke before it did anything")
        if does == "hangs":
            await asyncio.Event().wait()
        result = world.act(name, n, ctx)
        if does == "acts_then_raises":
            raise ValueError("the answer made no sense")
        if does == "acts_then_hangs":
            await asyncio.Event().wait()
        while after and not world.has_ended(ctx, after):  # noqa: ASYNC110 - the log rings no bell
            await asyncio.sleep(0.001)
        return result

    act.__doc__ = f"{name} something."
    return act


def one_call(tool: str) -> Scenario:
    """The shortest run with a call under a tool's policy."""
    return Scenario([[Call(tool, 1)]])


def several_steps(tool: str) -> Scenario:
    """A call alone, three in parallel, and one more, under a tool's policy and among others."""
    return Scenario(
        [
            [Call(tool, 1)],
            [Call("look_up", 2), Call(tool, 3), Call(tool, 4)],
            [Call(tool, 5)],
        ]
    )
