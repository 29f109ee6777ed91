"""The bytes of every token, and the trie of them.

    text = bytes(token_1) + bytes(token_2) + ...

For a byte-level tokenizer (GPT-2, NeoX, Llama 3, tekken) the bytes are those of the vocabulary entry, which need not be
valid UTF-8 on their own. For a SentencePiece-style one, ``▁`` stands for a space and ``<0xNN>`` for a byte. Special
tokens have no bytes (``None``): they never match text.

Bytes are those of a *continuation*: after a prompt, SentencePiece's ``▁Once`` reads " Once". Only at the very start of a
text do such tokenizers drop one leading space; to generate from an empty prompt write the constraint as
``literal(" ") + c`` and strip the space from the result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer

from ..errors import FormatError, ShapeError
from . import store
from .cells import Cells
from .trie import Trie

if TYPE_CHECKING:
    from .segmentation import Segmentation

KEPT_FROM = 10_000  # tokens


class Vocabulary:
    """The bytes of each token by id, and which token ends the text.

    ``token_bytes[i]`` is ``None`` for a special token. Tokens of no bytes at all are treated as special: they would let a text
    of any length go on for ever without a letter. Raises ``ShapeError`` if ``eos_token_id`` is not an id and
    ``FormatError`` for tokens that are no bytes: what a text among them spells would be a guess.
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
        self.token_bytes[eos_token_id] = None
        self.eos_token_id: int = int(eos_token_id)
        self.tokenizer: Any = None  # what it was read from: a Tokenizer, an Encoding or a Tekkenizer

    def __len__(self) -> int:
        return len(self.token_bytes)

    @classmethod
    def from_tokenizer(
        cls, tokenizer: Any, *, eos_token_id: int | None = None, size: int | None = None
    ) -> Vocabulary:
        """Read a tokenizer of transformers (fast), tokenizers, mistral-common (tekken) or tiktoken.

        ``eos_token_id`` defaults to the tokenizer's own; ``size`` (default: the tokenizer's) is that of the language
        model's output where it is padded with unused ids. Raises ``FormatError`` for families whose tokens are not
        plain pieces of text (WordPiece, slow tokenizers) and where encoding a sample does not give its bytes back.
        """
        source = tokenizer
        packages = {cls.__module__.partition(".")[0] for cls in type(tokenizer).__mro__}
        if isinstance(tokenizer, Tokenizer):
            tokens, encode, eos = read_backend(tokenizer, []), backend_encode(tokenizer), None
        elif "transformers" in packages and tokenizer.is_fast:
            source = tokenizer.backend_tokenizer
            tokens, encode = read_backend(source, tokenizer.all_special_ids), backend_encode(source)
            eos = tokenizer.eos_token_id
        elif "mistral_common" in packages:
            source = the_tekkenizer(tokenizer)
            tokens, encode, eos = read_tekken(source)
        elif "tiktoken" in packages:
            special = {tokenizer.encode_single_token(s) for s in tokenizer.special_tokens_set}
            single = tokenizer.decode_single_token_bytes
            known = set(range(tokenizer.n_vocab)) - special
            tokens = [single(i) if i in known else None for i in range(tokenizer.n_vocab)]
            encode, eos = tokenizer.encode_ordinary, tokenizer.eot_token
        else:
            raise FormatError(
                f"cannot read the bytes of the tokens of a {type(tokenizer).__name__}; give a fast tokenizer of transformers, "
                "a tokenizers.Tokenizer, a Tekkenizer or a tiktoken.Encoding, or the bytes themselves: Vocabulary(bytes, eos)"
            )
        check_reading(tokens, encode)
        eos = eos if eos_token_id is None else eos_token_id
        if eos is None:
            raise FormatError("the tokenizer names no end-of-sequence token; pass eos_token_id")
        if size is not None and size < len(tokens):
            raise ShapeError(f"size is {size}, but the tokenizer has {len(tokens)} tokens")
        vocab = cls(tokens + [None] * ((size or len(tokens)) - len(tokens)), eos)
        vocab.tokenizer = source
        return vocab

    @cached_property
    def trie(self) -> Trie:
        """The prefix tree of all tokens, made on first use; a large one is kept on disk (``store.py``)."""
        if len(self) < KEPT_FROM:
            return Trie.of(self.token_bytes)
        kept = store.read("trie", self.digest)
        if kept is not None:
            return Trie.from_arrays(kept)
        trie = Trie.of(self.token_bytes)
        store.write("trie", self.digest, trie.arrays())
        return trie

    @cached_property
    def digest(self) -> str:
        """A name for the bytes of all tokens and which one ends the text."""
        length = np.array([-1 if b is None else len(b) for b in self.token_bytes], np.int32)
        return store.digest([length, b"".join(b or b"" for b in self.token_bytes), b"%d" % self.eos_token_id])

    @cached_property
    def cells(self) -> Cells:
        """What is known of repeated letters, shared by all constraints compiled for this vocabulary."""
        return Cells(self.trie)

    @cached_property
    def segmentation(self) -> Segmentation:
        """How the tokenizer splits and merges text. Raises ``UnsupportedConstraint`` for what is not read."""
        from .segmentation import read  # reads patterns, which are constraints too

        return read(self)


