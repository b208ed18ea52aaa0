"""The command line."""

from __future__ import annotations

import importlib.util
import sys


def main() -> None:
    """Run `perdure`."""
    missing = [name for name in ("typer", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"perdure: the command line needs {' and '.join(missing)}: pip install 'perdure[cli]'")
    try:
        # Only now: the module needs what may be missing.
        from perdure.infrastructure.cli.app import run
    except KeyboardInterrupt:
        sys.exit(130)
    run()
