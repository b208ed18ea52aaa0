"""The use cases: what programs and people do with runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Self

from perdure.application.driver import Driver
from perdure.application.event_loop import run_to_end
from perdure.application.ids import new_run_id
from perdure.application.lease_keeper import LeaseKeeper
from perdure.application.ports import Ports
from perdure.application.registered_agents import RegisteredAgents
from perdure.application.results import content_of
from perdure.application.shift import shift
from perdure.domain.budget import Budget
from perdure.domain.errors import (
    CallAlreadyResolved,
    CallNotFound,
    InvalidInput,
    LogConflict,
    RunAlreadyStarted,
    RunNotFound,
)
from perdure.domain.events import EscalationResolved, Event, RunStarted
from perdure.domain.evolution import fold
from perdure.domain.messages import AssistantMessage, UserMessage
from perdure.domain.run import AgentRun
from perdure.domain.state import RunState
from perdure.domain.tools import Resolution

Input = str | Sequence[UserMessage | AssistantMessage]


class AgentRuns:
    """Starts, drives, inspects and decides about runs. Methods block; any thread may call them.

    Attributes:
        ports: What it stands on; for workers, and for tests.
        agents: The agents at hand.
        keeper: Keeps the leases of this process.
        driver: Drives single runs.
    """

    def __init__(self, ports: Ports, agents: RegisteredAgents, keeper: LeaseKeeper) -> None:
        """Put the use cases on ports; `AgentRuns.connect()` does it for PostgreSQL."""
        self.ports = ports
        self.agents = agents
        self.keeper = keeper
        self.driver = Driver(ports, keeper, agents)
        self._store = ports.store
        self._clock = ports.clock

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop renewing leases and close connections."""
        self.keeper.close()

    # -- programs ----------------------------------------------------------------------------------

    def start(
        self,
        agent: str,
        messages: Input,
        *,
        run_id: str | None = None,
        tenant: str | None = None,
        budget: Budget | None = None,
        labels: Mapping[str, str] | None = None,
        parent: str | None = None,
        prompt_version: str | None = None,
    ) -> str:
        """Put a run on record; a worker, or `advance()`, then drives it.

        Args:
            agent: Name of a registered agent.
            messages: What it is asked: text, or a conversation that ends with the user.
            run_id: An id of the caller's: starting the same run twice is one run.
            tenant: Whom the run is for.
            budget: What the run may use, instead of the agent's default.
            labels: Words for finding it again.
            parent: The run that this one belongs to.
            prompt_version: Which version of the agent, when several are registered; the last one otherwise.

        Returns:
            The run id.

        Raises:
            InvalidInput: Something cannot be stored or makes no sense; nothing was written.
            RunAlreadyStarted: The id is taken by a run that was started with something else.
            ConfigurationError: No such agent is registered.
        """
        given = run_id is not None
        run_id = _checked_id(run_id)
        wanted: dict[str, object] = {
            "agent": agent,
            "input": _conversation(messages),
            "tenant": tenant,
            "labels": dict(labels) if labels else None,
            "parent": parent,
        }
        if budget is not None:
            wanted["budget"] = budget
        if given and self._is_started(run_id, wanted):
            return run_id
        run = self.prepare(
            agent,
            messages,
            run_id=run_id,
            tenant=tenant,
            budget=budget,
            labels=labels,
            parent=parent,
            prompt_version=prompt_version,
        )
        try:
            self._store.append(run.pending)
        except LogConflict:
            if not self._is_started(run_id, wanted):
                raise
        return run_id

    def prepare(
        self,
        agent: str,
        messages: Input,
        *,
        run_id: str | None = None,
        tenant: str | None = None,
        budget: Budget | None = None,
        labels: Mapping[str, str] | None = None,
        parent: str | None = None,
        prompt_version: str | None = None,
    ) -> AgentRun:
        """Begin a run without putting it on record: for hosts that save it with aggregates of their own.

        `runs.log.save(run, order)` stores both in one transaction, or neither. The arguments and what is
        raised are those of `start()`; an id that is taken is found out when it is saved.
        """
        conversation = _conversation(messages)
        for text in _texts(tenant, parent, labels, conversation):
            _require_storable(text)
        definition = self.agents.newest(agent, prompt_version)
        return AgentRun.start(
            _checked_id(run_id),
            agent=agent,
            messages=conversation,
            pins=self.agents.pins(definition),
            budget=budget if budget is not None else definition.budget,
            now=self._clock.now(),
            tenant=tenant,
            labels=labels,
            parent=parent,
        )

    def advance(self, run_id: str) -> RunState:
        """Claim a run and drive it until it rests; the same loop as a worker's.

        Raises:
            RunNotFound: There is no such run.
            RunIsOwned: A worker drives it already.
            OwnershipLost: Another worker took it over on the way.
        """

        async def load_and_drive() -> RunState:
            async with shift(self._store) as alone:
                return await self.driver.advance(await self.driver.load(run_id), alone)

        return run_to_end(load_and_drive())

    def add_input(self, run_id: str, text: str, *, by: str | None = None) -> RunState:
        """Tell the agent something more; it is shown at the next model call.

        Raises:
            RunFinished: The run has ended.
            InvalidInput: The text cannot be stored.
        """
        for said in (text, by or ""):
            _require_storable(said)
        if not text.strip():
            raise InvalidInput("there is nothing in the input to tell the agent")
        message = UserMessage(text=text)
        return self._tell(run_id, lambda run: run.add_input(message, self._clock.now(), by))

    # -- people ------------------------------------------------------------------------------------

    def extend_budget(
        self,
        run_id: str,
        *,
        steps: int | None = None,
        tokens: int | None = None,
        wall_clock: timedelta | None = None,
        by: str,
        reason: str,
    ) -> RunState:
        """Allow a run more; a run that was stopped by its budget can then go on.

        Raises:
            RunFinished: The run has ended.
            InvalidInput: Nothing is added, or to a limit that the run does not have.
        """
        _require_decider(by, reason)
        more = Budget(steps=steps, tokens=tokens, wall_clock=wall_clock)
        return self._tell(
            run_id, lambda run: run.extend_budget(more, self._clock.now(), by=by, reason=reason)
        )

    def resolve(
        self, run_id: str, call_id: str | None, resolution: Resolution, *, by: str, reason: str
    ) -> RunState:
        """Decide about a call in doubt; or, with no call id, about a run that waits for a person.

        Args:
            run_id: The run.
            call_id: The call; `None` for the run itself.
            resolution: `Resolution.succeeded(result)`, `.failed(error)`, `.rerun()` or `.abandon()`; for a
                run itself `.resume()` or `.abandon()`.
            by: Who decides; recorded.
            reason: Why; recorded.

        Raises:
            CallNotFound: The run has no such call.
            CallAlreadyResolved: Somebody decided before; the message shows what.
            RunNotRunnable: The resolution does not fit.
        """
        _require_decider(by, reason)
        content = content_of(resolution.result) if resolution.outcome == "succeeded" else None
        try:
            return self._tell(
                run_id,
                lambda run: run.resolve(
                    call_id, resolution, self._clock.now(), by=by, reason=reason, content=content
                ),
            )
        except CallNotFound as error:
            raise self._resolved_before(run_id, call_id) or error from None

    def cancel(self, run_id: str, *, by: str, reason: str) -> RunState:
        """Stop a run. Its worker settles what is in flight first; with no worker it stops at once.

        Raises:
            RunFinished: The run has ended.
        """
        _require_decider(by, reason)

        def decide(run: AgentRun) -> None:
            lease = self.ports.leases.find(run_id)
            owned = lease is not None and lease.is_live
            run.request_cancel(self._clock.now(), by=by, reason=reason, owned=owned)

        return self._tell(run_id, decide)

    # -- looking -----------------------------------------------------------------------------------

    def state(self, run_id: str, *, at: int | None = None) -> RunState:
        """Return the state of a run, now or at an earlier version.

        Args:
            run_id: The run.
            at: A version: the number of events to fold.

        Raises:
            RunNotFound: There is no such run, or it had no such version.
        """
        state = fold(run_id, self.events(run_id, upto=at))
        if at is not None and state.version < at:
            raise RunNotFound(f"run {run_id!r} has {state.version} versions: there is no version {at}")
        return state

    def events(self, run_id: str, *, after: int = 0, upto: int | None = None) -> Sequence[Event]:
        """Return the events of a run, in order, with `after < seq <= upto`.

        Raises:
            RunNotFound: There is no such run.
            InvalidInput: `upto` is not a version.
        """
        if upto is not None and upto < 1:
            raise InvalidInput(f"versions start at 1: there is no version {upto}")
        events = self._store.read(run_id, after=after, upto=upto)
        if not events and not (after and self._store.read(run_id, upto=1)):
            raise RunNotFound(f"there is no run {run_id!r}")
        return events

    # -- inside ------------------------------------------------------------------------------------

    def _tell(self, run_id: str, decide: Callable[[AgentRun], None]) -> RunState:
        run = AgentRun.from_events(run_id, self.events(run_id))
        while True:
            decide(run)
            if not run.pending:
                return run.state
            try:
                self._store.append(run.pending)
            except LogConflict:
                run.rebase(self._store.read(run_id, after=run.stored_version))
                continue
            run.committed()
            return run.state

    def _is_started(self, run_id: str, wanted: Mapping[str, object]) -> bool:
        first = self._store.read(run_id, upto=1)
        if not first:
            return False
        stands = first[0]
        if not isinstance(stands, RunStarted):
            raise RunAlreadyStarted(f"run {run_id!r} is gone, and its id cannot be used again")
        other = [name for name, value in wanted.items() if getattr(stands, name) != value]
        if other:
            raise RunAlreadyStarted(
                f"run {run_id!r} was started at {stands.at:%Y-%m-%d %H:%M:%SZ} with another "
                f"{' and '.join(other)}: use a new run id"
            )
        return True

    def _resolved_before(self, run_id: str, call_id: str | None) -> CallAlreadyResolved | None:
        for event in self._store.read(run_id):
            if isinstance(event, EscalationResolved) and event.call_id == call_id:
                return CallAlreadyResolved(
                    f"call {call_id!r} is resolved already: {event.by} decided {event.resolution!r} "
                    f"at {event.at:%Y-%m-%d %H:%M:%SZ} ({event.reason})"
                )
        return None


