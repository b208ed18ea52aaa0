"""Where the runs of these tests stand, and what they are told there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from perdure.domain.moves import Limits, Move
from perdure.domain.run import AgentRun
from perdure.domain.tools import Policy, ToolContract
from perdure.testing import RunLog, StubToolbox, a_run, asks, together, toolbox

RERUN = Policy.RERUN
KEY = Policy.RERUN_WITH_IDEMPOTENCY_KEY
VERIFY = Policy.VERIFY_THEN_DECIDE
PERSON = Policy.ESCALATE_IF_UNKNOWN

TOOLS = toolbox(read=RERUN, charge=KEY, send=VERIFY, refund=PERSON)
"""One tool of each policy."""
TOOL_OF = {RERUN: "read", KEY: "charge", VERIFY: "send", PERSON: "refund"}


def advance(
    now: datetime, tools: StubToolbox = TOOLS, limits: Limits | None = None
) -> Callable[[AgentRun], Move]:
    """Tell a run to go on."""
    return lambda run: run.advance(now, tools, limits or Limits())


def asked(*tools: str, **start: object) -> RunLog:
    """Return a claimed run whose model asked for these tools."""
    return a_run(**start).claimed().responded(together(*(asks(tool) for tool in tools)))  # type: ignore[arg-type]


def started(policy: Policy, *, timeout: float = 300.0, settle: float | None = None) -> RunLog:
    """Return a run with one call under way, of the tool with this policy."""
    return asked(TOOL_OF[policy]).call_started(1, policy=policy, timeout=timeout, settle=settle)


def in_doubt(policy: Policy, *, timeout: float = 300.0, settle: float | None = None) -> RunLog:
    """Return a run with one call whose worker died, taken by another worker."""
    return started(policy, timeout=timeout, settle=settle).crashed().call_in_doubt()


def with_contract(policy: Policy, **terms: object) -> StubToolbox:
    """Return the tool of a policy on these terms."""
    return toolbox(**{TOOL_OF[policy]: ToolContract(policy=policy, **terms)})  # type: ignore[arg-type]
