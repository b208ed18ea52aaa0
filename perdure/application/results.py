"""From what a tool returned to what is stored of it."""

from __future__ import annotations

import json

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from perdure.domain.content import InlineContent


def content_of(result: object) -> InlineContent:
    """Return the stored form of a result: text as it is, anything else as JSON.

    Lone surrogates are kept as JSON escapes, not-a-number and infinities as strings. The call has happened
    when this is asked, so a result that has no JSON form does not fail it: the content then says what was
    lost.
    """
    if isinstance(result, str):
        return InlineContent(text=result)
    try:
        return InlineContent(media_type="application/json", text=_json(result))
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        return InlineContent(
            text=f"The call succeeded, but its result ({type(result).__qualname__}) cannot be stored "
            f"as JSON: {error}"
        )


def _json(result: object) -> str:
    try:
        return to_json(result, inf_nan_mode="strings").decode()
    except PydanticSerializationError as error:
        if "surrogates not allowed" not in str(error):
            raise
        return json.dumps(to_jsonable_python(result, inf_nan_mode="strings"), separators=(",", ":"))
