"""The bytes of every token, read from a tokenizer of transformers, tokenizers, sentencepiece, mistral-common or tiktoken.

    text = bytes(token_1) + bytes(token_2) + ...

For a byte-level tokenizer (GPT-2, NeoX, Llama 3, tekken) the bytes are those of the vocabulary entry, which need not be
valid UTF-8 on their own. For a SentencePiece-style one, ``▁`` stands for a space and ``<0xNN>`` for a byte. Special
tokens, and ids that the tokenizer gives to no token, have no bytes (``None``): they never match text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Sized
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, TypeVar
from weakref import WeakKeyDictionary

from .errors import FormatError
from .fingerprints import fingerprint
from .tokenizer_readers import (
    Read,
    read_backend,
    read_sentencepiece,
    read_slow,
    read_tekken,
    read_tiktoken,
    the_mistral_tokenizer,
)
from .tokenizer_readers import backend_encode as backend_encode
from .tokenizer_readers import tekken_encode as tekken_encode

if TYPE_CHECKING:
    from tokenizers import Tokenizer


T = TypeVar("T")


class TokenizerReading(NamedTuple):
    """The tokens of a tokenizer: the bytes of each id, the end token that it names, and the object that encodes text."""

    tokens: list[bytes | None]
    eos_token_id: int | None
    source: Any  # what source_of returns


def is_backend(tokenizer: Any) -> TypeGuard[Tokenizer]:
    """Return whether a tokenizer is a ``tokenizers.Tokenizer``; the package takes an eighth of a second to import."""
    from tokenizers import Tokenizer

    return isinstance(tokenizer, Tokenizer)


def read(tokenizer: Any) -> TokenizerReading:
    """Read the bytes of a tokenizer's tokens; it is a tokenizer of one of the libraries above.

    They are read once for each tokenizer, and again when its tokens have changed. Raises ``FormatError`` for families whose
    tokens are not plain pieces of text (WordPiece with cleanup, most slow tokenizers of their own kind), and if the tokenizer's
    decoder writes its tokens differently.
    """
    tokens, eos = once(tokenizer, ("read", *state(tokenizer)), lambda: _read(tokenizer))
    return TokenizerReading(tokens, eos, source_of(tokenizer))


def _read(tokenizer: Any) -> tuple[list[bytes | None], int | None]:
    found = _reader(tokenizer, source_of(tokenizer), _packages(tokenizer))
    check_reading(found)
    return found.tokens, found.eos_token_id


def _reader(tokenizer: Any, source: Any, packages: set[str]) -> Read:
    if is_backend(tokenizer):
        return read_backend(source, [])
    if is_backend(source):
        return read_backend(source, tokenizer.all_special_ids, tokenizer.eos_token_id)
    if "sentencepiece" in _packages(source):
        return read_sentencepiece(source)
    if type(source).__name__ == "Tekkenizer":
        return read_tekken(source)
    if "tiktoken" in packages:
        return read_tiktoken(source)
    if "transformers" in packages:
        return read_slow(tokenizer)
    raise FormatError(
        f"cannot read the bytes of the tokens of a {type(tokenizer).__name__}; give a tokenizer of transformers, a "
        "tokenizers.Tokenizer, a SentencePieceProcessor, a MistralTokenizer or a tiktoken.Encoding, or the bytes themselves: "
        "Vocabulary(bytes, eos_token_id)"
    )


def source_of(tokenizer: Any) -> Any:
    """Return the object that encodes text: what a tokenizer of transformers or mistral-common is made around, or itself.

    That is a ``tokenizers.Tokenizer``, a Tekkenizer or a SentencePieceProcessor; a slow tokenizer of transformers is its own.
    """
    packages = _packages(tokenizer)
    if "mistral_common" in packages or type(tokenizer).__name__.startswith("MistralCommon"):
        return the_mistral_tokenizer(tokenizer)
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


def size_of(tokenizer: Any) -> int:
    """Return the number of ids of a tokenizer, holes included: one past its largest."""
    find = getattr(tokenizer, "get_vocab", None)
    if find is None:
        return len(tokenizer)
    return once(tokenizer, ("size", *state(tokenizer)), lambda: 1 + max(find().values(), default=-1))


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


def check_reading(found: Read) -> None:
    """Raise ``FormatError`` unless the decoder writes the tokens in a row as their bytes, but for white space at the ends.

    Asked about all tokens that are text by themselves; those that are parts of a character are written together by the decoder.
    """
    words = {index: text for index, word in enumerate(found.tokens) if (text := _text(word))}
    ids = list(words)

    def differs(count: int) -> bool:
        spelled = "".join(words[index] for index in ids[:count])
        try:
            return found.decode(ids[:count]).strip() != spelled.strip()
        except Exception:  # libraries raise what they like for a token that they cannot write
            return True

    if differs(len(ids)):
        at = ids[bisect_left(range(1, len(ids)), True, key=differs)]
        raise FormatError(
            f"the token {at} reads as {words[at]!r}, but the tokenizer's decoder does not write it so after other tokens: it "
            "changes text in a way that is not understood; give the bytes of its tokens yourself: Vocabulary(bytes, eos_token_id)"
        )


def _text(word: bytes | None) -> str | None:
    try:
        return None if word is None else word.decode()
    except UnicodeDecodeError:
        return None
