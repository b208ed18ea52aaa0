"""What a host keeps in the log beside runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from eventsourcing.domain import Aggregate, BaseAggregate, CanInitAggregate, CanMutateAggregate, event

from perdure import AgentRun
from perdure.domain.messages import UserMessage
from perdure.testing import a_run


class Order(BaseAggregate[str]):
    """An aggregate of a host, with a text id."""

    @dataclass(frozen=True)
    class Event(CanMutateAggregate[str]):
        originator_id: str
        originator_version: int
        timestamp: datetime

    @dataclass(frozen=True)
    class Created(Event, CanInitAggregate[str]):
        originator_topic: str
        number: str

    @dataclass(frozen=True)
    class Paid(Event):
        pass

    @event(Created)
    def __init__(self, number: str) -> None:
        self.number = number
        self.is_paid = False

    @staticmethod
    def create_id(number: str) -> str:
        return f"order-{number}"

    @event(Paid)
    def pay(self) -> None:
        self.is_paid = True


class Customer(Aggregate):
    """An aggregate of a host, with a UUID."""

    @event("Registered")
    def __init__(self, name: str) -> None:
        self.name = name


def new_run(run_id: str) -> AgentRun:
    """Return a run that has been started and not been stored."""
    told = a_run(run_id=run_id)
    return AgentRun.start(
        run_id,
        agent=told.state.agent,
        messages=[UserMessage(text="Go.")],
        pins=told.state.pins,
        budget=told.state.budget,
        now=told.now,
    )
