"""Forgets what the demo left in a database: `python -m perdure.infrastructure.cli.demo.clean_up [URL]`."""

from __future__ import annotations

import sys
from contextlib import closing

from perdure.domain.errors import PerdureError
from perdure.infrastructure.cli.demo.scenery import SCHEMA, SHOP_SCHEMA, clear
from perdure.infrastructure.postgres.address import resolve_address


def main(database_url: str | None = None) -> None:
    """Drop the demo's schemas."""
    try:
        with closing(resolve_address(database_url)) as address:
            clear(address)
            sys.stdout.write(f"dropped {SCHEMA} and {SHOP_SCHEMA} of {address.redacted()}\n")
    except PerdureError as error:
        sys.exit(f"perdure: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
