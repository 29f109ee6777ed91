"""The bytes of every token, read from a tokenizer of transformers, tokenizers, mistral-common or tiktoken.

    text = bytes(token_1) + bytes(token_2) + ...

For a byte-level tokenizer (GPT-2, NeoX, Llama 3, tekken) the bytes are those of the vocabulary entry, which need not be
valid UTF-8 on their own. For a SentencePiece-style one, ``▁`` stands for a space and ``<0xNN>`` for a byte. Special
tokens have no bytes (``None``): they never match text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard
from weakref import WeakKeyDictionary

from .errors import FormatError
from .fingerprints import fingerprint

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class Reading(NamedTuple):
    """The tokens of a tokenizer: the bytes of each id, the end token that it names, and the object that encodes text."""

    tokens: list[bytes | None]
    eos_token_id: int | None
    source: Any  # a tokenizers.Tokenizer, a tiktoken.Encoding or a Tekkenizer


def is_backend(tokenizer: Any) -> TypeGuard[Tokenizer]:
    """Return whether a tokenizer is a ``tokenizers.Tokenizer``; the package takes an eighth of a second to import."""
    from tokenizers import Tokenizer

    return isinstance(tokenizer, Tokenizer)


def read(tokenizer: Any) -> Reading:
    """Read the bytes of a tokenizer's tokens; it is a fast tokenizer of transformers or one of the libraries above.

    Raises ``FormatError`` for families whose tokens are not plain pieces of text (WordPiece, slow tokenizers), and if the
    tokens of an encoded sample do not spell the sample.
    """
    source, packages = tokenizer, {cls.__module__.partition(".")[0] for cls in type(tokenizer).__mro__}
    if is_backend(tokenizer):
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
    return Reading(tokens, eos, source)


_KNOWN: WeakKeyDictionary[Any, dict[Any, str | None]] = WeakKeyDictionary()  # fingerprints by tokenizer


def tokenizer_fingerprint(
    tokenizer: Any, eos_token_id: int | None = None, size: int | None = None
) -> str | None:
    """Compute the fingerprint of a tokenizer's vocabulary (:mod:`.fingerprints`); ``None`` if its bytes cannot be read.

    ``eos_token_id`` defaults to the tokenizer's own; with ``size`` only the first ``size`` tokens count. Reading takes about
    a second for 128,000 tokens; the result is cached for each tokenizer object.
    """
    own = getattr(tokenizer, "eos_token_id", None)
    specials = tuple(getattr(tokenizer, "all_special_ids", ()))
    key = (own if eos_token_id is None else eos_token_id, size, specials, _length(tokenizer))
    with suppress(TypeError):  # a tokenizer without weak references is not cached
        if key in _KNOWN.setdefault(tokenizer, {}):
            return _KNOWN[tokenizer][key]
    try:
        reading = read(tokenizer)
        eos = reading.eos_token_id if eos_token_id is None else eos_token_id
        found = None if eos is None else fingerprint(reading.tokens[:size], eos)
    except FormatError:
        found = None
    with suppress(TypeError):
        _KNOWN[tokenizer][key] = found
    return found


def _length(tokenizer: Any) -> int | None:
    try:
        return len(tokenizer)
    except TypeError:
        return None


def byte_alphabet() -> dict[str, int]:
    """Map GPT-2's printable stand-in characters to the bytes that they stand for."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = (byte for byte in range(256) if byte not in shown)
    return {chr(b): b for b in shown} | {chr(256 + i): b for i, b in enumerate(hidden)}


def read_backend(backend: Tokenizer, special_ids: Sequence[int]) -> list[bytes | None]:
    """Read the bytes of each token of a ``tokenizers.Tokenizer``, as its decoder writes them. Raises ``FormatError``."""
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
    if not vocab:
        raise FormatError("the tokenizer has no tokens: load the one that belongs to the language model")
    tokens: list[bytes | None] = [None] * (max(vocab.values()) + 1)
    for token, index in vocab.items():
        if index not in special:
            tokens[index] = read(token)
    return tokens


def backend_encode(backend: Tokenizer) -> Callable[[str], list[int]]:
    """Return a function that encodes a text to ids, without special tokens around it."""

    def encode(text: str) -> list[int]:
        try:
            return list(backend.encode(text, add_special_tokens=False).ids)
        except Exception as error:  # the library has no type of its own
            raise FormatError(f"the tokenizer cannot write {text!r}: {error}") from error

    return encode


def the_tekkenizer(tokenizer: Any) -> Any:
    """Return a Tekkenizer of mistral-common, given itself or inside a MistralTokenizer. Raises ``FormatError``."""
    if type(tokenizer).__name__ == "MistralTokenizer":
        tokenizer = tokenizer.instruct_tokenizer.tokenizer
    if type(tokenizer).__name__ != "Tekkenizer":
        raise FormatError(
            f"a {type(tokenizer).__name__} of mistral-common is not a Tekkenizer; give one of those"
        )
    return tokenizer


def read_tekken(tokenizer: Any) -> tuple[list[bytes | None], Callable[[str], list[int]], int]:
    """Return (bytes of each token, encoder, end token) of a Tekkenizer of mistral-common."""
    special = tokenizer.num_special_tokens
    tokens = [None if i < special else tokenizer.id_to_byte_piece(i) for i in range(tokenizer.n_words)]
    return tokens, lambda text: tokenizer.encode(text, bos=False, eos=False), tokenizer.eos_id


SAMPLES = ("Once upon a time, a cat", ' said  12.5%\n\tok: {"a": [1]}', "don't", "naïve café — 東京 🙂 ты")


def check_reading(tokens: list[bytes | None], encode: Callable[[str], list[int]]) -> None:
    """Raise ``FormatError`` unless the tokens of encoded samples spell the samples, up to one more leading space.

    A sample with a token that has no bytes (an unknown character) is skipped.
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
