"""The bell on PostgreSQL's LISTEN and NOTIFY."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import psycopg
from psycopg.sql import SQL, Identifier

from perdure.application.ports.bell import Bell
from perdure.infrastructure.postgres.connecting import parameters

log = logging.getLogger("perdure")


class PostgresBell(Bell):
    """Listens on a connection of its own, and makes a new one when it breaks."""

    def __init__(self, conninfo: str, *, channel: str) -> None:
        self._conninfo = conninfo
        self._channel = channel

    def listen(self, ring: Callable[[], None]) -> Callable[[], None]:
        """Ring after appends; see the port."""
        ended = threading.Event()
        thread = threading.Thread(target=self._listen, args=(ring, ended), name="perdure bell", daemon=True)
        thread.start()

        def end() -> None:
            ended.set()
            thread.join(timeout=10)

        return end

    def _listen(self, ring: Callable[[], None], ended: threading.Event) -> None:
        while not ended.is_set():
            try:
                with psycopg.connect(autocommit=True, **parameters(self._conninfo, timeout=5)) as connection:
                    connection.execute(SQL("LISTEN {}").format(Identifier(self._channel)))
                    # What was appended while nobody listened rang no bell.
                    ring()
                    while not ended.is_set():
                        for _ in connection.notifies(timeout=0.5, stop_after=1):
                            ring()
            except psycopg.Error as error:
                log.warning("the bell is silent until the database is back: %s", error)
                ended.wait(1.0)
