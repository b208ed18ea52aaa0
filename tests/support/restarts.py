"""Stopping a server the way that a crash does."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from perdure.infrastructure.postgres.embedded import EmbeddedPostgres
from tests.support.waiting import eventually


def stop_at_once(server: EmbeddedPostgres) -> None:
    """Stop a server without letting it tidy up; the next start recovers from its log."""
    pid = int((server.directory / "data" / "postmaster.pid").read_text().splitlines()[0])
    os.kill(pid, signal.SIGQUIT)
    eventually(lambda: not Path(f"/proc/{pid}").exists())
