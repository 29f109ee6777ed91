"""How the tokenizers of each library write their tokens: the bytes of every token, read from the tokenizer's own tables.

    tokenizers, transformers (fast)    byte-level, SentencePiece-like, words joined by spaces
    transformers (slow)                GPT-2's bytes, SentencePiece models, plain bytes (ByT5)
    sentencepiece, mistral-common      pieces of a SentencePiece model; tekken
    tiktoken                           ranks

Special tokens, unknown characters and ids without a token (*holes*) have no bytes: ``None``. :mod:`.token_bytes` chooses the
reader of a tokenizer and checks what it read against the tokenizer's decoder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import FormatError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Words = list[bytes | None]
SINGLE_BYTES = {f"<0x{n:02X}>": bytes([n]) for n in range(256)}
"""The pieces of byte fallback."""


class Read(NamedTuple):
    """The bytes of each token, the end token that the tokenizer names, and its decoder: ids to text."""

    tokens: Words
    eos_token_id: int | None
    decode: Callable[[list[int]], str]


def words_of(
    vocab: Mapping[str, int], special: Collection[int | None], read: Callable[[str], bytes]
) -> Words:
    """Return the bytes of each token of a vocabulary (entry → id), ``None`` for special tokens and holes."""
    if not vocab:
        raise FormatError("the tokenizer has no tokens: load the one that belongs to the language model")
    tokens: Words = [None] * (max(vocab.values()) + 1)
    for token, index in vocab.items():
        if index not in special:
            tokens[index] = read(token)
    return tokens


def pieces(token: str) -> bytes:
    """Return the bytes of a SentencePiece piece that is not a single byte."""
    return token.replace("▁", " ").encode()


# ---------------------------------------------------------------- tokenizers


def read_backend(backend: Tokenizer, special_ids: Sequence[int], eos_token_id: int | None = None) -> Read:
    """Read a ``tokenizers.Tokenizer``, as its decoder writes each token. Raises ``FormatError``."""
    # The parts are read one by one: as one text, a tokenizer of 262,144 tokens is 33 MB, most of it merges.
    decoder = {"type": None} if backend.decoder is None else json.loads(backend.decoder.__getstate__())
    added = backend.get_added_tokens_decoder().items()
    special = {index for index, token in added if token.special} | {*special_ids} | unknown_ids(backend)
    vocab = backend.get_vocab(with_added_tokens=True)
    tokens = words_of(vocab, special, spelling_of(decoder, type(backend.model).__name__))
    return Read(tokens, eos_token_id, lambda ids: str(backend.decode(ids, skip_special_tokens=False)))


def spelling_of(decoder: dict[str, Any], model: str) -> Callable[[str], bytes]:
    """Return how a decoder of ``tokenizers``, given by its settings, writes tokens as bytes; ``model`` is named in errors.

    Raises ``FormatError`` for one whose texts are not its tokens in a row.
    """
    parts = decoder.get("decoders", [decoder])
    kinds = [part["type"] for part in parts]
    if "ByteLevel" in kinds:
        return by_alphabet(byte_alphabet())
    if "Metaspace" in kinds or ("Replace" in kinds and "▁" in json.dumps(decoder, ensure_ascii=False)):
        single = SINGLE_BYTES if "ByteFallback" in kinds else {}
        return lambda token: single.get(token) or pieces(token)
    if kinds == ["WordPiece"] and not parts[0]["cleanup"]:
        prefix = parts[0]["prefix"]
        return lambda token: (token[len(prefix) :] if token.startswith(prefix) else f" {token}").encode()
    why = ""
    if kinds == ["WordPiece"]:
        why = (
            "; its decoder moves punctuation (cleanup), and where a text may do without that, "
            "tokenizer.decoder = tokenizers.decoders.WordPiece(cleanup=False) is read"
        )
    raise FormatError(
        f"the tokenizer is a {model} with decoder {kinds}; only byte-level and SentencePiece-style ones have tokens that "
        f"are plain pieces of text{why}"
    )


def byte_alphabet() -> dict[str, int]:
    """Map GPT-2's printable stand-in characters to the bytes that they stand for."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = (byte for byte in range(256) if byte not in shown)
    return {chr(b): b for b in shown} | {chr(256 + i): b for i, b in enumerate(hidden)}


def by_alphabet(byte_of: Mapping[str, int]) -> Callable[[str], bytes]:
    """Return how a token of characters that stand for bytes is read; one with other characters (an added one) is plain text."""

    def read(token: str) -> bytes:
        try:
            return bytes(map(byte_of.__getitem__, token))
        except KeyError:
            return token.encode()

    return read


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


# ---------------------------------------------------------------- slow tokenizers of transformers


