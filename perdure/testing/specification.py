"""Given these facts, when a run is told this, then these facts follow.

Example:
    ```python
    log = a_run("Refund order 77").claimed().responded(asks("issue_refund", {"order": "77"})).call_started()

    given(log).when(
        lambda run: run.call_in_doubt(log.call_id(1), "timeout", log.now)
    ).then(
        event(ToolCallInDoubt, why="timeout", attempt=1)
    )
    ```
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NoReturn, cast

from perdure.domain.errors import ConfigurationError
from perdure.domain.events import Event
from perdure.domain.run import AgentRun
from perdure.domain.state import RunState
from perdure.domain.tools import Policy, ToolContract

Command = Callable[[AgentRun], Any]
"""What a run is told. It may return a run of its own (`AgentRun.start(...)`): that one is then looked at."""


class ExpectedEvent:
    """An event of a type, of which only the named fields count; see `event`."""

    def __init__(self, event_type: type[Event], fields: Mapping[str, object]) -> None:
        unknown = fields.keys() - event_type.model_fields.keys()
        if unknown:
            raise ConfigurationError(f"{event_type.__name__} has no field {', '.join(sorted(unknown))}")
        self._type = event_type
        self._fields = fields

    def faults_of(self, actual: Event) -> list[str]:
        """Say, a line each, what is not as expected."""
        if type(actual) is not self._type:
            return [f"expected {self}, was {_shown(actual)}"]
        return [
            f"{name}: expected {_expectation(wanted)}, was {getattr(actual, name)!r}"
            for name, wanted in self._fields.items()
            if not _matches(wanted, getattr(actual, name))
        ]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={_expectation(wanted)}" for name, wanted in self._fields.items())
        return f"{self._type.__name__}({fields})"


Expected = Event | ExpectedEvent | type[Event]
"""An event exactly as it is, one of which some fields count (`event(...)`), or a type alone."""


def event(event_type: type[Event], /, **fields: object) -> ExpectedEvent:
    """Expect an event of which only the named fields count.

    Args:
        event_type: The event's type; a subclass is another type.
        fields: What they must equal. A compiled regular expression is searched for in the field's text.

    Raises:
        ConfigurationError: When the event has no such field: a slip would otherwise expect nothing.
    """
    return ExpectedEvent(event_type, fields)


def given(*facts: Event | Iterable[Event], run_id: str | None = None) -> Given:
    """Begin a specification with the log of a run: events, logs (`a_run(...)`), or nothing for a new run.

    Args:
        facts: The log, in order.
        run_id: The run; by default that of the facts.
    """
    events: list[Event] = []
    for fact in facts:
        events.extend([fact] if isinstance(fact, Event) else fact)
    return Given(run_id or (events[0].run_id if events else "run-1"), events)


class Given:
    """A run as its log tells it."""

    def __init__(self, run_id: str, events: Sequence[Event]) -> None:
        self._run_id = run_id
        self._events = tuple(events)

    def when(self, command: Command) -> Outcome:
        """Rebuild the run from the facts and tell it something."""
        run = AgentRun.from_events(self._run_id, self._events)
        try:
            returned = command(run)
        except Exception as error:  # noqa: BLE001 - it is judged by `then...`
            return Outcome(self._events, run, error=error)
        told = returned if isinstance(returned, AgentRun) else run
        return Outcome(self._events, told, returned=returned)


class Outcome:
    """What came of a command. Every `then...` returns this outcome, so that they can be chained.

    Attributes:
        run: The run after the command; its new events are pending.
        returned: What the command returned.
        error: What it raised.
    """

    def __init__(
        self,
        before: Sequence[Event],
        run: AgentRun,
        *,
        returned: object = None,
        error: Exception | None = None,
    ) -> None:
        self._before = tuple(before)
        self.run = run
        self.returned = returned
        self.error = error

    @property
    def events(self) -> Sequence[Event]:
        """The events that the command brought."""
        return self.run.pending

    @property
    def state(self) -> RunState:
        """The state after them."""
        return self.run.state

    def then(self, *expected: Expected) -> Outcome:
        """Hold that exactly these events followed, in this order.

        Raises:
            AssertionError: When they did not; it says which event and which field.
        """
        __tracebackhide__ = True
        self._require_no_error()
        lines: list[str] = []
        for number, (wanted, actual) in enumerate(zip_longest(expected, self.events), start=1):
            faults = _faults(wanted, actual)
            head = _shown(actual) if actual is not None else _wanted(wanted)
            lines.append(f"  {number}. {head}" + ("" if faults else "  (as expected)"))
            lines += [f"       {fault}" for fault in faults]
        if any(line.startswith("       ") for line in lines):
            _fail(f"Expected events: {len(expected)}. Events that came: {len(self.events)}.", *lines)
        return self

    def then_nothing(self) -> Outcome:
        """Hold that the command was accepted and nothing followed from it.

        Raises:
            AssertionError: When an event followed.
        """
        __tracebackhide__ = True
        return self.then()

    def then_raises(self, error_type: type[Exception], *, match: str | None = None) -> Outcome:
        """Hold that the command was refused with this error, and that no event came of it all the same.

        Args:
            error_type: The error's type, or a base of it.
            match: A regular expression that is searched for in its message.

        Raises:
            AssertionError: When it was not.
        """
        __tracebackhide__ = True
        if self.error is None:
            _fail(f"{error_type.__name__} was expected, and nothing was raised.", *self._came())
        if not isinstance(self.error, error_type):
            _fail(f"{error_type.__name__} was expected, {self.error!r} was raised.", cause=self.error)
        if match is not None and not re.search(match, str(self.error)):
            _fail(f"The message does not match {match!r}:", f"  {self.error}", cause=self.error)
        if self.events:
            _fail("The command was refused, but events came of it:", *self._came())
        return self

    def then_returns(self, expected: object) -> Outcome:
        """Hold that the command returned this value, or a value of this type.

        Raises:
            AssertionError: When it did not.
        """
        __tracebackhide__ = True
        self._require_no_error()
        fits = (
            isinstance(self.returned, expected) if isinstance(expected, type) else self.returned == expected
        )
        if not fits:
            _fail(f"{_expectation(expected)} was expected, {self.returned!r} was returned.", *self._came())
        return self

    def when(self, command: Command) -> Outcome:
        """Go on: take what came of this command as given, too, and tell the run something more."""
        __tracebackhide__ = True
        self._require_no_error()
        return Given(self.run.id, (*self._before, *self.events)).when(command)

    def _require_no_error(self) -> None:
        __tracebackhide__ = True
        if self.error is not None:
            _fail(f"The command raised {self.error!r}", cause=self.error)

    def _came(self) -> list[str]:
        return [f"  {number}. {_shown(actual)}" for number, actual in enumerate(self.events, start=1)]


class StubToolbox:
    """Tools that exist by name and contract only; see `toolbox`."""

    def __init__(self, contracts: Mapping[str, ToolContract], refusals: Mapping[str, str]) -> None:
        self._contracts = contracts
        self._refusals = refusals

    def contract(self, name: str) -> ToolContract | None:
        """Return the contract of a tool, or None when there is no such tool."""
        return self._contracts.get(name)

    def refusal(self, name: str, arguments: str) -> str | None:
        """Say why a call must not start: there is no such tool, or `refusing` said so."""
        del arguments
        return self._refusals.get(name) or (
            None if name in self._contracts else f"There is no tool {name!r}."
        )

    def refusing(self, name: str, why: str) -> StubToolbox:
        """Return a toolbox that refuses every call of the tool."""
        return StubToolbox(self._contracts, {**self._refusals, name: why})


def toolbox(**contracts: ToolContract | Policy) -> StubToolbox:
    """Return a `Toolbox` for `AgentRun.advance`: tool name -> its contract, or its policy alone."""
    full = {
        name: ToolContract(policy=contract) if isinstance(contract, Policy) else contract
        for name, contract in contracts.items()
    }
    return StubToolbox(full, {})


def _faults(wanted: Expected | None, actual: Event | None) -> list[str]:
    if wanted is None:
        return ["not expected"]
    if actual is None:
        return ["expected, and did not come"]
    if isinstance(wanted, Event):
        fields = {name: getattr(wanted, name) for name in type(wanted).model_fields}
        return ExpectedEvent(type(wanted), fields).faults_of(actual)
    return (ExpectedEvent(wanted, {}) if isinstance(wanted, type) else wanted).faults_of(actual)


def _matches(wanted: object, actual: object) -> bool:
    if isinstance(wanted, re.Pattern) and isinstance(actual, str):
        return cast("re.Pattern[str]", wanted).search(actual) is not None
    return bool(wanted == actual)


def _expectation(wanted: object) -> str:
    if isinstance(wanted, re.Pattern):
        return f"text with {cast('re.Pattern[str]', wanted).pattern!r}"
    return wanted.__name__ if isinstance(wanted, type) else repr(wanted)


def _wanted(wanted: Expected | None) -> str:
    return _shown(wanted) if isinstance(wanted, Event) else _expectation(wanted)


def _shown(actual: Event) -> str:
    fields = ", ".join(
        f"{name}={getattr(actual, name)!r}"
        for name in type(actual).model_fields
        if name not in Event.model_fields and getattr(actual, name) is not None
    )
    text = f"{type(actual).__name__}({fields})"
    return text if len(text) <= 300 else text[:297] + "..."


def _fail(*lines: str, cause: Exception | None = None) -> NoReturn:
    __tracebackhide__ = True
    raise AssertionError("\n".join(lines)) from cause
