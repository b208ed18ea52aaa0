"""Who wrote which event, who holds runs, and who is still there, by what the server itself knows."""

from __future__ import annotations

from collections.abc import Collection

import psycopg
from psycopg.sql import SQL, Identifier

from perdure.domain.events import Event

OFFICE = "office"
"""How people, who start runs and decide, introduce themselves to the server."""
_COLUMN = """
ALTER TABLE {}.perdure_events
  ADD COLUMN IF NOT EXISTS written_by text DEFAULT current_setting('application_name')
"""
_WRITERS = "SELECT originator_id, originator_version, written_by FROM {}.perdure_events"
_OWNERS = """
SELECT DISTINCT split_part(owner, ':', 2)::int FROM {}.leases
 WHERE owner IS NOT NULL AND expires_at > clock_timestamp()
"""
_WAITING = """
SELECT run_id, topic
  FROM unnest(%s::text[]) AS run_id
 CROSS JOIN LATERAL (
        SELECT topic FROM {}.perdure_events WHERE originator_id = run_id
         ORDER BY originator_version DESC LIMIT 1) AS last_event
 WHERE topic = ANY (%s)
"""
_OTHERS = """
SELECT application_name || ': ' || query FROM pg_stat_activity
 WHERE datname = current_database() AND application_name LIKE 'worker %'
"""


def note_writers(conninfo: str, schema: str) -> None:
    """Let the server note from now on who writes; nothing that a worker does or forgets can change it."""
    with psycopg.connect(conninfo) as connection:
        connection.execute(SQL(_COLUMN).format(Identifier(schema)))


def writers(conninfo: str, schema: str) -> dict[tuple[str, int], str]:
    """Who wrote each event, by run id and version: the office, or `worker <pid>`."""
    with psycopg.connect(conninfo) as connection:
        rows = connection.execute(SQL(_WRITERS).format(Identifier(schema)))
        return {(run_id, version): writer for run_id, version, writer in rows}


def owners(conninfo: str, schema: str) -> list[int]:
    """Processes that hold runs now."""
    with psycopg.connect(conninfo) as connection:
        return [row[0] for row in connection.execute(SQL(_OWNERS).format(Identifier(schema)))]


def last_events(
    conninfo: str, schema: str, run_ids: Collection[str], kinds: Collection[type[Event]]
) -> dict[str, type[Event]]:
    """The last event of each run, of those where it is of one of these kinds."""
    by_topic = {kind.TOPIC: kind for kind in kinds}
    with psycopg.connect(conninfo) as connection:
        rows = connection.execute(SQL(_WAITING).format(Identifier(schema)), (list(run_ids), list(by_topic)))
        return {run_id: by_topic[topic] for run_id, topic in rows}


def connected_workers(conninfo: str) -> list[str]:
    """Connections of workers that the server still has, each with its last statement."""
    with psycopg.connect(conninfo) as connection:
        return [row[0] for row in connection.execute(_OTHERS)]
