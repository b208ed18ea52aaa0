"""What values and events have in common: frozen, closed, and storable as UTF-8 JSON."""

from __future__ import annotations

import math
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue, ValidationError

from perdure.domain.errors import InvalidInput


def storable(text: object) -> object:
    r"""Return text with lone surrogates written out as ``\\udXXX``: UTF-8 has no form for them.

    Anything but text is returned as it is, for the validator behind this one to judge.
    """
    if isinstance(text, str) and not text.isascii():
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text


Text = Annotated[str, BeforeValidator(storable)]
"""Text from a model, a tool or a person, in the form in which it can be stored and shown."""

DEEPEST_JSON = 100
"""Levels of JSON inside an event: what is written deeper cannot be read again (parsers stop at 200)."""


def storable_json(value: object) -> object:
    """Return JSON data with its texts made storable.

    Raises:
        ValueError: When it is nested too deep to be read again, or holds a number that JSON has not.
    """
    return _storable_json(value, DEEPEST_JSON)


def _storable_json(value: object, levels: int) -> object:
    if levels < 0:
        raise ValueError(f"JSON that is nested deeper than {DEEPEST_JSON} levels cannot be stored")
    if isinstance(value, dict):
        members = cast("dict[object, object]", value).items()
        return {storable(key): _storable_json(member, levels - 1) for key, member in members}
    if isinstance(value, list):
        return [_storable_json(item, levels - 1) for item in cast("list[object]", value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no number in JSON")
    return storable(value)


JsonObject = Annotated[dict[str, JsonValue], BeforeValidator(storable_json)]
"""A JSON object in the form in which it can be stored, and read again."""


class Value(BaseModel):
    """A frozen value that refuses fields it does not know.

    A field that is added later defaults to `None` and is left out of the stored form while it is `None`;
    so older processes read newer events until the field is used, and refuse them from then on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Choice(Value):
    """A value that users write down themselves: what is wrong with it is an `InvalidInput`."""

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            faults = "; ".join(
                f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
                for fault in error.errors(include_url=False, include_context=False, include_input=False)
            )
            raise InvalidInput(f"{type(self).__name__} does not fit: {faults}") from error