def read_slow(tokenizer: Any) -> Read:
    """Read a tokenizer of transformers that is written in Python: GPT-2's bytes, a SentencePiece model, or plain bytes.

    Raises ``FormatError`` for any other.
    """
    added = tokenizer.added_tokens_decoder
    special = {*tokenizer.all_special_ids, *(index for index, token in added.items() if token.special)}
    vocab = tokenizer.get_vocab()
    byte_of, model = getattr(tokenizer, "byte_decoder", None), getattr(tokenizer, "sp_model", None)
    if byte_of is not None:
        read = by_alphabet(byte_of)
    elif model is not None:
        single = SINGLE_BYTES if tokenizer.convert_tokens_to_string(["<0x41>"]) == "A" else {}
        controls = {i for i in range(model.get_piece_size()) if model.is_control(i) or model.is_unused(i)}
        names = {model.id_to_piece(i) for i in controls}
        special |= {index for token, index in vocab.items() if token in names}

        def read(token: str) -> bytes:
            return single.get(token) or pieces(token)

    elif getattr(tokenizer, "_utf_vocab_size", None) == 256:  # ByT5, Perceiver: the character of each byte

        def read(token: str) -> bytes:
            return bytes([ord(token)]) if len(token) == 1 else token.encode()

    else:
        raise FormatError(
            f"cannot read the bytes of the tokens of a {type(tokenizer).__name__}, a slow tokenizer; give the fast one "
            "(use_fast=True), or the bytes themselves: Vocabulary(bytes, eos_token_id)"
        )
    tokens = words_of(vocab, special, read)
    for index, token in added.items():
        if index not in special:
            tokens[index] = pieces(token.content) if model is not None else token.content.encode()
    options = dict.fromkeys(
        ("skip_special_tokens", "clean_up_tokenization_spaces", "spaces_between_special_tokens"), False
    )
    return Read(tokens, tokenizer.eos_token_id, lambda ids: str(tokenizer.decode(ids, **options)))


# ---------------------------------------------------------------- sentencepiece, mistral-common, tiktoken


def read_sentencepiece(model: Any) -> Read:
    """Read a ``sentencepiece.SentencePieceProcessor``: bytes of byte fallback, and pieces with ``▁`` for a space."""

    def word(index: int) -> bytes | None:
        if model.is_control(index) or model.is_unknown(index) or model.is_unused(index):
            return None
        piece = model.id_to_piece(index)
        return SINGLE_BYTES[piece] if model.is_byte(index) else pieces(piece)

    eos = model.eos_id()
    tokens = [word(index) for index in range(model.get_piece_size())]
    return Read(tokens, None if eos < 0 else eos, lambda ids: str(model.decode(ids)))


def the_mistral_tokenizer(tokenizer: Any) -> Any:
    """Return the Tekkenizer, or the SentencePiece model, of a tokenizer of mistral-common or of transformers around one.

    Raises ``FormatError``.
    """
    for name in (
        "tokenizer",
        "instruct_tokenizer",
        "tokenizer",
    ):  # of transformers, MistralTokenizer, its parts
        if type(tokenizer).__name__ not in ("Tekkenizer", "SentencePieceTokenizer"):
            tokenizer = getattr(tokenizer, name, tokenizer)
    if type(tokenizer).__name__ == "SentencePieceTokenizer":
        return tokenizer._model
    if type(tokenizer).__name__ != "Tekkenizer":
        raise FormatError(
            f"a {type(tokenizer).__name__} of mistral-common is neither a Tekkenizer nor a SentencePieceTokenizer; give one "
            "of those, or a MistralTokenizer with one"
        )
    return tokenizer


def read_tekken(tokenizer: Any) -> Read:
    """Read a Tekkenizer of mistral-common."""
    special = tokenizer.num_special_tokens
    tokens = [None if i < special else tokenizer.id_to_byte_piece(i) for i in range(tokenizer.n_words)]
    return Read(tokens, tokenizer.eos_id, lambda ids: str(tokenizer.decode(ids)))


def tekken_encode(tokenizer: Any) -> Callable[[str], list[int]]:
    """Return a function that encodes a text to ids, without special tokens around it."""
    return lambda text: list(tokenizer.encode(text, bos=False, eos=False))


def read_tiktoken(encoding: Any) -> Read:
    """Read a ``tiktoken.Encoding``: ids between its ranks and its special tokens may have no token (cl100k, o200k)."""
    names = encoding.special_tokens_set
    special = {encoding.encode_single_token(name) for name in names}

    def word(index: int) -> bytes | None:
        try:
            return None if index in special else bytes(encoding.decode_single_token_bytes(index))
        except KeyError:
            return None

    tokens = [word(index) for index in range(encoding.n_vocab)]
    eos = encoding.eot_token if "<|endoftext|>" in names else None
    return Read(tokens, eos, lambda ids: str(encoding.decode(ids)))