def _checked_id(run_id: str | None) -> str:
    run_id = run_id if run_id is not None else new_run_id()
    if not re.fullmatch(r"[A-Za-z0-9._:-]{1,128}", run_id):
        raise InvalidInput(
            f"{run_id!r} is no run id: letters, digits and . _ : - only, 128 characters at most"
        )
    return run_id


def _conversation(messages: Input) -> tuple[UserMessage | AssistantMessage, ...]:
    if isinstance(messages, str):
        _require_storable(messages)  # a message would write it with escapes
        messages = [UserMessage(text=messages)]
    conversation = tuple(messages)
    if any(isinstance(message, UserMessage) and not message.text.strip() for message in conversation):
        raise InvalidInput("a message of the user is empty: providers refuse that")
    return conversation


def _texts(
    tenant: str | None,
    parent: str | None,
    labels: Mapping[str, str] | None,
    conversation: Sequence[UserMessage | AssistantMessage],
) -> list[str]:
    texts = [text for text in (tenant, parent) if text is not None]
    for key, value in (labels or {}).items():
        texts += [key, value]
    return texts + [message.text for message in conversation]


def _require_storable(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"text with a lone surrogate at position {error.start} cannot be stored as UTF-8: "
            "decode it properly where it comes from"
        ) from error


def _require_decider(by: str, reason: str) -> None:
    for name, text in (("by", by), ("reason", reason)):
        if not text.strip():
            raise InvalidInput(f"say {name}: decisions are recorded with a name and a reason")
        _require_storable(text)
