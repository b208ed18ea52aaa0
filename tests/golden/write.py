"""Writes what the tests here compare with: `python -m tests.golden.write VERSION`, once for each release.

A golden log that has been released is never written again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pydantic import JsonValue

from perdure.domain.events import EVENTS
from perdure.infrastructure.event_store.run_log import RunLog
from perdure.infrastructure.event_store.topics import topic_of
from tests.golden.every_event import every_event

HERE = Path(__file__).parent


def rows() -> list[dict[str, JsonValue]]:
    """Return the stored rows of every event, as JSON."""
    return [
        {
            "run_id": str(stored.originator_id),
            "version": stored.originator_version,
            "topic": stored.topic,
            "state": stored.state.decode(),
        }
        for stored in RunLog().to_stored(every_event())
    ]


def forms() -> dict[str, JsonValue]:
    """Return what the stored form of each event type may be: its JSON Schema, by topic."""
    return {topic_of(kind): without_prose(kind.model_json_schema()) for kind in EVENTS}


def without_prose(schema: JsonValue, *, named: bool = False) -> JsonValue:
    """Return a schema without titles and descriptions, which change nothing."""
    if isinstance(schema, dict):
        return {
            key: without_prose(part, named=key in ("properties", "$defs") and not named)
            for key, part in schema.items()
            if named or key not in ("title", "description")
        }
    if isinstance(schema, list):
        return [without_prose(part) for part in schema]
    return schema


def main(version: str) -> None:
    """Write the golden log of a version, and the snapshot of the present forms."""
    log = HERE / f"log-{version}.jsonl"
    if log.exists():
        sys.exit(f"{log.name} is there: a released log is never written again")
    log.write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in rows()))
    (HERE / "forms.json").write_text(json.dumps(forms(), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
