"""A wire between a client and PostgreSQL that can be cut at a chosen moment."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Generator
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support.swallowing import let_through, swallow


class Cut(Enum):
    """When to cut the wire, once."""

    BEFORE_INSERT = "the insert is on its way"
    AFTER_COMMIT = "it was committed, and the answer is on its way"


_EVENT = re.compile(rb"perdure\.[a-z-]+.{1,40}\{\"", re.DOTALL)
"""A stored event on its way: its topic, and right behind it the JSON of its state."""


_FOR_EVER = 127
"""Keepalive probes, one a second, without an answer; no more can be asked for."""


class Proxy:
    """Listens on a port of this machine, and forwards to a server; cuts as it is told.

    Attributes:
        cuts: What was cut so far.
        appends: Appends that came by, to the nearest few: two at once may count as one.
    """

    def __init__(self, conninfo: str) -> None:
        """Take the server's address; one on a Unix socket will do."""
        self._target = conninfo_to_dict(conninfo)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._wires: set[socket.socket] = set()
        self._turn = threading.Lock()
        self._next: Cut | None = None
        self._is_down = False
        self._flows = threading.Event()
        self._flows.set()
        self.cuts: list[Cut] = []
        self.appends = 0
        port = self._listener.getsockname()[1]
        ours = {"host": "127.0.0.1", "port": port, "sslmode": "disable", "gssencmode": "disable"}
        self.conninfo = make_conninfo(conninfo, **ours)
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._listener.close()
        self.go_down()
        self._flows.set()

    @property
    def is_going_to_cut(self) -> bool:
        """Whether a cut was ordered and has not come yet."""
        return self._next is not None

    def cut_next(self, when: Cut) -> None:
        """Cut the wire at the next insert."""
        self._next = when

    def go_down(self) -> None:
        """Cut all wires, and take no new ones."""
        self._is_down = True
        with self._turn:
            wires, self._wires = self._wires, set()
        for wire in wires:
            _close(wire)

    def come_up(self) -> None:
        """Take wires again."""
        self._is_down = False

    def stall(self) -> None:
        """Swallow all packets in either direction, and close nothing.

        The clients' packets are not even acknowledged, and nobody answers who wants to connect.
        """
        with self._turn:
            self._flows.clear()
            for wire in (self._listener, *self._wires):
                swallow(wire)

    def flow(self) -> None:
        """Let packets through again: TCP then sends once more what was lost."""
        with self._turn:
            for wire in (self._listener, *self._wires):
                let_through(wire)
            self._flows.set()

    @contextlib.contextmanager
    def stalled(self) -> Generator[None]:
        """Stall for a while."""
        self.stall()
        try:
            yield
        finally:
            self.flow()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._is_down:
                    client.close()
                    continue
                threading.Thread(target=self._lead, args=(client,), daemon=True).start()

    def _lead(self, client: socket.socket) -> None:
        # A client may give up while nobody hears it: then it is found out later that it is gone.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL):
            client.setsockopt(socket.IPPROTO_TCP, option, 1)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _FOR_EVER)
        with self._turn:
            self._wires.add(client)
            if not self._flows.is_set():
                swallow(client)
        self._flows.wait()
        try:
            server = self._connect()
        except OSError:
            _close(client)
            return
        with self._turn:
            self._wires.add(server)
        if self._is_down:
            _close(server)
        inserted = threading.Event()
        threading.Thread(target=self._from_client, args=(client, server, inserted), daemon=True).start()
        self._from_server(client, server, inserted)

    def _connect(self) -> socket.socket:
        host, port = str(self._target.get("host")), int(self._target.get("port") or 5432)
        if host.startswith("/"):
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(Path(host) / f".s.PGSQL.{port}"))
            return server
        return socket.create_connection((host, port))

    def _from_client(self, client: socket.socket, server: socket.socket, asked: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while sent := client.recv(1 << 16):
                self._flows.wait()
                is_append = _EVENT.search(sent) is not None
                if self._is_time(Cut.BEFORE_INSERT, is_append):
                    break
                if is_append:
                    self.appends += 1
                    asked.set()
                server.sendall(sent)
        _close(client)
        _close(server)

    def _from_server(self, client: socket.socket, server: socket.socket, asked: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while answer := server.recv(1 << 16):
                self._flows.wait()
                # An append is one statement, and its answer comes when it is committed.
                if self._is_time(Cut.AFTER_COMMIT, asked.is_set()):
                    break
                asked.clear()
                client.sendall(answer)
        _close(client)
        _close(server)

    def _is_time(self, when: Cut, seen: bool) -> bool:
        with self._turn:
            if not seen or self._next is not when:
                return False
            self._next = None
            self.cuts.append(when)
            return True


def _close(wire: socket.socket) -> None:
    with contextlib.suppress(OSError):
        wire.shutdown(socket.SHUT_RDWR)
    wire.close()
