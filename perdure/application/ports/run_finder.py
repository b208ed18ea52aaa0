"""The port through which workers find runs to drive."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

Version = tuple[str, str, str]
"""What can be told of a run's pins without reading them: (agent, model, prompt version)."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run that may have something to do.

    Attributes:
        version: The version that it was seen at.
        tenant: Whom it is for.
    """

    run_id: str
    version: int
    tenant: str | None


class RunFinder(ABC):
    """Finds runs that nobody holds and that may not rest. Correctness never depends on what it finds."""

    @abstractmethod
    def find(
        self, *, versions: Collection[Version] | None, passing_over: Mapping[str, int | None], limit: int
    ) -> Sequence[Candidate]:
        """Return runs without a live lease whose last event does not end or escalate them.

        Args:
            versions: Only runs pinned to one of these; None for all runs.
            passing_over: Runs that are not wanted: at this version, or (None) at any.
            limit: How many at most; they are taken from the tenants in turn, oldest first.

        Raises:
            perdure.domain.errors.LogUnavailable: The store cannot be reached.
        """
