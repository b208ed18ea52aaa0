"""What the application needs from the outside: one port a file."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.application.ports.bell import Bell
from perdure.application.ports.boundaries import Boundaries
from perdure.application.ports.clock import Clock
from perdure.application.ports.event_store import EventStore
from perdure.application.ports.leases import Leases
from perdure.application.ports.roster import Roster
from perdure.application.ports.run_finder import RunFinder


@dataclass(frozen=True, slots=True)
class Ports:
    """One adapter for each port, all on the same database (or all in memory)."""

    store: EventStore
    leases: Leases
    clock: Clock
    finder: RunFinder
    roster: Roster
    bell: Bell
    boundaries: Boundaries
