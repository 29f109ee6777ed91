"""The text of a name that is being read, where an object remembers the names of its members."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ..text import JSON, Spelling

UNKNOWN = "\udcff"
"""The name of a forgotten text. No member can have it: a lone surrogate cannot be written."""
EVERY_BYTE = frozenset(range(256))


class NameText(NamedTuple):
    """What is known of the text of a name.

    ``data``: its bytes so far; ``None``: forgotten, since it begins no remembered name. ``compared``: it is only compared with
    remembered names, and forgotten once it differs from all of them, which is enough for the masks of tokens without two names.
    ``spelling``: how it is written. ``unknown``: the :attr:`name` of a forgotten text.
    """

    data: bytes | None
    compared: bool = False
    spelling: Spelling = JSON
    unknown: str = UNKNOWN

    def __add__(self, byte: int) -> NameText:  # type: ignore[override]
        return self.ending(bytes((byte,)))

    def ending(self, rest: bytes) -> NameText:
        """Return the text with more bytes."""
        return self if self.data is None else NameText(self.data + rest, self.compared, self.spelling)

    @property
    def name(self) -> str | None:
        """The name that is written so; ``None`` within a character, ``unknown`` if it is forgotten."""
        return self.unknown if self.data is None else self.spelling.read(self.data)


FORGOTTEN = NameText(None, compared=True)
DIFFERENT = [FORGOTTEN._replace(unknown=chr(0xDC80 + k)) for k in range(4)]
"""Forgotten texts of names that begin with different characters."""
NO_NAMES = frozenset([each.unknown for each in (FORGOTTEN, *DIFFERENT)])
"""The names of forgotten texts."""


@lru_cache(4096)
def begun_with(byte: int, spellings: tuple[Spelling, ...]) -> NameText:
    """Return the forgotten text of a name that begins with this byte, in one of these spellings.
    One name gets one text in all its encodings: characters with several encodings share one."""
    alone = byte < 128 and all(spelling.ways(chr(byte)) == (((byte,),),) for spelling in spellings)
    return DIFFERENT[1 + byte % 3 if alone else 0]


@lru_cache(4096)
def bytes_to(begun: bytes, spelling: Spelling, known: frozenset[str]) -> frozenset[int]:
    """Return the bytes after which the beginning of a text may still be that of a known name."""
    found: set[int] = set()
    for name in known:
        places = [(0, 0)]  # bytes read, characters of the name that they spell
        for at, count in places:
            for way in spelling.ways(name[count]) if count < len(name) else ():
                rest = begun[at : at + len(way)]
                if all(byte in choices for byte, choices in zip(rest, way, strict=False)):
                    if len(rest) < len(way):
                        found.update(way[len(rest)])
                    else:
                        places.append((at + len(way), count + 1))
    return frozenset(found)
