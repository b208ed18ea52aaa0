"""The bell of a log in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable

from eventsourcing.persistence import ApplicationRecorder
from eventsourcing.popo import POPOApplicationRecorder

from perdure.application.ports.bell import Bell


class MemoryBell(Bell):
    """Rings when the recorder tells its listeners."""

    def __init__(self, recorder: ApplicationRecorder) -> None:
        if not isinstance(recorder, POPOApplicationRecorder):
            raise TypeError(f"{type(recorder).__name__} is no recorder in memory")
        self._recorder = recorder

    def listen(self, ring: Callable[[], None]) -> Callable[[], None]:
        """Ring after appends; see the port."""
        appended = threading.Event()
        ended = threading.Event()
        self._recorder.listen(appended)

        def wait() -> None:
            while not ended.is_set():
                if appended.wait(0.5):
                    appended.clear()
                    ring()

        thread = threading.Thread(target=wait, name="perdure bell", daemon=True)
        thread.start()

        def end() -> None:
            ended.set()
            appended.set()
            self._recorder.unlisten(appended)
            thread.join(timeout=10)

        return end
