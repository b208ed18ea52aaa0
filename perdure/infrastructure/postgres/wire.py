"""A connection to PostgreSQL whose answers an event loop waits for, one prepared statement at a time.

psycopg's own asynchronous connection registers with the event loop anew for every answer, and a thread that
blocks on a synchronous one costs two wake-ups a statement: each is dearer than the commit itself. This one
registers once, and works on `psycopg.pq`, psycopg's documented wrapper of libpq.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any

from psycopg import Connection, InterfaceError, OperationalError, errors
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, Format
from psycopg.pq.abc import PGresult

from perdure.infrastructure.postgres.connecting import PatientConnection

_STATEMENT = b"perdure"
_HEADER = Struct("!iiIii")
_LENGTH = Struct("!i")
_BIGINT = Struct("!iq")

TEXT, BIGINT, BYTEA = 25, 20, 17
"""Types of elements, by their OIDs (`pg_type.dat` of PostgreSQL)."""

Answer = Callable[[PGresult | None, Exception | None], None]


class Wire:
    """Runs one prepared statement, again and again."""

    def __init__(self, conninfo: Mapping[str, Any], statement: str) -> None:
        """Connect and prepare; this blocks.

        Args:
            conninfo: Parameters of `psycopg.connect()`.
            statement: The statement, with `$1` and so on.

        Raises:
            psycopg.Error: That cannot be done.
        """
        self._connection = Connection[Any].connect(**conninfo, autocommit=True)
        self._libpq = self._connection.pgconn
        prepared = self._libpq.prepare(_STATEMENT, statement.encode())
        if prepared.status != ExecStatus.COMMAND_OK:
            self._connection.close()
            raise _error(prepared)
        self._libpq.nonblocking = 1
        self._socket = self._libpq.socket
        self._loop: asyncio.AbstractEventLoop | None = None
        self._answer: Answer | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._result: PGresult | None = None
        self._waits_to_send = False

    @property
    def is_usable(self) -> bool:
        """Whether the connection is up and nothing is under way on it."""
        return self._libpq.status == ConnStatus.OK and self._answer is None

    @property
    def is_silent(self) -> bool:
        """Whether nothing came while nothing was asked: what comes then is the server's farewell."""
        return not select.select([self._socket], [], [], 0)[0]

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have an event loop wait for answers."""
        self._loop = loop
        loop.add_reader(self._socket, self._readable)

    def detach(self) -> None:
        """Let go of the event loop."""
        if self._loop is not None:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._loop = None

    def close(self) -> None:
        """Close the connection."""
        self.detach()
        if self._timer is not None:
            self._timer.cancel()
        self._connection.close()

    def run(self, parameters: Sequence[bytes], answer: Answer) -> None:
        """Send the statement with binary parameters; `answer` is called once, with a result or an error."""
        self._answer = answer
        if self._loop is None:
            self._tell(None, OperationalError("the connection broke while nothing was under way on it"))
            return
        self._timer = self._loop.call_later(PatientConnection.patience, self._without_answer)
        try:
            formats = [Format.BINARY] * len(parameters)
            self._libpq.send_query_prepared(_STATEMENT, parameters, formats, Format.BINARY)
            self._flush()
        except (OperationalError, InterfaceError) as error:
            self._broken(error)

    def _without_answer(self) -> None:
        self._broken(OperationalError(f"no answer within {PatientConnection.patience:g} s"))

    def _flush(self) -> None:
        assert self._loop is not None  # noqa: S101
        if self._libpq.flush() and not self._waits_to_send:
            self._waits_to_send = True
            self._loop.add_writer(self._socket, self._writable)

    def _writable(self) -> None:
        assert self._loop is not None  # noqa: S101
        try:
            if not self._libpq.flush():
                self._waits_to_send = False
                self._loop.remove_writer(self._socket)
        except (OperationalError, InterfaceError) as error:
            self._broken(error)

    def _readable(self) -> None:
        try:
            self._libpq.consume_input()
            if self._waits_to_send:
                self._writable()
            while self._answer is not None and not self._libpq.is_busy():
                result = self._libpq.get_result()
                if result is None:
                    self._complete()
                else:
                    self._result = result
        except (OperationalError, InterfaceError) as error:
            self._broken(error)

    def _complete(self) -> None:
        result, self._result = self._result, None
        if result is None:
            self._tell(None, OperationalError("the server sent no result"))
        elif result.status != ExecStatus.TUPLES_OK:
            self._tell(None, _error(result))
        else:
            self._tell(result, None)

    def _broken(self, error: Exception) -> None:
        self.close()
        self._tell(None, error)

    def _tell(self, result: PGresult | None, error: Exception | None) -> None:
        answer, self._answer = self._answer, None
        if self._timer is not None:
            self._timer.cancel()
        if answer is not None:
            answer(result, error)


def _error(result: PGresult) -> Exception:
    state = (result.error_field(DiagnosticField.SQLSTATE) or b"").decode()
    message = result.error_message.decode("utf-8", "replace").strip()
    try:
        return errors.lookup(state)(message)
    except KeyError:
        return OperationalError(message)


def array(element: int, items: Sequence[bytes] | Sequence[int]) -> bytes:
    """Return a one-dimensional array in PostgreSQL's binary form (`array_recv` in its sources).

    Args:
        element: `TEXT`, `BIGINT` or `BYTEA`.
        items: Text as UTF-8, integers, or bytes.
    """
    if not items:
        return _HEADER.pack(0, 0, element, 0, 1)[:12]
    parts = [_HEADER.pack(1, 0, element, len(items), 1)]
    for item in items:
        if isinstance(item, int):
            parts.append(_BIGINT.pack(8, item))
        else:
            parts += (_LENGTH.pack(len(item)), item)
    return b"".join(parts)
