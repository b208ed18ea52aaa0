"""The agent under chaos, and the worker process that is killed."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from psycopg.conninfo import make_conninfo

from perdure import (
    Agent,
    AgentRuns,
    DatabaseError,
    Limits,
    Policy,
    ToolContext,
    ToolRegistry,
    Verdict,
    Worker,
)
from perdure.application.ports.model import ModelRequest
from perdure.domain.messages import Reply, TextPart, ToolRequest, ToolResultsMessage, Usage
from tests.chaos.flaws import break_library
from tests.chaos.refusals import Refusals
from tests.chaos.world import Effect, World

TOOLS = ("look_up", "open_ticket", "send_mail", "refund")
"""One tool a policy, in the order of the policies."""
HOGS = ("sleep_long", "block_the_loop", "hold_the_gil")
"""Tools that take three leases, each in its own bad way."""
LINGERER = "linger"
"""A tool that takes two leases and may be run again: runs that call nothing else outlast a freeze."""
NO_DATABASE = 3
"""Exit code of a worker that could not connect when it started."""
GRACE = 5.0
"""Seconds that a worker's tools get when it is asked to go."""
Act = Callable[[str, ToolContext], None]
"""Makes the effect of a tool happen."""
LIMITS = Limits(first_delay=0.05, longest_delay=0.5)


@dataclass(frozen=True)
class Settings:
    """What a worker process is told.

    Attributes:
        directory: Where the world is, and what the workers put down beside it.
        pace: Seconds that a tool takes before its effect and again after it, at most.
        clock_offset: Seconds by which the worker's own clock is wrong.
        flaws: Names of what is broken on purpose, for negative controls.
    """

    conninfo: str
    schema: str
    directory: Path
    lease_seconds: float = 1.0
    pace: float = 0.15
    concurrency: int = 16
    clock_offset: float = 0.0
    flaws: tuple[str, ...] = ()

    @property
    def world(self) -> World:
        """What tools act on."""
        return World(self.directory / "effects")

    @property
    def refusals(self) -> Refusals:
        """Appends that were refused to workers."""
        return Refusals(self.directory / "refusals")


class ChaosModel:
    """Answers by run and step alone, but for the last answer, which depends on every result."""

    name = "chaos"

    async def respond(self, request: ModelRequest) -> Reply:
        """Ask for some calls; after the last step, answer with a digest of all results."""
        steps = plan_of(request.run_id)
        await asyncio.sleep(0.001)
        usage = Usage(input_tokens=10, output_tokens=5)
        if request.step <= len(steps):
            calls = [
                ToolRequest(name=tool, arguments=f'{{"what": "{request.step}.{place}"}}')
                for place, tool in enumerate(steps[request.step - 1], start=1)
            ]
            return Reply(parts=tuple(calls), usage=usage)
        results = [
            result.content
            for message in request.messages
            if isinstance(message, ToolResultsMessage)
            for result in message.results
        ]
        return Reply(parts=(TextPart(text=digest(results)),), usage=usage)


def plan_of(run_id: str) -> list[list[str]]:
    """Which tools each step of a run calls."""
    name = run_id.partition(":")[0]
    if name in HOGS:
        return [[name]]
    if name == LINGERER:
        return [[name, name]] * 2
    dice = random.Random(run_id)
    return [dice.choices(TOOLS, k=dice.randint(1, 3)) for _ in range(dice.randint(2, 4))]


def result_of(tool: str, what: str) -> str:
    """What a tool returns."""
    return f"{tool} did {what}"


def digest(results: Sequence[str]) -> str:
    """The answer of a run with these results."""
    return hashlib.sha256("\n".join(results).encode()).hexdigest()[:16]


def expected_answer(run_id: str) -> str:
    """What an uninterrupted run answers."""
    steps = enumerate(plan_of(run_id), start=1)
    return digest(
        [
            result_of(tool, f"{step}.{place}")
            for step, tools in steps
            for place, tool in enumerate(tools, start=1)
        ]
    )


def agent_for(world: World, pace: float, lease_seconds: float) -> Agent:
    """The agent, whose tools act on a world."""
    tools = ToolRegistry()

    def act(tool: str, context: ToolContext) -> None:
        key = context.idempotency_key
        world.do(Effect(tool, context.run_id, context.call_id, context.attempt, key, os.getpid()))

    add_one_tool_a_policy(tools, world, act, pace)
    add_tools_that_take_long(tools, act, lease_seconds)
    return Agent(
        "chaos", model=ChaosModel(), prompt_version="v1", tools=tools, limits=LIMITS, model_timeout=5
    )


