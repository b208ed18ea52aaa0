"""Sockets that lose every packet, as if the network had: a filter in the kernel, which needs no rights."""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
import sys

_SO_ATTACH_FILTER = 26
_SO_DETACH_FILTER = 27
# One instruction of classic BPF: return 0, that is, keep no byte of any packet.
_NOTHING = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0))


def swallow(wire: socket.socket) -> None:
    """Let the kernel drop what comes in before it is acknowledged; elsewhere than on Linux, do nothing."""
    if sys.platform == "linux":
        program = struct.pack("@HP", 1, ctypes.addressof(_NOTHING))
        with contextlib.suppress(OSError):  # it was closed meanwhile
            wire.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


def let_through(wire: socket.socket) -> None:
    """Take what comes in again."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # it was closed meanwhile, or nothing was dropped
            wire.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
