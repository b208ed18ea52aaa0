"""A sequence of messages that grows at its end without being copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from perdure.domain.messages import Message


class Transcript(Sequence[Message]):
    """An immutable sequence; the transcripts of successive states share one list.

    Appending to the newest one is constant-time; appending to an older one copies it first, so that no
    transcript ever changes under whoever holds it. One thread at a time may append.
    """

    __slots__ = ("_length", "_shared")

    def __init__(self, shared: list[Message] | None = None) -> None:
        """Take over the list: the caller does not change it afterwards."""
        self._shared: list[Message] = shared if shared is not None else []
        self._length = len(self._shared)

    def append(self, *messages: Message) -> Transcript:
        """Return a transcript with the messages at its end."""
        is_newest = len(self._shared) == self._length
        shared = self._shared if is_newest else self._shared[: self._length]
        shared.extend(messages)
        return Transcript(shared)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return self._shared[: self._length][index]
        return self._shared[range(self._length)[index]]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._shared[: self._length])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Transcript) and list(self) == list(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"Transcript({list(self)!r})"
