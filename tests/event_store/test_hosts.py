"""A host saves aggregates of its own together with runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from eventsourcing.persistence import IntegrityError

from perdure import AgentRuns, RunNotFound
from perdure.domain.messages import UserMessage
from perdure.infrastructure.event_store.recorder import RunEventsRecorder
from perdure.infrastructure.event_store.run_log import RunLog
from perdure.testing import a_run

from .hosts import Customer, Order, new_run


@pytest.fixture
def log(database_url: str) -> Iterator[RunLog]:
    log = RunLog(database_url)
    yield log
    log.close()


def test_an_aggregate_of_the_host_and_a_run_are_saved_together(log: RunLog) -> None:
    """Both stand in the log after one save, and both are read back by the host's usual means."""
    order = Order("7")
    order.pay()
    customer = Customer("Ann")
    log.save(new_run("run-1"), order, customer)

    stored = log.repository.get(order.id)
    assert (stored.number, stored.is_paid) == ("7", True)
    assert log.repository.get(customer.id).name == "Ann"
    assert log.run("run-1").state.agent == "agent"


@pytest.mark.parametrize("taken", ["run", "order"])
def test_both_or_neither(log: RunLog, taken: str) -> None:
    """If one of them cannot be written, neither is."""
    log.save(Order("7"))
    log.save(new_run("run-1"))
    order = Order("7" if taken == "order" else "8")
    run = new_run("run-1" if taken == "run" else "run-2")

    with pytest.raises(IntegrityError):
        log.save(run, order)

    assert not log.recorder.select_events("run-2")
    assert not log.recorder.select_events("order-8")


def test_a_host_goes_on_with_a_run_that_it_read(database_url: str, log: RunLog) -> None:
    """A run that was read from the log takes a command and is saved with an aggregate, in one commit."""
    log.save(new_run("run-1"))
    run, order = log.run("run-1"), Order("7")
    run.add_input(UserMessage(text="One more thing."), a_run().now)
    log.save(run, order)

    with AgentRuns.connect(database_url) as runs:
        assert len(runs.state("run-1").inbox) == 1
        with pytest.raises(RunNotFound):
            runs.state("order-8")


def test_aggregates_of_the_host_are_no_runs(log: RunLog) -> None:
    """What the host keeps in the log is not listed among the runs."""
    log.save(Order("7"))
    log.save(new_run("run-1"))

    assert isinstance(log.recorder, RunEventsRecorder)
    assert log.recorder.run_ids("", 10) == ["run-1"]
