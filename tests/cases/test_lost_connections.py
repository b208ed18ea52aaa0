"""The append after a tool ran fails, or goes through and its answer is lost: the call is recorded, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import psycopg
import pytest

from perdure import AgentRuns, Budget, LogUnavailable, RunState, RunStatus
from perdure.application.ports.boundaries import Boundary
from perdure.domain.events import Event
from perdure.infrastructure.postgres.embedded import EmbeddedPostgres
from tests.support.cluster import Outcome
from tests.support.postgres import clean_up, new_directory
from tests.support.promises import violations
from tests.support.proxy import Cut, Proxy
from tests.support.restarts import stop_at_once
from tests.support.scenarios import Call, Scenario
from tests.support.waiting import eventually
from tests.support.world import World

APPENDS = [
    "RunClaimed",
    "ModelResponded,ToolCallStarted,ToolCallStarted",
    "ToolCallSucceeded,ToolCallSucceeded",
    "ModelResponded,RunCompleted",
]
SCENARIO = Scenario([[Call("pay", 1), Call("pay", 2)]], budget=Budget(steps=9))


class At:
    """Does something the first time that a run comes to a boundary."""

    def __init__(self, boundary: Boundary, detail: str, do: Callable[[], object]) -> None:
        self._where = boundary, detail
        self._do = do
        self.is_done = False

    def reached(self, boundary: Boundary, run_id: str, detail: str) -> None:
        """Act, once."""
        if not self.is_done and (boundary, detail) == self._where:
            self.is_done = True
            self._do()


def driven(url: str, boundaries: At, *, look: str | None = None) -> Outcome:
    """Drive the scenario on one address, and look at what became of it on another."""
    world = World()
    agent, asked = SCENARIO.agent(SCENARIO.tools(world))
    with AgentRuns.connect(url, agents=[agent], boundaries=boundaries) as runs:
        in_memory = runs.advance(runs.start("actor", "Act.", run_id="run-1"))
    with AgentRuns.connect(look or url) as office:
        events, stored = office.events("run-1"), office.state("run-1")
    assert boundaries.is_done
    assert in_memory == stored
    requests = [(asked.name, request) for request in asked.requests]
    return Outcome(SCENARIO, world, events, stored, requests)


def assert_nothing_was_lost_or_doubled(outcome: Outcome) -> None:
    assert violations(outcome) == []
    assert outcome.state.status is RunStatus.COMPLETED
    assert [type(event).__name__ for event in outcome.events] == [
        "RunStarted",
        *(name for append in APPENDS for name in append.split(",")),
    ]
    assert sorted(outcome.world.times().values()) == [1, 1]


@pytest.mark.parametrize("append", APPENDS)
@pytest.mark.parametrize("cut", Cut, ids=lambda cut: cut.name.lower())
def test_a_connection_that_breaks_at_an_append_loses_and_doubles_nothing(
    cut: Cut, append: str, database_url: str
) -> None:
    """Cut before the insert, between insert and commit, or behind the commit: each event is there once."""
    with Proxy(database_url) as proxy:
        boundaries = At(Boundary.BEFORE_APPEND, append, lambda: proxy.cut_next(cut))
        outcome = driven(proxy.conninfo, boundaries, look=database_url)

        assert proxy.cuts == [cut]
    assert_nothing_was_lost_or_doubled(outcome)


@pytest.mark.parametrize("append", APPENDS)
def test_backends_killed_right_before_an_append(append: str, database_url: str) -> None:
    """Connections that the server has closed are replaced, and the append goes through."""

    def kill_all() -> None:
        with psycopg.connect(database_url, autocommit=True) as connection:
            killed = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            ).fetchall()
            assert killed

    outcome = driven(database_url, At(Boundary.BEFORE_APPEND, append, kill_all))

    assert_nothing_was_lost_or_doubled(outcome)


def test_a_disk_that_is_full_for_a_while(database_url: str) -> None:
    """The server refuses the result with "disk full" three times; it is recorded when there is room again."""
    with AgentRuns.connect(database_url):
        pass

    def fill_the_disk() -> None:
        with psycopg.connect(database_url, autocommit=True) as connection:
            # A sequence counts refused inserts as well: it is not part of their transactions.
            connection.execute("""
                CREATE SEQUENCE refused;
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    IF nextval('public.refused') <= 3 THEN
                        RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full';
                    END IF;
                    RETURN NULL;
                END $$;
                CREATE TRIGGER full_disk AFTER INSERT ON perdure.perdure_events
                FOR EACH STATEMENT EXECUTE FUNCTION public.refuse();
            """)

    outcome = driven(database_url, At(Boundary.BEFORE_APPEND, APPENDS[2], fill_the_disk))

    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT last_value >= 4 FROM refused").fetchone() == (True,)
    assert_nothing_was_lost_or_doubled(outcome)


def test_a_server_that_restarts_between_effect_and_result() -> None:
    """The server is stopped as by a crash while the results are in hand, and started again: they are kept."""
    directory = new_directory()
    try:
        with EmbeddedPostgres.start(directory) as server:

            def restart() -> None:
                stop_at_once(server)
                EmbeddedPostgres.start(directory).close()

            outcome = driven(server.conninfo, At(Boundary.BEFORE_APPEND, APPENDS[2], restart))
    finally:
        clean_up(directory)

    assert_nothing_was_lost_or_doubled(outcome)


def test_a_person_whose_decision_could_not_be_stored_is_told(database_url: str) -> None:
    """People wait for no server: they get an error that says what happened, and may say it again."""
    with AgentRuns.connect(database_url, agents=[SCENARIO.agent(SCENARIO.tools(World()))[0]]) as runs:
        runs.start("actor", "Act.", run_id="run-1")
    with Proxy(database_url) as proxy, AgentRuns.connect(proxy.conninfo) as office:
        office.log.recorder.datastore.pool.timeout = 0.5
        proxy.go_down()
        with pytest.raises(LogUnavailable, match="cannot be reached"):
            office.add_input("run-1", "Hello?")
        proxy.come_up()
        state: RunState = eventually(lambda: said(office))

    assert len(state.inbox) == 1


def said(office: AgentRuns) -> RunState:
    """Say it again, as often as it is refused."""
    try:
        return office.add_input("run-1", "Hello?")
    except LogUnavailable as error:
        raise AssertionError(str(error)) from error


def test_starting_twice_because_the_answer_was_lost_is_one_run(database_url: str) -> None:
    """A caller that did not hear whether its run was started starts it again, and there is one."""
    agent, _ = SCENARIO.agent(SCENARIO.tools(World()))
    with Proxy(database_url) as proxy, AgentRuns.connect(proxy.conninfo, agents=[agent]) as runs:
        proxy.cut_next(Cut.AFTER_COMMIT)
        runs.start("actor", "Act.", run_id="run-1")
        runs.start("actor", "Act.", run_id="run-1")
        events: Sequence[Event] = runs.events("run-1")

        assert proxy.cuts == [Cut.AFTER_COMMIT]
    assert len(events) == 1
