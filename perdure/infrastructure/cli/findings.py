"""What `perdure doctor` finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Grade = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found; `advice` says what to do about it."""

    check: str
    grade: Grade
    found: str
    advice: str = ""


def graded(check: str, *, ok: bool, found: str, advice: str, otherwise: Grade = "fail") -> Finding:
    """Return a finding whose advice is given only where it is needed."""
    return Finding(check, "ok", found) if ok else Finding(check, otherwise, found, advice)
