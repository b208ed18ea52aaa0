"""Runs as they may go: a random world answers, crashes and speaks, and the run decides."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from hypothesis import strategies as st

from perdure.domain.budget import Budget
from perdure.domain.calls import CallStatus
from perdure.domain.content import InlineContent
from perdure.domain.errors import PerdureError
from perdure.domain.events import Event
from perdure.domain.messages import UserMessage
from perdure.domain.moves import Act, AskModel, Limits, Move, Rest
from perdure.domain.run import AgentRun
from perdure.domain.state import RunStatus
from perdure.domain.tools import Policy, Resolution, ToolContract, Verdict
from perdure.testing import a_run, asks, says, together, toolbox

CONTRACTS = {
    "read": ToolContract(policy=Policy.RERUN, timeout=5, max_attempts=3),
    "charge": ToolContract(
        policy=Policy.RERUN_WITH_IDEMPOTENCY_KEY, timeout=5, key_ttl=timedelta(seconds=40), max_attempts=3
    ),
    "send": ToolContract(
        policy=Policy.VERIFY_THEN_DECIDE, timeout=5, settle=10, max_attempts=2, max_verifications=2
    ),
    "refund": ToolContract(timeout=5),
}
TOOLS = toolbox(**CONTRACTS)
LIMITS = Limits(parallel_calls=2, barren_claims=3)
DONE = InlineContent(text="done")
provider_ids = st.sampled_from([None, "", "a", "b"])
names = st.sampled_from([*list(CONTRACTS) * 3, "nonsense"])
requests = st.lists(st.tuples(names, provider_ids), min_size=1, max_size=4)
verdicts = st.sampled_from([Verdict.landed("x"), Verdict.not_landed(), Verdict.unknown()])
WORDS = [Resolution.succeeded("x"), Resolution.failed("no"), Resolution.rerun(), Resolution.rerun()]
resolutions = st.sampled_from([*WORDS * 2, Resolution.resume(), Resolution.abandon()])
budgets = st.sampled_from(
    [Budget(), Budget(steps=2), Budget(tokens=30), Budget(wall_clock=timedelta(seconds=60))]
)
OFTEN, SELDOM = 12, 1
WHILE_RUNNING = (
    ["answer"] * OFTEN * 2
    + ["time"] * OFTEN
    + ["crash"] * OFTEN
    + ["input", "more", "decide", "cancel"] * SELDOM
)
WHILE_ESCALATED = ["decide"] * OFTEN + ["more"] * OFTEN + ["time", "input", "cancel", "crash"] * SELDOM
WHEN_FINISHED = ["decide", "input", "more", "cancel", "crash", "answer", "time"]


class World:
    """All that a run meets. Every command that it refuses must leave it as it was."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self.run = a_run(budget=draw(budgets)).run
        self.now = a_run().now
        self.log: list[Event] = list(a_run(budget=self.run.state.budget))
        self.move: Move = Rest()
        self.tell(lambda run: run.claim("w", 1, "new", self.now))

    def tell(self, command: Callable[[AgentRun], object]) -> object:
        """Tell the run something and store what follows."""
        try:
            returned = command(self.run)
        except PerdureError:
            assert not self.run.pending, "a refused command left events"
            return None
        self.log += self.run.collect_events()
        return returned

    def happens(self) -> None:
        """Let one thing happen."""
        state = self.run.state
        usual = WHILE_ESCALATED if state.status is RunStatus.ESCALATED else WHILE_RUNNING
        what = self._draw(st.sampled_from(WHEN_FINISHED if state.is_finished else usual))
        {
            "time": self.passes,
            "answer": self.answers,
            "crash": self.crashes,
            "input": lambda: self.tell(lambda run: run.add_input(UserMessage(text="more"), self.now)),
            "more": self.allows_more,
            "cancel": self.cancels,
            "decide": self.decides,
        }[what]()
        if self._draw(st.integers(0, 5)):
            self.goes_on()

    def goes_on(self) -> None:
        """The owner looks at the run."""
        move = self.tell(lambda run: run.advance(self.now, TOOLS, LIMITS))
        assert isinstance(move, Rest | AskModel | Act)
        self.move = move

    def passes(self) -> None:
        """Time passes."""
        self.now += timedelta(seconds=self._draw(st.sampled_from([1, 5, 15, 50])))

    def answers(self) -> None:
        """The model, a tool or `verify` comes back, if one of them was asked."""
        state = self.run.state
        under_way = [
            each.call_id
            for each in state.calls.values()
            if each.status is CallStatus.STARTED and each.epoch == state.epoch
        ]
        if isinstance(self.move, Act) and self.move.verify:
            asked, self.move = self.move.verify[0], Act()
            found = self._draw(verdicts)
            self.tell(lambda run: run.call_verified(asked, found, self.now))
        elif isinstance(self.move, AskModel):
            self.model_answers()
            self.move = Act()
        elif under_way and not state.is_resting:
            self.tool_ends(self._draw(st.sampled_from(under_way)))

    def model_answers(self) -> None:
        """The model answers, or fails; it has seen all, or not the last input."""
        if self._draw(st.integers(0, 5)) == 1:
            retry_at = self._draw(st.sampled_from([None, self.now + timedelta(seconds=1)]))
            return self.tell_failure(retry_at)
        seen = self.run.version - self._draw(st.integers(0, min(1, self.run.version - 1)))
        wanted = self._draw(requests) if self._draw(st.integers(0, 4)) else []
        reply = together(says("so"), *(asks(name, id=theirs) for name, theirs in wanted))
        self.tell(lambda run: run.respond(reply, seen=seen, now=self.now))
        return None

    def tell_failure(self, retry_at: object) -> None:
        """The model call brought nothing."""
        self.tell(lambda run: run.model_failed("transient", "x", retry_at=retry_at, now=self.now))  # type: ignore[arg-type]

    def tool_ends(self, call_id: str) -> None:
        """A tool comes to an end that is seen, or to one that is not."""
        end = self._draw(st.sampled_from(["ok", "failed", "timeout", "exception", "lost_connection"]))
        if end == "ok":
            self.tell(lambda run: run.call_succeeded(call_id, DONE, self.now))
        elif end == "failed":
            self.tell(lambda run: run.call_failed(call_id, "no", self.now))
        else:
            self.tell(lambda run: run.call_in_doubt(call_id, end, self.now))  # type: ignore[arg-type]

    def crashes(self) -> None:
        """The owner is gone, one way or the other; somebody else takes the run."""
        left = self._draw(st.sampled_from(["expired", "released"]))
        self.move = Rest()
        self.tell(lambda run: run.claim("w", run.state.epoch + 1, left, self.now))  # type: ignore[arg-type]

    def allows_more(self) -> None:
        """A person allows the run more."""
        limits = self.run.state.budget
        more = Budget(
            steps=limits.steps and 2,
            tokens=limits.tokens and 30,
            wall_clock=limits.wall_clock and timedelta(seconds=60),
        )
        self.tell(lambda run: run.extend_budget(more, self.now, by="ann", reason="x"))
        self.is_taken()

    def cancels(self) -> None:
        """A person asks the run to stop."""
        owned = self._draw(st.booleans())
        self.tell(lambda run: run.request_cancel(self.now, by="ann", reason="x", owned=owned))

    def decides(self) -> None:
        """A person decides about a call, or about the run."""
        calls = [None, *(each.call_id for each in self.run.state.in_doubt), *self.run.state.calls]
        about = self._draw(st.sampled_from(calls))
        resolution = self._draw(resolutions if about is not None else st.just(Resolution.resume()))
        self.tell(lambda run: run.resolve(about, resolution, self.now, by="ann", reason="x"))
        self.is_taken()

    def is_taken(self) -> None:
        """A run that rested and may go on is claimed."""
        if self.move == Rest() and not self.run.state.is_resting:
            self.tell(lambda run: run.claim("w", run.state.epoch + 1, "released", self.now))


@st.composite
def random_runs(draw: st.DrawFn) -> list[Event]:
    """Return the log of a run in a random world."""
    world = World(draw)
    for _ in range(draw(st.integers(5, 40))):
        world.happens()
    return world.log