# ---------------------------------------------------------------- reading


def byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte, the other way round."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = (byte for byte in range(256) if byte not in shown)
    return {chr(b): b for b in shown} | {chr(256 + i): b for i, b in enumerate(hidden)}


def read_backend(backend: Tokenizer, special_ids: Sequence[int]) -> list[bytes | None]:
    """The bytes of each token of a ``tokenizers.Tokenizer``, as its decoder would write them. Raises ``FormatError``."""
    settings = json.loads(backend.to_str())
    model, decoder = settings["model"], settings["decoder"] or {"type": None}
    kinds = [part["type"] for part in decoder.get("decoders", [decoder])]
    special = {token["id"] for token in settings["added_tokens"] if token["special"]} | set(special_ids)
    if model.get("unk_token") is not None:
        special.add(backend.token_to_id(model["unk_token"]))
    if model.get("unk_id") is not None:
        special.add(model["unk_id"])
    read: Callable[[str], bytes]
    if "ByteLevel" in kinds:
        alphabet = byte_alphabet()

        def read(token: str) -> bytes:
            known = all(c in alphabet for c in token)  # added tokens may be plain text
            return bytes(alphabet[c] for c in token) if known else token.encode()

    elif "Metaspace" in kinds or ("Replace" in kinds and "▁" in json.dumps(decoder, ensure_ascii=False)):
        fallback = re.compile("<0x([0-9A-F]{2})>")

        def read(token: str) -> bytes:
            byte = fallback.fullmatch(token) if "ByteFallback" in kinds else None
            return bytes([int(byte[1], 16)]) if byte else token.replace("▁", " ").encode()

    else:
        raise FormatError(
            f"the tokenizer is a {model['type']} with decoder {kinds}; only byte-level and SentencePiece-style ones have "
            "tokens that are plain pieces of text"
        )
    vocab = backend.get_vocab(with_added_tokens=True)
    tokens: list[bytes | None] = [None] * (max(vocab.values()) + 1)
    for token, index in vocab.items():
        if index not in special:
            tokens[index] = read(token)
    return tokens


def backend_encode(backend: Tokenizer) -> Callable[[str], list[int]]:
    """The ids of a text, without special tokens around it."""

    def encode(text: str) -> list[int]:
        return list(backend.encode(text, add_special_tokens=False).ids)

    return encode


def the_tekkenizer(tokenizer: Any) -> Any:
    """A Tekkenizer of mistral-common, or the one in a MistralTokenizer. Raises ``FormatError``."""
    if type(tokenizer).__name__ == "MistralTokenizer":
        tokenizer = tokenizer.instruct_tokenizer.tokenizer
    if type(tokenizer).__name__ != "Tekkenizer":
        raise FormatError(
            f"a {type(tokenizer).__name__} of mistral-common is not a Tekkenizer; give one of those"
        )
    return tokenizer


def read_tekken(tokenizer: Any) -> tuple[list[bytes | None], Callable[[str], list[int]], int]:
    """Bytes, encoder and EOS of a Tekkenizer of mistral-common."""
    special = tokenizer.num_special_tokens
    tokens = [None if i < special else tokenizer.id_to_byte_piece(i) for i in range(tokenizer.n_words)]
    return tokens, lambda text: tokenizer.encode(text, bos=False, eos=False), tokenizer.eos_id


SAMPLES = ("Once upon a time, a cat", ' said  12.5%\n\tok: {"a": [1]}', "don't", "naïve café — 東京 🙂 ты")


def check_reading(tokens: list[bytes | None], encode: Callable[[str], list[int]]) -> None:
    """Encoding a sample must give its bytes (or one more leading space). Raises ``FormatError``.

    A sample with a token that has no bytes (an unknown character) proves nothing and is passed over.
    """
    for sample in SAMPLES:
        pieces = [tokens[i] for i in encode(sample)]
        if all(piece is not None for piece in pieces):
            found = b"".join(piece or b"" for piece in pieces)
            if found not in (sample.encode(), b" " + sample.encode()):
                raise FormatError(
                    f"the tokens of {sample!r} read as {found!r}: the tokenizer changes text in a way that is not understood; "
                    "give the bytes of its tokens yourself: Vocabulary(bytes, eos_token_id)"
                )
