"""From what goes wrong on the way to a provider to a `ModelError` that may be shown and stored."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from pydantic_ai import exceptions
from pydantic_ai.models import Model

from perdure.domain.errors import ModelError

_MAY_PASS = frozenset({408, 409, 425, 429})
_LONGEST = 2_000
_NAMES_OF_SECRETS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_SHORTEST_SECRET = 8

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


def secrets_of(model: Model) -> list[str]:
    """Return the keys by which a model, and each model inside it, is reached."""
    # Not every client shows its key, but most keys come from the environment.
    found = {
        value
        for name, value in os.environ.items()
        if name.upper().endswith(_NAMES_OF_SECRETS) and len(value) >= _SHORTEST_SECRET
    }
    for each in _with_those_inside(model):
        client = getattr(each, "client", None)
        keys = (getattr(client, attribute, None) for attribute in ("api_key", "auth_token"))
        found.update(key for key in keys if isinstance(key, str) and key)
    return sorted(found, key=len, reverse=True)  # one may be the beginning of another


def _with_those_inside(model: Model[Any]) -> Iterator[Model[Any]]:
    yield model
    several: object = getattr(model, "models", None)
    inside = [*cast("list[object]", several)] if isinstance(several, list | tuple) else []
    for each in (*inside, getattr(model, "wrapped", None)):
        if isinstance(each, Model):
            yield from _with_those_inside(cast("Model[Any]", each))


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
