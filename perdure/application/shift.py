"""What the drives of one event loop share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from perdure.application.agent_loop import Drain
from perdure.application.messenger import Messenger
from perdure.application.ports.event_store import EventStore, EventWriter

_LOOK = 1.0
"""Seconds between looks at what people wrote to runs that are being driven."""


@dataclass(frozen=True, slots=True)
class Shift:
    """What the drives of one event loop share.

    Attributes:
        writer: Appends for all of them.
        messenger: Tells them when somebody else wrote to their runs.
        drain: Ends them early, between steps.
    """

    writer: EventWriter
    messenger: Messenger
    drain: Drain


@asynccontextmanager
async def shift(store: EventStore, drain: Drain | None = None) -> AsyncGenerator[Shift]:
    """Begin to drive runs in the running event loop."""
    messenger = Messenger(store, _LOOK)
    async with store.writing() as writer, messenger.at_work():
        yield Shift(writer, messenger, drain if drain is not None else Drain())
