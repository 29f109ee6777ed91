"""The text of a name that is being written, where an object remembers the names of its members."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ..text import JSON, Spelling

UNKNOWN = "\udcff"
"""The name of a text that is not known. No member can have it: a lone surrogate is no text."""
EVERY_BYTE = frozenset(range(256))


class NameText(NamedTuple):
    """What is known of the text of a name.

    ``data``: its bytes so far; ``None``: that it begins no name of a member before. ``compared``: it is only compared with
    these names, and forgotten once it differs from all of them. That is enough for the masks of tokens without two names.
    ``spelling``: how it is written. ``unknown``: the :attr:`name` of a text that is not known.
    """

    data: bytes | None
    compared: bool = False
    spelling: Spelling = JSON
    unknown: str = UNKNOWN

    def __add__(self, byte: int) -> NameText:  # type: ignore[override]
        return self.ending(bytes((byte,)))

    def ending(self, rest: bytes) -> NameText:
        """The text with more bytes."""
        return self if self.data is None else NameText(self.data + rest, self.compared, self.spelling)

    @property
    def name(self) -> str | None:
        """The name that is written so; ``None`` within a character, ``unknown`` where it is forgotten."""
        return self.unknown if self.data is None else self.spelling.read(self.data)


FORGOTTEN = NameText(None, compared=True)
DIFFERENT = [FORGOTTEN._replace(unknown=chr(0xDC80 + k)) for k in range(4)]
"""The texts of forgotten names that begin with different characters."""
NO_NAMES = frozenset([each.unknown for each in (FORGOTTEN, *DIFFERENT)])
"""What stands for the names of forgotten texts."""


@lru_cache(4096)
def begun_with(byte: int, spellings: tuple[Spelling, ...]) -> NameText:
    """The forgotten text of a name that begins with this byte, in one of these spellings.

    One name gets the same text however it is written: characters that can be written in several ways share one.
    """
    alone = byte < 128 and all(spelling.ways(chr(byte)) == (((byte,),),) for spelling in spellings)
    return DIFFERENT[1 + byte % 3 if alone else 0]


@lru_cache(4096)
def bytes_to(begun: bytes, spelling: Spelling, known: frozenset[str]) -> frozenset[int]:
    """The bytes after which the beginning of a text may still be that of a known name."""
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
