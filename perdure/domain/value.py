"""What values and events have in common: frozen, closed, and storable as UTF-8 JSON."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict


def storable(text: object) -> object:
    r"""Return text with lone surrogates written out as ``\\udXXX``: UTF-8 has no form for them.

    Anything but text is returned as it is, for the validator behind this one to judge.
    """
    if isinstance(text, str) and not text.isascii():
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text


Text = Annotated[str, BeforeValidator(storable)]
"""Text from a model, a tool or a person, in the form in which it can be stored and shown."""


class Value(BaseModel):
    """A frozen value that refuses fields it does not know.

    A field that is added later defaults to `None` and is left out of the stored form while it is `None`;
    so older processes read newer events until the field is used, and refuse them from then on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
