"""The bytes of every token, and the trie of them.

    text = bytes(token_1) + bytes(token_2) + ...

For a byte-level tokenizer (GPT-2, NeoX, Llama 3, tekken) the bytes are those of the vocabulary entry, which need not be
valid UTF-8 on their own. For a SentencePiece-style one, ``▁`` stands for a space and ``<0xNN>`` for a byte. Special
tokens, and ids that are no tokens, have no bytes (``None``): they never match text.

Bytes are those of a *continuation*: after a prompt, SentencePiece's ``▁Once`` reads " Once". Only at the very start of a
text do such tokenizers drop one leading space; to generate from an empty prompt write the constraint as
``literal(" ") + c`` and strip the space from the result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from numbers import Integral
from typing import Any

from ... import token_bytes
from ...argument_checks import whole
from ...errors import FormatError, ShapeError, VocabularyMismatch
from ...fingerprints import FEWER_OUTPUTS, fingerprint
from ..cache import store
from .trie import Trie

KEPT_FROM = 10_000  # tokens from which on the trie is cached on disk


class Vocabulary:
    """The bytes of each token by id, and which token ends the text.

    ``token_bytes[i]`` is ``None`` for a special token. A token without bytes is treated as special, since a text could repeat it
    for ever. Raises ``ShapeError`` if ``eos_token_id`` is not an id and ``FormatError`` if a token is neither ``bytes`` nor
    ``None``.

    Examples
    --------
    >>> import tractile as tt
    >>> vocab = tt.Vocabulary([b"a", b"b", b"ab", None], eos_token_id=3)
    >>> tt.constraints.regex("(ab)+").compile(vocab)
    ConstraintAutomaton(states made when they are met, vocab_size=4)
    """

    def __init__(self, token_bytes: Sequence[bytes | None], eos_token_id: int) -> None:
        if isinstance(token_bytes, str | bytes) or not isinstance(token_bytes, Sequence):
            raise FormatError(
                f"Vocabulary: token_bytes is a {type(token_bytes).__name__}; give the list of the bytes of each token, or "
                "Vocabulary.from_tokenizer(tokenizer)"
            )
        for index, token in enumerate(token_bytes):
            if token is not None and not isinstance(token, bytes):
                raise FormatError(
                    f"Vocabulary: token {index} is {token!r:.40}, a {type(token).__name__}; give bytes: token.encode() if it "
                    "is what the token spells; the entries of a tokenizer spell bytes in their own way, so use "
                    "Vocabulary.from_tokenizer(tokenizer) for those"
                )
        if not isinstance(eos_token_id, Integral) or not 0 <= eos_token_id < len(token_bytes):
            raise ShapeError(
                f"eos_token_id is {eos_token_id!r}, but the ids run from 0 to {len(token_bytes) - 1}"
            )
        self.token_bytes: list[bytes | None] = [b or None for b in token_bytes]
        self._end_text: bytes | None = self.token_bytes[eos_token_id]  # its bytes, were it not the end token
        self.token_bytes[eos_token_id] = None
        self.eos_token_id: int = int(eos_token_id)
        self.tokenizer: Any = None  # what it was read from, as tokenizer_readers has them
        self._special: dict[str, int] = {}  # text -> the special token that spells it

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is recomputed on first use; the fingerprint is kept."""
        own = ("token_bytes", "eos_token_id", "tokenizer", "_special", "_end_text", "fingerprint")
        return {name: value for name, value in self.__dict__.items() if name in own}

    def __len__(self) -> int:
        return len(self.token_bytes)

    def __repr__(self) -> str:
        special = sum(token is None for token in self.token_bytes)
        return f"Vocabulary({len(self):,} tokens, {special} of them special, end token {self.eos_token_id})"

    @classmethod
    def from_tokenizer(
        cls, tokenizer: Any, *, eos_token_id: int | None = None, size: int | None = None
    ) -> Vocabulary:
        """Read a tokenizer of transformers, tokenizers, sentencepiece, mistral-common or tiktoken.

        ``eos_token_id`` defaults to the tokenizer's own. ``size`` is the width of the language model's output (default: the
        number of ids): a model may have outputs that are no tokens, which are never allowed, or too few for the last tokens,
        which are left out. Raises ``VocabularyMismatch`` if the end token is one of those left out; ``FormatError`` for families
        whose tokens are not plain pieces of text (WordPiece that moves punctuation, slow tokenizers of their own kind), if the
        tokenizer's decoder writes its tokens differently, or if there is no end token.
        """
        tokens, eos, source = token_bytes.read(tokenizer)
        eos = eos if eos_token_id is None else eos_token_id
        if eos is None:
            raise FormatError("the tokenizer names no end-of-sequence token; pass eos_token_id")
        size = len(tokens) if size is None else whole(size, "Vocabulary: size", 1, ShapeError)
        vocab = cls(fitted(tokens, size, eos), eos)
        vocab.tokenizer = source
        return vocab

    def adapted(
        self, *, eos_token_id: int | None = None, size: int | None = None, silent: Collection[int] = ()
    ) -> Vocabulary:
        """Return this vocabulary with another end token, another number of ids, or with tokens made special (``silent``).

        ``size`` is as in :meth:`from_tokenizer`. What :meth:`with_special` has given stays, but for tokens that are left out or
        silent. Raises ``VocabularyMismatch`` if the end token is left out, ``ShapeError`` if it was given a text.
        """
        eos = self.eos_token_id if eos_token_id is None else eos_token_id
        size = len(self) if size is None else whole(size, "Vocabulary: size", 1, ShapeError)
        if (eos, size) == (self.eos_token_id, len(self)) and not silent:
            return self
        words = list(self.token_bytes)
        words[self.eos_token_id] = self._end_text
        for token in (*self._special.values(), *silent):
            words[token] = None
        found = Vocabulary(fitted(words, size, eos), eos)
        found.tokenizer = self.tokenizer
        special = {
            text: token for text, token in self._special.items() if token < size and token not in silent
        }
        return found.with_special(special) if special else found

    def with_special(self, text_of: Mapping[str, int]) -> Vocabulary:
        """Return this vocabulary with text for special tokens: ``{"<|call|>": 200012}``.

        A constraint may then ask for that text. Ordinary tokens that spell it are allowed beside them. The fingerprint stays
        that of the tokenizer. Raises ``ShapeError`` for ids that are not special, or are the end token.
        """
        tokens = list(self.token_bytes)
        for text, token in text_of.items():
            if self._special.get(text) == token:
                continue
            if (
                not 0 <= token < len(self)
                or token == self.eos_token_id
                or tokens[token] is not None
                or not text
            ):
                raise ShapeError(
                    f"with_special: {text!r} is given the id {token}, which is not that of a special token"
                )
            tokens[token] = text.encode()
        found = Vocabulary(tokens, self.eos_token_id)
        found.tokenizer, found._special = self.tokenizer, {**self._special, **text_of}
        found._end_text = self._end_text
        found.__dict__["fingerprint"] = self.fingerprint
        return found

    @cached_property
    def trie(self) -> Trie:
        """The prefix tree of all tokens, made on first use; cached on disk from 10,000 tokens on."""
        if len(self) < KEPT_FROM:
            return Trie.of(self.token_bytes)
        kept = store.read("trie", self.cache_name)
        if kept is not None:
            return Trie.from_arrays(kept)
        trie = Trie.of(self.token_bytes)
        store.write("trie", self.cache_name, trie.arrays())
        return trie

    @cached_property
    def fingerprint(self) -> str:
        """A hash, in hexadecimal, of the bytes of every token, of which tokens are special, and of the end token.

        Vocabularies read from one tokenizer in different ways have the same one.
        """
        return fingerprint(self.token_bytes, self.eos_token_id)

    @cached_property
    def cache_name(self) -> str:
        """The name of its cache files: a digest of the fingerprint, size and special texts."""
        special = repr(sorted(self._special.items())).encode() if self._special else b""
        return store.digest([self.fingerprint.encode(), b"%d" % len(self), special])


def fitted(words: list[bytes | None], size: int, eos_token_id: int) -> list[bytes | None]:
    """Return the first ``size`` entries, ``None`` where there are fewer. Raises ``VocabularyMismatch``: the end token is cut."""
    if size <= eos_token_id < len(words):
        raise VocabularyMismatch(
            f"the end token is {eos_token_id}, but the model has only {size:,} outputs, 0 to {size - 1:,}, so that no text could "
            f"end: pass the model's own end token as eos_token_id; or {FEWER_OUTPUTS}"
        )
    return words[:size] + [None] * (size - len(words))
