"""`perdure demo`: real processes, really killed, and what is left of their promises."""

from perdure.infrastructure.cli.demo.command import run_demo

__all__ = ["run_demo"]
