"""The bytes of every token, read from a tokenizer of transformers, tokenizers, mistral-common or tiktoken.

    text = bytes(token_1) + bytes(token_2) + ...

For a byte-level tokenizer (GPT-2, NeoX, Llama 3, tekken) the bytes are those of the vocabulary entry, which need not be
valid UTF-8 on their own. For a SentencePiece-style one, ``▁`` stands for a space and ``<0xNN>`` for a byte. Special
tokens have no bytes (``None``): they never match text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence, Sized
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, TypeVar
from weakref import WeakKeyDictionary

from .errors import FormatError
from .fingerprints import fingerprint

if TYPE_CHECKING:
    from tokenizers import Tokenizer


T = TypeVar("T")


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

    They are read once for each tokenizer, and again when its tokens have changed. Raises ``FormatError`` for families whose
    tokens are not plain pieces of text (WordPiece, slow tokenizers), and if the tokens of an encoded sample do not spell the
    sample.
    """
    tokens, eos = once(tokenizer, ("read", *state(tokenizer)), lambda: _read(tokenizer))
    return Reading(tokens, eos, source_of(tokenizer))


def _read(tokenizer: Any) -> tuple[list[bytes | None], int | None]:
    source, packages = source_of(tokenizer), _packages(tokenizer)
    if is_backend(tokenizer):
        tokens, encode, eos = read_backend(source, []), backend_encode(source), None
    elif "transformers" in packages and tokenizer.is_fast:
        tokens, encode = read_backend(source, tokenizer.all_special_ids), backend_encode(source)
        eos = tokenizer.eos_token_id
    elif "mistral_common" in packages:
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
    return tokens, eos


def source_of(tokenizer: Any) -> Any:
    """Return the object that encodes text: the ``tokenizers.Tokenizer`` or Tekkenizer inside a tokenizer, or itself."""
    packages = _packages(tokenizer)
    if "mistral_common" in packages:
        return the_tekkenizer(tokenizer)
    return tokenizer.backend_tokenizer if "transformers" in packages and tokenizer.is_fast else tokenizer


def _packages(tokenizer: Any) -> set[str]:
    return {cls.__module__.partition(".")[0] for cls in type(tokenizer).__mro__}


def state(tokenizer: Any) -> tuple[Hashable, ...]:
    """Return what changes when a tokenizer's tokens do: their number, the end token and the special tokens."""
    if is_backend(tokenizer):
        return (tokenizer.get_vocab_size(),)
    count = len(tokenizer) if isinstance(tokenizer, Sized) else None
    specials = tuple(getattr(tokenizer, "all_special_ids", ()))
    return count, getattr(tokenizer, "eos_token_id", None), specials


_KNOWN: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()  # what was read, by tokenizer


def once(tokenizer: Any, key: tuple[Hashable, ...], make: Callable[[], T]) -> T:
    """Return ``make()``, kept with the tokenizer; one whose class allows no weak references keeps nothing."""
    try:
        known = _KNOWN.setdefault(tokenizer, {})
    except TypeError:
        known = {}
    if key not in known:
        known[key] = make()
    found: T = known[key]
    return found


def tokenizer_fingerprint(
    tokenizer: Any, eos_token_id: int | None = None, size: int | None = None
) -> str | None:
    """Compute the fingerprint of a tokenizer's vocabulary (:mod:`.fingerprints`); ``None`` if its bytes cannot be read.

    ``eos_token_id`` defaults to the tokenizer's own; with ``size`` only the first ``size`` tokens count. The result is cached
    for each tokenizer object.
    """

    def made() -> str | None:
        try:
            reading = read(tokenizer)
        except FormatError:
            return None
        eos = reading.eos_token_id if eos_token_id is None else eos_token_id
        return None if eos is None else fingerprint(reading.tokens[:size], eos)

    return once(tokenizer, (eos_token_id, size, *state(tokenizer)), made)


def byte_alphabet() -> dict[str, int]:
    """Map GPT-2's printable stand-in characters to the bytes that they stand for."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = (byte for byte in range(256) if byte not in shown)
    return {chr(b): b for b in shown} | {chr(256 + i): b for i, b in enumerate(hidden)}


def read_backend(backend: Tokenizer, special_ids: Sequence[int]) -> list[bytes | None]:
    """Read the bytes of each token of a ``tokenizers.Tokenizer``, as its decoder writes them. Raises ``FormatError``."""
    # The parts are read one by one: as one text, a tokenizer of 262,144 tokens is 33 MB, most of it merges.
    decoder = {"type": None} if backend.decoder is None else json.loads(backend.decoder.__getstate__())
    kinds = [part["type"] for part in decoder.get("decoders", [decoder])]
    added = backend.get_added_tokens_decoder().items()
    special = {index for index, token in added if token.special} | {*special_ids} | unknown_ids(backend)
    read: Callable[[str], bytes]
    if "ByteLevel" in kinds:
        byte_of = byte_alphabet().__getitem__

        def read(token: str) -> bytes:
            try:
                return bytes(map(byte_of, token))
            except KeyError:  # added tokens may be plain text
                return token.encode()

    elif "Metaspace" in kinds or ("Replace" in kinds and "▁" in json.dumps(decoder, ensure_ascii=False)):
        single = {f"<0x{n:02X}>": bytes([n]) for n in range(256)} if "ByteFallback" in kinds else {}

        def read(token: str) -> bytes:
            return single.get(token) or token.replace("▁", " ").encode()

    else:
        raise FormatError(
            f"the tokenizer is a {type(backend.model).__name__} with decoder {kinds}; only byte-level and SentencePiece-style "
            "ones have tokens that are plain pieces of text"
        )
    vocab = backend.get_vocab(with_added_tokens=True)
    if not vocab:
        raise FormatError("the tokenizer has no tokens: load the one that belongs to the language model")
    tokens: list[bytes | None] = [None] * (max(vocab.values()) + 1)
    for token, index in vocab.items():
        if index not in special:
            tokens[index] = read(token)
    return tokens


def unknown_ids(backend: Tokenizer) -> set[int | None]:
    """Return the id of the token for unknown characters, if the tokenizer has one."""
    if hasattr(backend.model, "unk_token"):
        name = backend.model.unk_token
        return set() if name is None else {backend.token_to_id(name)}
    return {json.loads(backend.to_str())["model"].get("unk_id")}  # Unigram does not tell it otherwise


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
