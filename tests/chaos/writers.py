"""Who wrote which event, who holds runs, and who is still there, by what the server itself knows."""

from __future__ import annotations

import psycopg
from psycopg.sql import SQL, Identifier

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


def connected_workers(conninfo: str) -> list[str]:
    """Connections of workers that the server still has, each with its last statement."""
    with psycopg.connect(conninfo) as connection:
        return [row[0] for row in connection.execute(_OTHERS)]
