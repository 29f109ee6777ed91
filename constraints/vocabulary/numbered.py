"""Texts that stand for tokens that a constraint names by number alone.

A number stands between two code points that Unicode keeps out of all texts (noncharacters), so that no other text has it.
"""

from __future__ import annotations

OPENING, CLOSING = "\ufdd0", "\ufdd1"


def text_of(token: int) -> str:
    """Return the text that stands for a token."""
    return f"{OPENING}{token}{CLOSING}"


def number_of(text: object) -> int | None:
    """Return the token that a text of :func:`text_of` stands for; ``None`` for any other text."""
    return int(text[1:-1]) if isinstance(text, str) and text[:1] == OPENING else None
