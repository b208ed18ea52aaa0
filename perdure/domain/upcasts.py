"""How stored forms of older versions become the present one.

Changing an event's stored form takes three steps: raise its `VERSION`, add here a function from the old
form to the next (a plain `dict` each), and keep the golden log of the old version in the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pydantic import JsonValue

StoredForm = dict[str, JsonValue]
Upcast = Callable[[StoredForm], StoredForm]

UPCASTS: Mapping[tuple[str, int], Upcast] = {}
"""(topic, version) -> from that version's form to the next version's."""


def upcast(
    form: StoredForm,
    topic: str,
    *,
    stored: int,
    current: int,
    upcasts: Mapping[tuple[str, int], Upcast] = UPCASTS,
) -> StoredForm:
    """Bring a stored form up to the current version, one version at a time.

    Raises:
        LookupError: When a step is missing; a test holds that none is.
    """
    for version in range(stored, current):
        form = upcasts[topic, version](form)
    return form
