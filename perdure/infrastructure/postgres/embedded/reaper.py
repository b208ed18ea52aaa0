"""Starts a server, and stops it when its last client is gone. Run as a program of its own, by its path.

Starting is done here too, so that a client that is killed while its server starts leaves somebody behind who
stops that server again. Three locks say who is there; the kernel gives each back when its holder is gone,
however it died:

- `.use.lock` is shared by all clients, and by this program while it starts the server;
- `.server.lock` is inherited by the server: it is taken as long as any process of the server lives;
- `.reap.lock` is held by the one reaper of the directory.

Only the standard library is imported: the program runs without `site-packages`.
"""

import contextlib
import os
import shlex
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

if sys.platform != "win32":
    import fcntl

SOCKET_NAME = ".s.PGSQL.5432"
_TO_START = 120
_TO_END_ITSELF = 60
"""Seconds for a server whose postmaster is gone, or which somebody else has told to stop."""


def is_listening(sockets: Path) -> bool:
    """Whether a postmaster answers in a socket directory; what its pid file says does not count."""
    return _call(sockets) is not None


def is_gone(base: Path) -> bool:
    """Whether no process of a directory's server is left."""
    lock = os.open(base / ".server.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        return _try_to_take(lock)
    finally:
        os.close(lock)


def stop(base: Path, sockets: Path) -> bool:
    """Stop the server of a directory, by force if it does not in a minute; False if it is out of reach."""
    for how, patience in ((signal.SIGINT, 60), (signal.SIGQUIT, 30)):
        pid = _postmaster(base, sockets)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)
        deadline = time.monotonic() + patience
        while not is_gone(base):
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        else:
            return True
    return False


def main(arguments: list[str]) -> int:
    """Start the server if options for it are given, leave a reaper behind if there is none, and return.

    Args:
        arguments: The directory, its socket directory, the descriptor of the lock under which servers are
            started; then, to start one, the program `pg_ctl` and the server's options.
    """
    base, sockets, starting = Path(arguments[0]), Path(arguments[1]), int(arguments[2])
    use = os.open(base / ".use.lock", os.O_RDWR)
    # Whoever reaps at present must not stop what is being started, even if the client dies meanwhile.
    fcntl.flock(use, fcntl.LOCK_SH)
    failed = _start(base, sockets, *arguments[3:]) if len(arguments) > 3 else 0
    if failed and is_gone(base):
        return failed
    reaping = os.open(base / ".reap.lock", os.O_RDWR | os.O_CREAT, 0o600)
    if not _try_to_take(reaping):
        return failed
    os.close(starting)
    if os.fork() == 0:
        _detach()
        _reap(base, sockets, use, reaping)
    return failed


def _start(base: Path, sockets: Path, pg_ctl: str, options: str) -> int:
    server = os.open(base / ".server.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not _take_within(server, _TO_END_ITSELF):
            sys.stdout.write("processes of the last server are still at work, and do not answer\n")
            return 1
        # PostgreSQL takes any live process with the pid for its own server, and then refuses to start. With
        # the lock in hand there is none: the files are left over from a server that was killed.
        for leftover in (
            base / "data/postmaster.pid",
            sockets / SOCKET_NAME,
            sockets / f"{SOCKET_NAME}.lock",
        ):
            leftover.unlink(missing_ok=True)
        command = [pg_ctl, "-D", str(base / "data"), "-w", "-t", str(_TO_START)]
        command += ["-l", str(base / "data" / "server.log"), "-o", options, "start"]
        as_root = os.geteuid() == 0
        owner = (base / "data").stat()
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            check=False,
            cwd="/",
            pass_fds=(server,),
            user=owner.st_uid if as_root else None,
            group=owner.st_gid if as_root else None,
            extra_groups=[] if as_root else None,
        ).returncode
    finally:
        os.close(server)


def _detach() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    # It leaves when the last client has left, and not before: nobody else would stop the server.
    for stopping in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(stopping, signal.SIG_IGN)


def _reap(base: Path, sockets: Path, use: int, reaping: int) -> None:
    fcntl.flock(use, fcntl.LOCK_EX)
    try:
        # Once the directory was removed, what stands there now is somebody else's.
        is_ours = os.path.samestat(os.fstat(use), (base / ".use.lock").stat())
    except OSError:
        is_ours = False
    if is_ours:
        stop(base, sockets)
    # In this order: a client that may use the server again must not find a reaper that is about to leave.
    os.close(reaping)
    os.close(use)


def _postmaster(base: Path, sockets: Path) -> int | None:
    """Return the process that answers on the socket; no other one is ever sent a signal."""
    peer = _call(sockets)
    if peer is None or peer > 0:
        return peer
    if sys.platform.startswith("linux"):
        # It lives in another container, where its pid means another process than here.
        return None
    try:
        return int((base / "data" / "postmaster.pid").read_text().split()[0])
    except (OSError, IndexError, ValueError):
        return None


def _call(sockets: Path) -> int | None:
    """Connect, and return the process that listens: 0 if that is not known, None if nobody does."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(5)
        try:
            line.connect(str(sockets / SOCKET_NAME))
        except TimeoutError:
            return 0
        except OSError:
            return None
        if not sys.platform.startswith("linux"):
            return 0
        said = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", said)[0])


def _try_to_take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _take_within(lock: int, seconds: int) -> bool:
    def give_up(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    except TimeoutError:
        return False
    finally:
        signal.alarm(0)
    return True


def options_of(settings: Mapping[str, str]) -> str:
    """Write server parameters as `pg_ctl` wants them: it hands them to a shell."""
    return " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in settings.items())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
