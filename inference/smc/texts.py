"""The texts of sequences that grow by a token: only the last tokens are decoded, only the new characters scanned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType

from .boundaries import SCANNERS, Boundary, Mark, Scanner

CACHE_SIZE = 1 << 13
BLOCK = 16


class Texts:
    """``decode``, remembering: called with token ids it gives their text.

    A long text is that of one token less and what the last token adds to its 16 to 31 predecessors; where it changes their
    text (bytes of one character, say) everything is decoded.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._known: dict[tuple[int, ...], str] = {}
        self._marks: dict[tuple[Scanner, tuple[int, ...]], Mark] = {}

    def __call__(self, token_ids: Sequence[int]) -> str:
        ids = tuple(token_ids)
        text = self._known.get(ids)
        if text is None:
            if len(self._known) >= CACHE_SIZE:
                self._known.clear()
            text = self._known[ids] = self._grown(ids)
        return text

    def _grown(self, ids: tuple[int, ...]) -> str:
        start = (len(ids) - 1) // BLOCK * BLOCK - BLOCK
        head = self._known.get(ids[:-1]) if start > 0 else None
        if head is not None:
            before, after = self(ids[start:-1]), self(ids[start:])
            if after.startswith(before):
                return head + after[len(before) :]
        return self._decode(ids)

    def cut(self, token_ids: tuple[int, ...], boundary: Boundary) -> int:
        """The number of characters up to the last boundary."""
        scanner = SCANNERS.get(boundary) if isinstance(boundary, FunctionType) else boundary
        if not isinstance(scanner, Scanner):
            return boundary(self(token_ids))
        if len(self._marks) >= CACHE_SIZE:
            self._marks.clear()
        key = (scanner, token_ids)
        if key not in self._marks:
            text, before = self(token_ids), self._marks.get((scanner, token_ids[:-1]))
            if before is not None and not text.startswith(self(token_ids[:-1])[: before.position]):
                before = None  # a character was incomplete
            self._marks[key] = scanner.scan(text, before)
        return self._marks[key].end
