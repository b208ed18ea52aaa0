"""Between events and stored events: JSON that any language can read, checked when it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from eventsourcing.domain import DomainEventProtocol
from eventsourcing.persistence import Mapper, StoredEvent
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from perdure.domain.errors import NewerLog, UnreadableEvent
from perdure.domain.events import Event
from perdure.domain.upcasts import StoredForm, upcast
from perdure.infrastructure.event_store.topics import current_type, is_ours, older_version, topic_of

_KEYS = {"run_id", "seq"}


class PydanticMapper(Mapper[str]):
    """Maps events of runs by pydantic, and every other event as the library does.

    So a host's own aggregates can be saved together with a run. Nothing is pickled or evaluated.
    """

    def to_stored_event(self, domain_event: DomainEventProtocol[str] | Event) -> StoredEvent:
        """Return the stored form; run id and seq are columns, the rest is JSON without what is None."""
        if not isinstance(domain_event, Event):
            stored = super().to_stored_event(domain_event)
            # The table's ids are text; left to the driver, a UUID would be written without its dashes.
            return replace(stored, originator_id=str(stored.originator_id))
        return StoredEvent(
            originator_id=domain_event.run_id,
            originator_version=domain_event.seq,
            topic=topic_of(type(domain_event)),
            state=domain_event.model_dump_json(exclude=_KEYS, exclude_none=True).encode(),
        )

    def to_domain_event(self, stored_event: StoredEvent) -> Any:
        """Return the event; older stored forms are brought up to the present one.

        Raises:
            NewerLog: It was written by a newer perdure.
            UnreadableEvent: It does not have the form that its topic promises.
        """
        if not is_ours(stored_event.topic):
            return super().to_domain_event(stored_event)
        event_type = current_type(stored_event.topic)
        if event_type is not None:
            return _checked(stored_event, lambda: event_type.model_validate_json(_whole(stored_event)))
        event_type, version = older_version(stored_event.topic)

        def brought_up() -> Event:
            form = cast("StoredForm", from_json(_whole(stored_event)))
            current = event_type.VERSION
            return event_type.model_validate(upcast(form, event_type.TOPIC, stored=version, current=current))

        return _checked(stored_event, brought_up)


def _whole(stored_event: StoredEvent) -> bytes:
    """Put run id and seq back in front of the other fields, in the JSON text: parsing twice costs more."""
    head = b'{"run_id":%s,"seq":%d,' % (
        to_json(stored_event.originator_id),
        stored_event.originator_version,
    )
    return head + stored_event.state[1:]


def _checked(stored_event: StoredEvent, read: Callable[[], Event]) -> Event:
    try:
        return read()
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
    except (ValueError, LookupError, TypeError) as error:
        raise UnreadableEvent(f"{_place(stored_event)} cannot be read: {error!r}") from error
    if all(fault["type"] == "extra_forbidden" for fault in faults):
        names = ", ".join(".".join(map(str, fault["loc"])) for fault in faults)
        raise NewerLog(
            f"{_place(stored_event)} has fields that this version of perdure does not know ({names}): "
            "it was written by a newer one. Upgrade this process; it changes nothing until then."
        )
    what = "; ".join(f"{'.'.join(map(str, fault['loc'])) or 'all'}: {fault['msg']}" for fault in faults)
    raise UnreadableEvent(f"{_place(stored_event)} does not have the form of its topic: {what}")


def _place(stored_event: StoredEvent) -> str:
    return (
        f"event {stored_event.originator_version} of run {stored_event.originator_id!r} "
        f"({stored_event.topic})"
    )
