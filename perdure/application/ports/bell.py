"""The port to the bell that rings when something was appended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable


class Bell(ABC):
    """Rings after appends by any process. It may miss one, so nobody relies on it alone."""

    @abstractmethod
    def listen(self, ring: Callable[[], None]) -> Callable[[], None]:
        """Call `ring`, from a thread of its own, soon after each append.

        Returns:
            A function that ends the listening and waits for its thread.
        """
