"""Finding runs to drive, straight from the log."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic_core import from_json

from perdure.application.ports.run_finder import Candidate, RunFinder, Version


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run that nobody holds and whose last event does not put it to rest.

    Attributes:
        position: Of its first event in the log: who came first.
    """

    run_id: str
    version: int
    position: int


@dataclass(frozen=True, slots=True)
class _Start:
    tenant: str | None
    pinned_to: Version


class LogRunFinder(RunFinder):
    """Tells by the first event of each waiting run whom it is for and what it is pinned to.

    That event is read here and not in the database: JSON text that PostgreSQL cannot take apart (a NUL in
    somebody's input) would otherwise hide all runs behind one.
    """

    def __init__(self) -> None:
        self._starts: dict[str, _Start | None] = {}

    def find(
        self, *, versions: Collection[Version] | None, passing_over: Mapping[str, int | None], limit: int
    ) -> Sequence[Candidate]:
        """Return runs that may have something to do; see the port."""
        waiting = [
            run
            for run in self._waiting()
            if run.run_id not in passing_over or passing_over[run.run_id] not in (None, run.version)
        ]
        starts = self._read_starts([run.run_id for run in waiting])
        turns: dict[str | None, int] = {}
        found: list[tuple[int, Candidate]] = []
        for run in sorted(waiting, key=lambda run: run.position):
            start = starts[run.run_id]
            if start is None or (versions is not None and start.pinned_to not in versions):
                continue
            turns[start.tenant] = turns.get(start.tenant, 0) + 1
            found.append((turns[start.tenant], Candidate(run.run_id, run.version, start.tenant)))
        return [candidate for _, candidate in sorted(found, key=lambda entry: entry[0])][:limit]

    def _read_starts(self, run_ids: Sequence[str]) -> Mapping[str, _Start | None]:
        unread = [run_id for run_id in run_ids if run_id not in self._starts]
        read = {run_id: _start(state) for run_id, state in self._first_states(unread).items()}
        # A run starts once, so what was read stays true; what no longer waits is not kept.
        self._starts = {run_id: self._starts.get(run_id) or read.get(run_id) for run_id in run_ids}
        return self._starts

    @abstractmethod
    def _waiting(self) -> Sequence[Waiting]:
        """Return the runs that wait."""

    @abstractmethod
    def _first_states(self, run_ids: Sequence[str]) -> Mapping[str, bytes]:
        """Return the stored state of the first event of each of these runs."""


def _start(state: bytes) -> _Start | None:
    try:
        facts = cast("dict[str, Any]", from_json(state))
        pins = facts["pins"]
        return _Start(facts.get("tenant"), (facts["agent"], pins["model"], pins["prompt_version"]))
    except (ValueError, KeyError, TypeError):
        # Whoever loads the run says what is wrong with it; the others are not held up by it.
        return None
