"""How connections are made, and what their failures mean."""

from __future__ import annotations

from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow
from psycopg_pool import PoolClosed

from perdure.domain.errors import LogError, LogRefused, LogUnavailable

T = TypeVar("T")
_FOR_GOOD = ("0A", "22", "42", "54")
"""Classes of SQLSTATE (appendix A of PostgreSQL's manual) that say the same however often one asks: not
supported, wrong data, no such object or no right to it, over a limit of the server's."""


def parameters(conninfo: str, *, timeout: float) -> dict[str, Any]:
    """Return connection parameters under which nobody waits for ever for a network that swallows everything.

    Args:
        conninfo: A libpq connection string or URL; what it says goes before what is added here.
        timeout: Seconds for connecting, and for the other side to acknowledge what was sent.
    """
    return {
        "connect_timeout": max(2, round(timeout)),  # libpq takes whole seconds, and 2 at the least
        "tcp_user_timeout": round(timeout * 1000),
        "keepalives_idle": max(1, round(timeout)),
        "keepalives_interval": max(1, round(timeout / 3)),
        "keepalives_count": 3,
        "client_encoding": "UTF8",
        **conninfo_to_dict(conninfo),
    }


def meaning(error: Exception, what: str) -> LogError:
    """Say whether a failure may pass.

    Args:
        error: From psycopg, or with an error of psycopg's as its cause.
        what: Who failed, to begin the message with.
    """
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    if isinstance(cause, PoolClosed):
        return LogRefused(f"{what} was left: these AgentRuns are closed, connect anew")
    state = cause.sqlstate if isinstance(cause, psycopg.Error) else None
    if state is not None and state.startswith(_FOR_GOOD):
        return LogRefused(f"{what} refused, and will refuse again until somebody mends the cause: {error}")
    return LogUnavailable(f"{what} cannot be reached: {error}")


class PatientConnection(psycopg.Connection[DictRow]):
    """A connection on which no statement is waited for longer than it has patience.

    Something between client and server may take what is sent, acknowledge it and lead nowhere: TCP's own
    timeouts do not notice.

    Attributes:
        patience: Seconds for an answer.
    """

    patience: float = 30.0

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Run a statement to its answer.

        Raises:
            psycopg.OperationalError: None came in time; the connection is closed then.
        """
        try:
            return super().wait(gen, interval, timeout if timeout is not None else self.patience)
        except psycopg.errors._WaitTimeout as error:  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            self.close()
            raise psycopg.OperationalError(f"no answer within {self.patience:g} s") from error


def with_patience(seconds: float) -> type[PatientConnection]:
    """Return the class of connections that wait for so many seconds."""
    return type("PatientConnection", (PatientConnection,), {"patience": seconds})
