"""Names of stored events: they stay when a class is moved, and carry the version of the stored form."""

from __future__ import annotations

from perdure.domain.errors import NewerLog
from perdure.domain.events import (
    EVENTS,
    BudgetExtended,
    CancelRequested,
    EscalationResolved,
    Event,
    InputAdded,
    RunCancelled,
    RunCompleted,
    RunEscalated,
    RunFailed,
    RunStarted,
)

PREFIX = "perdure."
_TYPES: dict[str, type[Event]] = {event_type.TOPIC: event_type for event_type in EVENTS}


def topic_of(event_type: type[Event]) -> str:
    """Return the topic under which events of a type are stored now: the name, and `.2` from version 2 on."""
    version = event_type.VERSION
    return event_type.TOPIC if version == 1 else f"{event_type.TOPIC}.{version}"


_CURRENT = {topic_of(event_type): event_type for event_type in EVENTS}


def is_ours(topic: str) -> bool:
    """Whether a topic is of an event of a run, known or not."""
    return topic.startswith(PREFIX)


def is_known(topic: str) -> bool:
    """Whether this process can read events with this topic."""
    try:
        return current_type(topic) is not None or bool(older_version(topic))
    except NewerLog:
        return False


def current_type(topic: str) -> type[Event] | None:
    """Return the event type that is stored under this topic now, or None for older and unknown topics."""
    return _CURRENT.get(topic)


def older_version(topic: str) -> tuple[type[Event], int]:
    """Return the event type and the older version that a topic stands for.

    Raises:
        NewerLog: When this process is too old to know it.
    """
    name, _, version = topic.rpartition(".")
    event_type = _TYPES.get(topic)
    stored = 1
    if event_type is None and version.isdigit():
        event_type, stored = _TYPES.get(name), int(version)
    if event_type is None or stored > event_type.VERSION:
        raise NewerLog(
            f"the log holds an event {topic!r}, which this version of perdure does not know: it was "
            "written by a newer one. Upgrade this process; it changes nothing until then."
        )
    return event_type, stored


_RESTING = (RunEscalated, RunCompleted, RunFailed, RunCancelled)
_WAKING = (RunStarted, InputAdded, BudgetExtended, EscalationResolved, CancelRequested)


def _all_versions(event_types: tuple[type[Event], ...]) -> tuple[str, ...]:
    return tuple(
        kind.TOPIC if version == 1 else f"{kind.TOPIC}.{version}"
        for kind in event_types
        for version in range(1, kind.VERSION + 1)
    )


RESTING_TOPICS = _all_versions(_RESTING)
"""A run whose last event has one of these has nothing to do."""
STARTING_TOPICS = _all_versions((RunStarted,))
"""The first event of a run has one of these."""
WAKING_TOPICS = _all_versions(_WAKING)
"""After one of these, a run may have something to do that nobody knows of yet."""
