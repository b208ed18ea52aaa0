"""Each test of this folder talks to the local server only."""

from __future__ import annotations

import pytest

from tests.support.provider_server import KEY


@pytest.fixture(autouse=True)
def _keys_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model given by name finds a key, and no key or address of the user."""
    for provider in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{provider}_API_KEY", KEY)
        monkeypatch.delenv(f"{provider}_BASE_URL", raising=False)
    for variable in ("ANTHROPIC_AUTH_TOKEN", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(variable, raising=False)
