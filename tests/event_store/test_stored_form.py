"""What stands in the table: JSON that any language can read, and what is refused when it is read back."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest
from eventsourcing.persistence import StoredEvent

from perdure import NewerLog, UnreadableEvent
from perdure.domain.events import EVENTS
from perdure.infrastructure.event_store.run_log import RunLog
from perdure.infrastructure.event_store.store import EventSourcedStore
from perdure.testing import RunLog as ToldLog
from perdure.testing import a_run, asks

RUN = "run-1"


def told() -> ToldLog:
    return (
        a_run("Grüße \U0001f600 \x00", run_id=RUN).claimed().responded(asks("pay", {"n": 1})).call_started()
    )


def stored(log: RunLog, store: EventSourcedStore) -> list[StoredEvent]:
    store.append(list(told()))
    return list(log.recorder.select_events(RUN))


def test_every_row_is_json_in_utf_8(log: RunLog, store: EventSourcedStore) -> None:
    """Topics are words of ours, states are JSON objects; nothing is pickled, nothing names a class."""
    for event in stored(log, store):
        assert event.topic.startswith("perdure.")
        assert ":" not in event.topic
        form = json.loads(event.state.decode("utf-8"))
        assert isinstance(form, dict)
        assert not {"run_id", "seq"} & form.keys()
        assert None not in form.values()
        with pytest.raises(pickle.UnpicklingError):
            pickle.loads(event.state)  # noqa: S301 - that it is no pickle is what is tested


def test_what_is_read_is_what_was_written(store: EventSourcedStore) -> None:
    """Events come back equal, whatever characters are in them."""
    store.append(list(told()))

    assert list(store.read(RUN)) == list(told())
    assert list(store.read(RUN, after=1, upto=3)) == list(told()[1:3])


def test_topics_are_explicit_and_unique() -> None:
    """Each event type is stored under a name of its own that does not depend on where its class is."""
    topics = [event_type.TOPIC for event_type in EVENTS]

    assert len(set(topics)) == len(topics)
    assert all(topic.startswith("perdure.") for topic in topics)


def tampered(log: RunLog, store: EventSourcedStore, **changes: object) -> None:
    """Put an event with a changed row behind the told ones."""
    last = stored(log, store)[-1]
    row = replace(last, originator_version=last.originator_version + 1, **changes)
    log.recorder.insert_events([row])


NEWER = {
    "an unknown event": {"topic": "perdure.run-teleported"},
    "a higher version": {"topic": "perdure.tool-call-started.2"},
    "an unknown event with a version": {"topic": "perdure.run-teleported.7"},
    "an unknown field": {"state": b'{"at":"2026-01-01T00:00:00Z","moon":1}'},
}


@pytest.mark.parametrize("changes", NEWER.values(), ids=NEWER.keys())
def test_a_newer_log_is_refused(log: RunLog, store: EventSourcedStore, changes: dict[str, object]) -> None:
    """An event of a newer perdure is not guessed at: the error says to upgrade, and names what is unknown."""
    if "state" in changes:
        form = json.loads(stored(log, EventSourcedStore(log))[-1].state)
        state = json.dumps({**form, "moon": 1}).encode()
        last = log.recorder.select_events(RUN)[-1]
        log.recorder.insert_events(
            [replace(last, originator_version=last.originator_version + 1, state=state)]
        )
    else:
        tampered(log, store, **changes)

    with pytest.raises(NewerLog, match=r"(run-teleported|tool-call-started\.2|moon).*Upgrade"):
        store.read(RUN)
    assert list(store.read(RUN, upto=4)) == list(told())


def test_an_unknown_field_deep_inside_is_newer_too(log: RunLog, store: EventSourcedStore) -> None:
    """A field that a nested value does not know counts as one of a newer version, with its place."""
    event = stored(log, store)[2]
    form = json.loads(event.state)
    form["message"]["parts"][0]["mood"] = "bright"
    log.recorder.insert_events([replace(event, originator_version=5, state=json.dumps(form).encode())])

    with pytest.raises(NewerLog, match=r"message\.parts\.0\.tool_call\.mood"):
        store.read(RUN)


BROKEN = {
    "not JSON": b"\x80\x04not json",
    "cut off": b'{"at":"2026-01-01T00:0',
    "not an object": b"[]",
    "empty": b"",
    "a field is missing": b'{"at":"2026-01-01T00:00:00Z"}',
    "a field has another type": b'{"at":"2026-01-01T00:00:00Z","call_id":1,"attempt":"x"}',
    "no UTF-8": b'{"at":"2026-01-01T00:00:00Z","call_id":"\xff"}',
}


@pytest.mark.parametrize("state", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_event_is_named(log: RunLog, store: EventSourcedStore, state: bytes) -> None:
    """A row that does not have the form of its topic is an error that says where it stands."""
    tampered(log, store, state=state)

    with pytest.raises(UnreadableEvent, match=r"event 5 of run 'run-1' \(perdure\.tool-call-started\)"):
        store.read(RUN)


def test_a_broken_event_keeps_its_secrets(log: RunLog, store: EventSourcedStore) -> None:
    """The error says what is wrong without repeating values: they may be somebody's secrets."""
    tampered(log, store, state=b'{"at":"2026-01-01T00:00:00Z","call_id":"c","attempt":"hunter2"}')

    with pytest.raises(UnreadableEvent) as caught:
        store.read(RUN)
    assert "hunter2" not in f"{caught.value!r} {caught.value}"
