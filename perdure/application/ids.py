"""Identities that are made where chance is allowed."""

from __future__ import annotations

import os
import secrets
import socket
import time
import uuid


def new_run_id() -> str:
    """Return `run_` and a UUIDv7 (RFC 9562): ids sort by the time at which they were made."""
    millis = time.time_ns() // 1_000_000
    value = (millis & (1 << 48) - 1) << 80 | 0x7 << 76 | secrets.randbits(12) << 64
    value |= 0b10 << 62 | secrets.randbits(62)
    return f"run_{uuid.UUID(int=value)}"


def new_owner() -> str:
    """Return an identity for this process start: the same host and pid are no proof of being the same."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
