"""The text of a name that is being written, where an object remembers the names of its members."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ..text import JSON, Spelling

UNKNOWN = "\udcff"
"""The name of a text that is not known. No member can have it: a lone surrogate is no text."""
ESCAPE = ord("\\")
EVERY_BYTE = frozenset(range(256))


class NameText(NamedTuple):
    """What is known of the text of a name.

    ``data``: its bytes so far; ``None``: that it begins no name of a member before. ``compared``: it is only compared with
    these names, and forgotten once it differs from all of them. That is enough for the masks of tokens without two names.
    ``spelling``: how it is written.
    """

    data: bytes | None
    compared: bool = False
    spelling: Spelling = JSON

    def __add__(self, byte: int) -> NameText:  # type: ignore[override]
        return self.ending(bytes((byte,)))

    def ending(self, rest: bytes) -> NameText:
        """The text with more bytes."""
        return self if self.data is None else NameText(self.data + rest, self.compared, self.spelling)

    @property
    def name(self) -> str | None:
        """The name that is written so; ``None`` within a character, :data:`UNKNOWN` where it is forgotten."""
        return UNKNOWN if self.data is None else self.spelling.read(self.data)


FORGOTTEN = NameText(None, compared=True)


@lru_cache(4096)
def bytes_to(begun: str | None, known: frozenset[str]) -> frozenset[int]:
    """The bytes after which the beginning of a name may still be that of a known one; ``None``: it ends within a character."""
    if begun is None:
        return EVERY_BYTE
    found = {name[len(begun)].encode()[0] for name in known if name.startswith(begun) and name != begun}
    return frozenset(found | {ESCAPE}) if found else frozenset()
