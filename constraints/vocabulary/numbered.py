"""Texts that stand for tokens that a constraint names by number alone.

A number stands between two code points that Unicode keeps out of all texts (noncharacters), so that no other text has it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...circuits.narrowing import TOKEN, Narrowing
from ...errors import ShapeError, VocabularyMismatch
from .vocabulary import Vocabulary

OPENING, CLOSING = "\ufdd0", "\ufdd1"


def text_of(token: int) -> str:
    """Return the text that stands for a token."""
    return f"{OPENING}{token}{CLOSING}"


def number_of(text: object) -> int | None:
    """Return the token that a text of :func:`text_of` stands for; ``None`` for any other text."""
    return int(text[1:-1]) if isinstance(text, str) and text[:1] == OPENING else None


def with_named_tokens(narrowed: Iterable[Narrowing], vocab: Vocabulary) -> Vocabulary:
    """Return the vocabulary with the texts of the tokens that a constraint names by number alone.

    Raises ``VocabularyMismatch`` if it lacks a token that the constraint names.
    """
    texts = [each.asked for each in narrowed if each.keyword == TOKEN]
    for text in texts:
        if (token := number_of(text)) is None and text.encode() not in vocab.token_bytes:
            raise VocabularyMismatch(
                f"the grammar asks for the token {text!r}, and no token of the vocabulary spells it; for a special token: "
                f"Vocabulary.with_special({{{text!r}: its id}})"
            )
        if token is not None:
            try:
                vocab = vocab.with_special({text: token})
            except ShapeError:
                raise VocabularyMismatch(
                    f"the token {token} is named by its number, and is no special token without a text in the vocabulary: "
                    "name it by its text"
                ) from None
    return vocab
