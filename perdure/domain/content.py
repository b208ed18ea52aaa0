"""What a tool call brought back: held in the event, or referred to by it."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field

from perdure.domain.value import Text, Value

MediaType = Literal["text/plain", "application/json"]


class InlineContent(Value):
    """Content that stands in the event itself.

    Attributes:
        text: Plain text, or JSON text, as `media_type` says. This is what the model reads.
    """

    kind: Literal["inline"] = "inline"
    media_type: MediaType = "text/plain"
    text: Text

    @property
    def for_model(self) -> str:
        """What the model reads."""
        return self.text

    def value(self) -> object:
        """Return the text, or what the JSON text stands for."""
        return self.text if self.media_type == "text/plain" else json.loads(self.text)


class StoredContent(Value):
    """Content that lies elsewhere, under its hash.

    Attributes:
        size: Bytes.
        sha256: Hash of the bytes, in hex: the address, and the proof.
        summary: What the model reads in place of the whole.
    """

    kind: Literal["stored"] = "stored"
    media_type: MediaType = "text/plain"
    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    summary: Text

    @property
    def for_model(self) -> str:
        """What the model reads."""
        return self.summary


Content = Annotated[InlineContent | StoredContent, Field(discriminator="kind")]
