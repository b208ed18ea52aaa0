"""What a run does in the world: model calls, tools and `verify`; and what their ends tell the run."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from perdure.application.agent import Agent
from perdure.application.attempts import Attempt, CancelledItself, Ending, goes_on
from perdure.application.pinned_tools import PinnedTools
from perdure.application.ports.boundaries import Boundaries, Boundary
from perdure.application.ports.clock import Clock
from perdure.application.ports.model import Model, ModelRequest
from perdure.application.results import content_of
from perdure.application.tool_context import ToolContext
from perdure.domain.calls import ToolCall, idempotency_key_for
from perdure.domain.errors import ModelError, ToolError
from perdure.domain.events import DoubtReason
from perdure.domain.messages import Reply
from perdure.domain.run import AgentRun
from perdure.domain.state import RunState
from perdure.domain.tools import Policy, Verdict

Command = Callable[[AgentRun], None]
"""What an activity brought back, as a command to the run."""
_LONGEST_WAIT = 86_400.0
"""Seconds to wait at most when a provider asks for it."""


def nothing(run: AgentRun) -> None:
    """Command nothing."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Something to do in the world.

    Attributes:
        what: Run and call, for the log.
        seconds: How long it may take.
        work: Begins the work.
        concluded: Makes a command of how it ended.
    """

    what: str
    seconds: float
    work: Callable[[], Coroutine[Any, Any, object]]
    concluded: Callable[[Ending], Command]

    def begin(self, on_end: Callable[[], None]) -> Attempt:
        """Begin the work; `on_end` is called once it has ended."""
        return Attempt(self.work, self.seconds, self.what, on_end)


class Activities:
    """The model calls and tools of one run.

    Attributes:
        tools: Its tools, as the plan asks about them.
    """

    def __init__(
        self,
        agent: Agent,
        model: Model,
        tools: PinnedTools,
        clock: Clock,
        boundaries: Boundaries,
        require_ownership: Callable[[], None],
    ) -> None:
        self._agent = agent
        self._model = model
        self.tools = tools
        self._clock = clock
        self._boundaries = boundaries
        self._require_ownership = require_ownership

    def ask_model(self, state: RunState) -> Activity:
        """The model call that is due."""
        step, seen = state.steps + 1, state.version
        self._boundaries.reached(Boundary.BEFORE_MODEL, state.run_id, str(step))
        request = ModelRequest(
            run_id=state.run_id,
            step=step,
            prompt=state.pins.prompt,
            messages=state.messages(),
            tools=state.pins.tools,
            timeout=self._agent.model_timeout,
        )

        def concluded(ending: Ending) -> Command:
            if isinstance(ending.error, ModelError):
                return self._model_failure(state, ending.error)
            if ending.error is not None:
                return self._model_failure(state, ModelError(_described(ending.error)))
            reply = ending.value
            if not isinstance(reply, Reply):
                what = f"the model answered with {type(reply).__name__}, not a Reply"
                return self._model_failure(state, ModelError(what, kind="permanent"))
            self._boundaries.reached(Boundary.AFTER_MODEL, state.run_id, str(step))
            return lambda run: run.respond(reply, seen=seen, now=self._clock.now())

        what = f"{state.run_id} model call of step {step}"
        return Activity(what, self._agent.model_timeout, lambda: self._model.respond(request), concluded)

    def _model_failure(self, state: RunState, error: ModelError) -> Command:
        limits = self._agent.limits
        attempt = (state.trouble.attempt if state.trouble is not None else 0) + 1
        retry_at: datetime | None = None
        if error.kind == "transient" and attempt < limits.model_attempts:
            jitter = random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
            asked = error.retry_after or 0.0
            asked = min(asked, _LONGEST_WAIT) if asked > 0 else 0.0
            wait = max(limits.delay(attempt) * jitter, timedelta(seconds=asked))
            retry_at = self._clock.now() + wait
        failure = "transient" if error.kind == "transient" else "permanent"
        message = _text_of(error) or "The model call failed and gave no reason."
        return lambda run: run.model_failed(failure, message, retry_at=retry_at, now=self._clock.now())

    def run_tool(self, state: RunState, call: ToolCall) -> Activity:
        """One attempt of a started call; whatever it ends with, the command says what is known then."""
        self._boundaries.reached(Boundary.BEFORE_TOOL, state.run_id, call.call_id)
        tool = self.tools.find(call.name)
        if tool is None:  # the plan starts no tool that is not there
            raise RuntimeError(f"tool {call.name!r} is not registered")

        def concluded(ending: Ending) -> Command:
            match ending.error:
                case None:
                    self._boundaries.reached(Boundary.AFTER_TOOL, state.run_id, call.call_id)
                    content = content_of(ending.value)
                    return lambda run: run.call_succeeded(call.call_id, content, self._clock.now())
                case ToolError() as error:
                    message = _text_of(error) or "The tool failed and gave no reason."
                    return lambda run: run.call_failed(call.call_id, message, self._clock.now())
                case TimeoutError() as error:
                    return self._unseen(call, "timeout", _described(error))
                case OSError() as error:
                    return self._unseen(call, "lost_connection", _described(error))
                case CancelledItself():
                    return self._unseen(call, "cancelled", "the tool cancelled itself")
                case error:
                    return self._unseen(call, "exception", _described(error))

        context = self._context(state, call)
        what = _attempts_of(state, call)
        return Activity(what, call.timeout, lambda: tool.run(call.arguments, context), concluded)

    def verify(self, state: RunState, call: ToolCall) -> Activity:
        """The question to `verify` about a call in doubt; whatever goes wrong there means unknown."""
        self._boundaries.reached(Boundary.BEFORE_VERIFY, state.run_id, call.call_id)
        tool = self.tools.find(call.name)
        if tool is None:  # the plan asks no verify that is not there
            raise RuntimeError(f"tool {call.name!r} is not registered")

        def concluded(ending: Ending) -> Command:
            self._boundaries.reached(Boundary.AFTER_VERIFY, state.run_id, call.call_id)
            verdict = _verdict(ending)
            if verdict.outcome == "not_landed" and goes_on(_attempts_of(state, call)):
                verdict = Verdict.unknown(
                    evidence="verify found nothing, but an attempt that nobody waits for any more still "
                    "runs in this process and may land yet"
                )
            content = content_of(verdict.result)
            return lambda run: run.call_verified(call.call_id, verdict, self._clock.now(), content)

        context = self._context(state, call)
        what = f"{state.run_id} verify of {call.call_id}"
        return Activity(what, tool.contract.timeout, lambda: tool.ask(call.arguments, context), concluded)

    def _context(self, state: RunState, call: ToolCall) -> ToolContext:
        return ToolContext(
            run_id=state.run_id,
            call_id=call.call_id,
            attempt=call.attempt,
            idempotency_key=idempotency_key_for(state.run_id, call.call_id),
            tenant=state.tenant,
            deadline=state.deadline,
            _require_ownership=self._require_ownership,
        )

    def _unseen(self, call: ToolCall, why: DoubtReason, detail: str) -> Command:
        contract = self.tools.contract(call.name)
        now_stricter = contract.policy if contract is not None else Policy.ESCALATE_IF_UNKNOWN
        if Policy.stricter(call.policy, now_stricter) is Policy.RERUN:
            return lambda run: run.call_failed(call.call_id, detail, self._clock.now())
        return self._doubt(call, why, detail)

    def _doubt(self, call: ToolCall, why: DoubtReason, detail: str) -> Command:
        return lambda run: run.call_in_doubt(call.call_id, why, self._clock.now(), detail)


def _verdict(ending: Ending) -> Verdict:
    if isinstance(ending.value, Verdict):
        return ending.value
    if ending.error is not None:
        return Verdict.unknown(evidence=f"verify raised {_described(ending.error)}")
    return Verdict.unknown(evidence=f"verify returned {type(ending.value).__name__}, not a Verdict")


def _attempts_of(state: RunState, call: ToolCall) -> str:
    return f"{state.run_id} {call.call_id}"


def _described(error: BaseException) -> str:
    text = _text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - exceptions of users may be unable to say what they are
        return ""
