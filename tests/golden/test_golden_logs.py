"""Logs of every released version are read for ever, and a stored form never changes by accident."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pydantic
import pytest
from eventsourcing.persistence import StoredEvent

from perdure.domain.events import EVENTS, Event
from perdure.domain.evolution import fold
from perdure.domain.upcasts import UPCASTS
from perdure.infrastructure.event_store.run_log import RunLog
from perdure.infrastructure.event_store.topics import topic_of
from tests.golden import write
from tests.golden.every_event import RUN, every_event

LOGS = sorted(write.HERE.glob("log-*.jsonl"))
HOW_TO_CHANGE = (
    "the stored form of {topic} changed. If old readers or old logs cannot take the change, raise VERSION "
    "and add an upcaster in perdure/domain/upcasts.py. In any case write a golden log for the version that "
    "is to be released: python -m tests.golden.write VERSION"
)


def stored(log: Path) -> list[StoredEvent]:
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    return [StoredEvent(row["run_id"], row["version"], row["topic"], row["state"].encode()) for row in rows]


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_a_log_of_a_released_version_is_read(log: Path) -> None:
    """Nothing of an old log is lost or changed when it is read: stored again, it says the same."""
    rows = stored(log)
    read = RunLog().to_events(rows)

    for row, event, again in zip(rows, read, RunLog().to_stored(read), strict=True):
        assert (event.run_id, event.seq) == (row.originator_id, row.originator_version)
        if row.topic == again.topic:
            assert json.loads(again.state) == json.loads(row.state)
        else:
            assert (event.TOPIC, row.topic) in {
                (topic, topic if version == 1 else f"{topic}.{version}") for topic, version in UPCASTS
            }


def test_the_newest_golden_log_is_read_as_what_was_written() -> None:
    """Each event that is read equals the one that was stored, field by field."""
    assert RunLog().to_events(stored(LOGS[-1])) == list(every_event())


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_a_log_of_a_released_version_folds_and_renders(log: Path) -> None:
    """At every version the old log has a state, and a conversation."""
    read = RunLog().to_events(stored(log))

    for end in range(1, len(read) + 1):
        state = fold(RUN, read[:end])
        assert state.version == end
        assert state.messages()


def test_there_is_a_log_of_the_first_version() -> None:
    """The first golden log is there: a test that reads none would hold nothing."""
    assert "log-0.1.0" in [log.stem for log in LOGS]


def test_the_golden_log_holds_every_event_with_every_field() -> None:
    """No event type is missing, and each field of each type, nested ones included, is in use somewhere."""
    assert {type(event) for event in every_event()} == set(EVENTS)
    missing = {
        f"{kind.__name__}.{name}"
        for kind in EVENTS
        for name in kind.model_fields
        if not any(getattr(event, name) is not None for event in every_event() if type(event) is kind)
    }
    assert missing == set()
    assert _unused_values(every_event()) == set()


def test_the_newest_golden_log_is_what_is_written_now() -> None:
    """The present code writes, byte for byte, what the newest golden log holds."""
    newest = [json.loads(line) for line in LOGS[-1].read_text().splitlines()]

    for now, golden in zip(write.rows(), newest, strict=True):
        assert now == golden, HOW_TO_CHANGE.format(topic=golden["topic"])


@pytest.mark.skipif(
    pydantic.VERSION.split(".")[:2] < ["2", "12"], reason="the JSON Schemas of pydantic differ before 2.12"
)
@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.TOPIC)
def test_a_stored_form_changes_only_with_its_version(kind: type[Event]) -> None:
    """What may stand in an event is what the committed snapshot says, under the topic with its version."""
    snapshot = json.loads((write.HERE / "forms.json").read_text())
    topic = topic_of(kind)

    assert snapshot.get(topic) == write.forms()[topic], HOW_TO_CHANGE.format(topic=topic)


def test_no_topic_disappears() -> None:
    """An event type of the snapshot that is gone would leave logs that nobody can read."""
    snapshot = json.loads((write.HERE / "forms.json").read_text())

    assert snapshot.keys() == {topic_of(kind) for kind in EVENTS}


def test_every_older_version_has_its_upcaster() -> None:
    """From each version below the present one there is a step to the next, and none for what never was."""
    steps = {(kind.TOPIC, version) for kind in EVENTS for version in range(1, kind.VERSION)}

    assert set(UPCASTS) == steps


def test_a_change_of_form_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check fails when a field is added, when one changes its type, and when one goes."""
    snapshot = json.loads((write.HERE / "forms.json").read_text())
    added = type("RunCancelled", (Event,), {"__annotations__": {"by": str, "reason": str, "x": int}})

    assert write.without_prose(added.model_json_schema()) != snapshot["perdure.run-cancelled"]


def _unused_values(events: Sequence[Event]) -> set[str]:
    """Return fields of nested values that are None wherever they occur."""
    used: set[str] = set()
    seen: set[str] = set()

    def look(value: object) -> None:
        if isinstance(value, pydantic.BaseModel):
            for name in type(value).model_fields:
                field = f"{type(value).__name__}.{name}"
                seen.add(field)
                inner = getattr(value, name)
                if inner is not None:
                    used.add(field)
                look(inner)
        elif isinstance(value, list | tuple):
            for item in value:
                look(item)
        elif isinstance(value, dict):
            for item in value.values():
                look(item)

    for event in events:
        look(event)
    return seen - used
