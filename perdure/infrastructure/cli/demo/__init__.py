"""`perdure demo`: real processes, really killed, and what is left of their promises."""

from __future__ import annotations


def run_demo(*, json_output: bool, database_url: str | None) -> int:
    """Play the demo.

    Args:
        json_output: Print JSON, and nothing else, on standard output.
        database_url: The database to use; without one, as `AgentRuns.connect()` finds it.

    Returns:
        0 when every promise was kept, 1 when one was broken.

    Raises:
        PerdureError: The demo could not be played.
    """
    # Only now: the worker processes come through here as well, and start faster without what shows things.
    from perdure.infrastructure.cli.demo.command import play_and_show

    return play_and_show(json_output=json_output, database_url=database_url)


__all__ = ["run_demo"]
