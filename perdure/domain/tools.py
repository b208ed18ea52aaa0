"""Tool contracts: what to do with a call whose end nobody saw."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Literal, Protocol

from pydantic import Field, JsonValue

from perdure.domain.value import Choice, JsonObject, Text, Value


class Policy(StrEnum):
    """What to do with a call in doubt, from the most convenient to the most conservative."""

    RERUN = "rerun"
    """Run it again: it only reads."""
    RERUN_WITH_IDEMPOTENCY_KEY = "rerun_with_idempotency_key"
    """Run it again with the same key: the service behind it drops repeats."""
    VERIFY_THEN_DECIDE = "verify_then_decide"
    """Ask the service whether it happened, and run it again only if it did not."""
    ESCALATE_IF_UNKNOWN = "escalate_if_unknown"
    """Leave it to a person. The default."""

    @staticmethod
    def stricter(one: Policy, other: Policy) -> Policy:
        """Return the more conservative of two policies."""
        order = list(Policy)
        return max(one, other, key=order.index)


class Verdict(Choice):
    """What `verify` found out about a call in doubt."""

    outcome: Literal["landed", "not_landed", "unknown"]
    result: JsonValue = None
    evidence: Text | None = None

    @classmethod
    def landed(cls, result: JsonValue = None, *, evidence: str | None = None) -> Verdict:
        """It happened; `result` is what the call would have returned."""
        return cls(outcome="landed", result=result, evidence=evidence)

    @classmethod
    def not_landed(cls, *, evidence: str | None = None) -> Verdict:
        """It did not happen, and nothing that was sent can still make it happen."""
        return cls(outcome="not_landed", evidence=evidence)

    @classmethod
    def unknown(cls, *, evidence: str | None = None) -> Verdict:
        """It cannot be told now: ask again later."""
        return cls(outcome="unknown", evidence=evidence)


class ToolSpec(Value):
    """What the model is told about a tool: its name, what it does, and the JSON Schema of its arguments."""

    name: Text
    description: Text
    parameters: JsonObject


class ToolContract(Value):
    """How a tool is to be run, and what may be done when its end was not seen.

    Attributes:
        timeout: Seconds that one attempt may take.
        settle: Seconds after an attempt's timeout before "not landed" may be believed.
        key_ttl: How long the service remembers an idempotency key, from the first start.
        max_attempts: Starts of one call, after which a person is asked.
        max_verifications: Times `verify` is asked about one attempt, after which a person is asked.
    """

    policy: Policy = Policy.ESCALATE_IF_UNKNOWN
    timeout: float = Field(default=300.0, gt=0, allow_inf_nan=False)
    settle: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    key_ttl: timedelta = Field(default=timedelta(hours=24), gt=timedelta(0))
    max_attempts: int = Field(default=5, ge=1)
    max_verifications: int = Field(default=6, ge=1)


class Toolbox(Protocol):
    """What a run may ask about the tools at hand, without running any."""

    def contract(self, name: str) -> ToolContract | None:
        """Return the contract of a tool, or None when there is no such tool."""
        ...

    def refusal(self, name: str, arguments: str) -> str | None:
        """Say why a call with these arguments (JSON text) must not start, or None when it may."""
        ...


class Resolution(Choice):
    """What a person decided about a call in doubt, or about an escalated run."""

    outcome: Literal["succeeded", "failed", "rerun", "resume", "abandon"]
    result: JsonValue = None
    error: Text | None = None

    @classmethod
    def succeeded(cls, result: JsonValue = None) -> Resolution:
        """The call happened, and this is its result."""
        return cls(outcome="succeeded", result=result)

    @classmethod
    def failed(cls, error: str) -> Resolution:
        """The call did not happen; the model reads why."""
        return cls(outcome="failed", error=error)

    @classmethod
    def rerun(cls) -> Resolution:
        """The call did not happen, or may safely happen again: run it."""
        return cls(outcome="rerun")

    @classmethod
    def resume(cls) -> Resolution:
        """What stopped the run (not one of its calls) is mended: carry on."""
        return cls(outcome="resume")

    @classmethod
    def abandon(cls) -> Resolution:
        """Give the run up: it fails, and its calls in doubt stay on the list."""
        return cls(outcome="abandon")
