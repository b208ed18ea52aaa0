"""Stops a server when its last client is gone. Run as a program of its own, with the standard library only.

It waits for the lock that all clients share: the kernel hands it over when the last of them is gone, also
when it was killed. There is one reaper a server; a second one leaves at once.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path


def main(use: str, reap: str, pg_ctl: str, data: str) -> int:
    """Wait, then stop the server; the exit code is that of `pg_ctl stop`."""
    alone = os.open(reap, os.O_RDWR)
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return 0
    fcntl.flock(os.open(use, os.O_RDWR), fcntl.LOCK_EX)
    stop = [pg_ctl, "-D", data, "-m", "fast", "-w", "-t", "60", "stop"]
    owner = Path(data).stat()
    as_root = os.geteuid() == 0
    return subprocess.run(
        stop,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        cwd="/",
        user=owner.st_uid if as_root else None,
        group=owner.st_gid if as_root else None,
        extra_groups=[] if as_root else None,
    ).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
