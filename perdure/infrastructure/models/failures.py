"""From what goes wrong on the way to a provider to a `ModelError` that may be shown and stored."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pydantic_ai import exceptions

from perdure.domain.errors import ModelError

_MAY_PASS = frozenset({408, 409, 425, 429})
_LONGEST = 2_000

# A quota may come as a 429, but waiting does not fill an empty account. Not every version has every class.
_FOR_GOOD = tuple(
    getattr(exceptions, name)
    for name in ("ModelQuotaExceededError", "ModelRequestRejectedError", "UserError")
    if hasattr(exceptions, name)
)

_LOOKS_SECRET = re.compile(
    r"(?P<kept>\b(?:x-api-key|api[-_]?key|authorization)['\"]?\s*[:=]\s*['\"]?(?:(?:bearer|basic)\s+)?"
    r"|\b(?:bearer|basic)\s+)[^\s'\",}]+"
    r"|\b(?:sk|pk|rk|gsk|xai)-[A-Za-z0-9_*-]{6,}|\bAIza[A-Za-z0-9_-]{20,}",
    re.IGNORECASE,
)


def model_error(error: Exception, secrets: Iterable[str] = ()) -> ModelError:
    """Say what went wrong, whether it may pass, and how long the provider asked to wait.

    Args:
        error: What pydantic-ai raised.
        secrets: Texts that must not be shown.
    """
    kind = "permanent" if _is_for_good(error) else "transient"
    return ModelError(_shown(error, secrets), kind=kind, retry_after=_retry_after(error))


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Return text with the secrets, and with all that looks like one, blotted out."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return _LOOKS_SECRET.sub(lambda found: f"{found['kept'] or ''}***", text)


def _is_for_good(error: Exception) -> bool:
    if isinstance(error, exceptions.FallbackExceptionGroup):
        return all(_is_for_good(each) for each in error.exceptions)
    if isinstance(error, _FOR_GOOD):
        return True
    if isinstance(error, exceptions.ModelHTTPError):
        return error.status_code < 500 and error.status_code not in _MAY_PASS
    return False


def _retry_after(error: Exception) -> float | None:
    if isinstance(error, exceptions.FallbackExceptionGroup):
        waits = [wait for each in error.exceptions if (wait := _retry_after(each)) is not None]
        return min(waits, default=None)
    return error.retry_after if isinstance(error, exceptions.ModelAPIError) else None


def _shown(error: Exception, secrets: Iterable[str]) -> str:
    if isinstance(error, exceptions.FallbackExceptionGroup):
        said = "; ".join(_shown(each, secrets) for each in error.exceptions)
    else:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    shown = without_secrets(said, secrets)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
