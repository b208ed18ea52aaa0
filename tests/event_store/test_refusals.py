"""What may pass is tried again; what will not is said at once."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from psycopg.sql import SQL

from perdure import Agent, AgentRuns, LogRefused, LogUnavailable
from perdure.infrastructure.event_store.run_log import RunLog
from perdure.infrastructure.event_store.store import EventSourcedStore
from perdure.infrastructure.postgres.connecting import PatientConnection
from perdure.infrastructure.postgres.database import Database
from perdure.testing import ScriptedModel, says
from perdure.testing.logs import a_run

FULL_DISK = """
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE SQLSTATE '53100'; END $$;
CREATE TRIGGER full_disk BEFORE INSERT ON perdure.perdure_events EXECUTE FUNCTION full_disk()
"""


def agents() -> list[Agent]:
    return [Agent("clerk", ScriptedModel([says("Done.")]), "v1")]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE perdure.perdure_events RENAME TO elsewhere",
        "DROP FUNCTION perdure.perdure_events_append(text[], bigint[], text[], bytea[])",
    ],
    ids=["no table", "no function"],
)
@pytest.mark.parametrize("by", ["start", "advance"])
def test_what_does_not_pass_by_itself_is_not_waited_for(database_url: str, statement: str, by: str) -> None:
    """A person has to mend it: that is said at once, whoever asks."""
    with AgentRuns.connect(database_url, agents=agents()) as runs:
        run_id = runs.start("clerk", "x")
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(statement)
        with pytest.raises(LogRefused):
            runs.advance(run_id) if by == "advance" else runs.start("clerk", "x")


def test_a_full_disk_may_be_emptied(database_url: str) -> None:
    """The same append may succeed later."""
    with AgentRuns.connect(database_url, agents=agents()) as runs:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(FULL_DISK)
        with pytest.raises(LogUnavailable):
            runs.start("clerk", "x")


def test_closed_runs_say_so(database_url: str) -> None:
    """Whoever goes on using them is told at once, and not kept waiting for a database that is there."""
    runs = AgentRuns.connect(database_url, agents=agents())
    run_id = runs.start("clerk", "x")
    runs.close()
    for act in (lambda: runs.advance(run_id), lambda: runs.cancel(run_id, by="ann", reason="x")):
        with pytest.raises(LogRefused, match="closed"):
            act()


def test_an_answer_that_does_not_come_is_not_waited_for(database_url: str) -> None:
    """Something on the way may take what is sent, acknowledge it and lead nowhere."""
    database = Database(database_url, timeout=0.2)
    with pytest.raises(LogUnavailable, match="no answer within"):
        database.rows(SQL("SELECT pg_sleep(600)").format())
    assert database.rows(SQL("SELECT 1 AS one").format()) == [{"one": 1}]
    database.close()


def test_an_append_without_an_answer_is_offered_again(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one was written after all, later: offered again it is known as ours, and stands once."""
    monkeypatch.setattr(PatientConnection, "patience", 0.3)
    log = RunLog(database_url)
    store = EventSourcedStore(log)
    events = list(a_run().claimed())

    async def write() -> None:
        async with store.writing() as writer:
            with psycopg.connect(database_url) as other:
                other.execute("LOCK TABLE perdure.perdure_events IN EXCLUSIVE MODE")
                with pytest.raises(LogUnavailable, match="no answer"):
                    await writer.append(events)
            await writer.append(events)

    asyncio.run(write())
    assert list(store.read("run-1")) == events
    store.close()
    log.close()
