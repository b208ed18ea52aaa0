"""What may pass is tried again; what will not is said at once."""

from __future__ import annotations

import psycopg
import pytest

from perdure import Agent, AgentRuns, LogRefused, LogUnavailable
from perdure.testing import ScriptedModel, says

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