def add_one_tool_a_policy(tools: ToolRegistry, world: World, act: Act, pace: float) -> None:
    """Add what most runs call."""

    def landed(what: str, ctx: ToolContext) -> Verdict:
        if world.happened(ctx.idempotency_key):
            return Verdict.landed(result_of("send_mail", what))
        return Verdict.not_landed()

    @tools.tool(policy=Policy.RERUN, timeout=5)
    async def look_up(what: str, ctx: ToolContext) -> str:
        await asyncio.sleep(random.uniform(0, pace))
        act("look_up", ctx)
        return result_of("look_up", what)

    @tools.tool(policy=Policy.RERUN_WITH_IDEMPOTENCY_KEY, timeout=5)
    def open_ticket(what: str, ctx: ToolContext) -> str:
        time.sleep(random.uniform(0, pace))
        act("open_ticket", ctx)
        time.sleep(random.uniform(0, pace))
        return result_of("open_ticket", what)

    @tools.tool(policy=Policy.VERIFY_THEN_DECIDE, verify=landed, timeout=0.5, settle=0.1)
    async def send_mail(what: str, ctx: ToolContext) -> str:
        await asyncio.sleep(random.uniform(0, pace))
        # It asks the database: in the event loop's own thread it would hold up all runs meanwhile.
        await asyncio.to_thread(ctx.ensure_owned)
        act("send_mail", ctx)
        await asyncio.sleep(random.uniform(0, pace))
        return result_of("send_mail", what)

    @tools.tool(timeout=5)
    def refund(what: str, ctx: ToolContext) -> str:
        time.sleep(random.uniform(0, pace))
        ctx.ensure_owned()
        act("refund", ctx)
        time.sleep(random.uniform(0, pace))
        return result_of("refund", what)


def add_tools_that_take_long(tools: ToolRegistry, act: Act, lease_seconds: float) -> None:
    """Add what takes longer than a lease."""

    @tools.tool(policy=Policy.RERUN, timeout=60)
    def linger(what: str, ctx: ToolContext) -> str:
        time.sleep(2 * lease_seconds)
        act("linger", ctx)
        return result_of("linger", what)

    @tools.tool(timeout=60)
    def sleep_long(what: str, ctx: ToolContext) -> str:
        time.sleep(3 * lease_seconds)
        act("sleep_long", ctx)
        return result_of("sleep_long", what)

    @tools.tool(timeout=60)
    async def block_the_loop(what: str, ctx: ToolContext) -> str:
        time.sleep(3 * lease_seconds)  # noqa: ASYNC251 - that is the point
        act("block_the_loop", ctx)
        return result_of("block_the_loop", what)

    @tools.tool(timeout=60)
    def hold_the_gil(what: str, ctx: ToolContext) -> str:
        act("hold_the_gil", ctx)
        began, size = time.monotonic(), 20
        while time.monotonic() - began < 3 * lease_seconds:
            re.match(r"(a+)+$", "a" * size + "b")
            size += 1
        return result_of("hold_the_gil", what)


def connect(settings: Settings, who: str) -> AgentRuns:
    """Connect as the settings say; the server is told who it is."""
    return AgentRuns.connect(
        make_conninfo(settings.conninfo, application_name=who),
        agents=[agent_for(settings.world, settings.pace, settings.lease_seconds)],
        schema=settings.schema,
        lease_seconds=settings.lease_seconds,
    )


def work(settings: Settings) -> None:
    """Be a worker process, until somebody kills it or asks it to go."""
    logging.basicConfig(level=logging.CRITICAL)
    if settings.clock_offset:
        honest = time.time
        time.time = lambda: honest() + settings.clock_offset
    settings.refusals.note_those_of_this_process()
    break_library(settings.flaws)
    try:
        runs = connect(settings, f"worker {os.getpid()}")
    except DatabaseError:
        sys.exit(NO_DATABASE)
    with runs:
        Worker(runs, concurrency=settings.concurrency, poll_interval=0.2, grace=GRACE).run()
