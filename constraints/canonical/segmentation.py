"""How a tokenizer splits and merges text, read from its settings, for ``compile(canonical=True)``.

Supported are byte-pair encodings of the tokenizers package (byte-level and SentencePiece-like ones), tiktoken and tekken. A
text is a *continuation*: the space that some tokenizers put before a text is left out. Texts that contain the spelling of an
added token ("</s>") are excluded, since the tokenizer would read that token.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Bool
from numpy import ndarray

from ...token_bytes import backend_encode, is_backend, tekken_encode
from ..automata import utf8
from ..automata.nfa import Nfa
from ..automata.utf8 import CodePoints
from ..vocabulary.vocabulary import Vocabulary
from .bpe import Followers, Pair
from .marked_text import BYTE, LOW_LINE, MARK, SPACE, SymbolAlphabet, marked_text
from .pretokens import Stage, bounds, by_tiktoken, refused, stages

NO_TEXT = {MARK, BYTE}
SAMPLES = ("Once upon a time, a cat", ' said  12.5%\n\tok: {"a": [1]}', "don't", "naïve café — 東京 🙂 ты")


@dataclass
class Segmentation:
    """How a tokenizer segments text.

    ``marked``: its texts with marks at the boundaries of pieces; ``followers``: which tokens may be neighbours within a
    piece; ``written``: the bytes of each token in marked text, None for a token that is never used.
    """

    marked: Nfa
    followers: Followers
    written: list[bytes | None]
    single: Bool[ndarray, " token"]  # tokens of byte fallback: one byte of a character, never merged
    excluded: list[str]  # strings that no text may contain
    name: bytes  # a key of all of this, for the cache

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The tokens of marked text: token v of n as v within a piece, as n + v after the mark that begins one; 2n is the end."""
        marked = [None if word is None else bytes([MARK]) + word for word in self.written]
        return Vocabulary([*self.written, *marked, None], eos_token_id=2 * len(self.written))

    def writes(self, tokens: Sequence[int]) -> bool:
        """Return whether the tokenizer segments some text into these tokens."""
        states, before = set(self.marked.start.tolist()), -1
        for token in tokens:
            word = self.written[token]
            if word is None:
                return False
            apart = before < 0 or self.single[before] or token not in self.followers.forbidden(before)
            inside = {self.marked.run(state, word) for state in states} if apart else set()
            states = (inside | {self.marked.run(state, bytes([MARK]) + word) for state in states}) - {-1}
            before = token
        return not states.isdisjoint(self.marked.accept.tolist())


_known: WeakKeyDictionary[Vocabulary, Segmentation] = WeakKeyDictionary()


def segmentation_of(vocab: Vocabulary) -> Segmentation:
    """Return the segmentation of a vocabulary's tokenizer, cached.

    Raises ``UnsupportedConstraint`` for a tokenizer that is not supported.
    """
    found = _known.get(vocab)
    if found is None:
        found = _known[vocab] = read(vocab)
    return found


def read(vocab: Vocabulary) -> Segmentation:
    """Read the segmentation of a vocabulary's tokenizer, and check it on sample texts.

    Raises ``UnsupportedConstraint`` for a tokenizer that is not supported.
    """
    source = vocab.tokenizer
    if source is None:
        raise refused("vocabulary of bytes alone, without merges: read it with Vocabulary.from_tokenizer")
    if is_backend(source):
        found, encode = of_tokenizers(vocab, source), backend_encode(source)
    elif type(source).__name__ == "Tekkenizer":
        found, encode = of_tiktoken(vocab, source._model, source.num_special_tokens), tekken_encode(source)
    elif type(source).__name__ == "Encoding":
        found, encode = of_tiktoken(vocab, source, 0), source.encode_ordinary
    else:
        raise refused(
            f"{type(source).__name__}, which is no byte-pair encoding of tokenizers, tiktoken or tekken"
        )
    for sample in SAMPLES:
        tokens = encode(sample)
        if all(vocab.token_bytes[i] is not None for i in tokens) and not found.writes(tokens):
            raise refused(f"way of its own to write {sample!r}, which its settings do not tell")
    return found


def of_tokenizers(vocab: Vocabulary, backend: Any) -> Segmentation:
    """Read the segmentation of a ``tokenizers.Tokenizer``."""
    settings = json.loads(backend.to_str())
    model, before = settings["model"], settings["pre_tokenizer"]
    if model["type"] != "BPE":
        raise refused(f"{model['type']} model, which is not byte-pair encoding")
    for option in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(option):
            raise refused(f"model with {option}")
    kinds = [before["type"]] if before else []
    kinds += [part["type"] for part in (before or {}).get("pretokenizers", [])]
    byte_level, low_lines = "ByteLevel" in kinds, replaces_spaces(settings["normalizer"])
    ids, added = model["vocab"], {token["id"] for token in settings["added_tokens"]}
    merges = dict[Pair, tuple[int, int]]()
    for rank, (left, right) in enumerate(m.split(" ") if isinstance(m, str) else m for m in model["merges"]):
        merges[ids[left], ids[right]] = (rank, ids[left + right])
    symbols = without_symbols(ids, vocab)
    for text, token in ids.items():
        if token not in added and all(c in ids for c in text):
            symbols[token] = [ids[c] for c in text]
    single = np.zeros(len(vocab), bool)
    written = [None if symbols[i] is None else word for i, word in enumerate(vocab.token_bytes)]
    spelling = SymbolAlphabet(utf8.EVERY, ())
    if not byte_level:
        low_lines_somewhere = low_lines or "Metaspace" in kinds
        spelling = spelled_by(ids, low_lines_somewhere, model.get("byte_fallback", False))
        if spelling.bytes:
            for byte in range(256):
                token = ids.get(f"<0x{byte:02X}>", -1)
                if token < 0:
                    raise refused("byte fallback without a token for every byte")
                symbols[token], written[token], single[token] = None, bytes([BYTE, byte]), True
    followers = Followers(symbols, merges)
    excluded = [
        token["content"].replace("▁", " ") if low_lines else token["content"]
        for token in settings["added_tokens"]
    ]
    marked = marked_text(tuple(stages(before, low_lines)), spelling)
    found = Segmentation(marked, followers, written, single, excluded, backend.to_str().encode())
    return checked(found, model.get("ignore_merges", False))


def without_symbols(ids: Mapping[Any, int], vocab: Vocabulary) -> list[list[int] | None]:
    """Return a place for the symbols of each token; raise ``UnsupportedConstraint`` if the vocabulary lacks a token."""
    if max(ids.values(), default=0) >= len(vocab):
        raise refused(f"token {max(ids.values())}, which the vocabulary of {len(vocab):,} ids leaves out")
    return [None] * len(vocab)


def replaces_spaces(normalizer: dict[str, Any] | None) -> bool:
    """Return whether the normalizer turns spaces into ``▁``; a prepended one does not count."""
    parts = [] if normalizer is None else normalizer.get("normalizers", [normalizer])
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    for part in parts:
        if part != replace and part["type"] != "Prepend":
            raise refused(f"normalizer {part['type']}")
    return replace in parts


def spelled_by(ids: dict[str, int], low_lines: bool, byte_fallback: bool) -> SymbolAlphabet:
    """Return the characters that a character-level model has as symbols, and those it writes by bytes."""
    points = utf8.normalize((ord(c), ord(c)) for c in ids if len(c) == 1)
    never: CodePoints = ()
    if low_lines:  # the symbol stands for a space, so that the character itself cannot be written
        space: CodePoints = ((SPACE, SPACE),)
        never = ((LOW_LINE, LOW_LINE),)
        has = bool(utf8.within(points, never))
        points = utf8.within(points, utf8.negate(utf8.normalize([*space, *never])))
        points = utf8.normalize([*points, *(space if has else ())])
    rest = utf8.within(utf8.negate(points), utf8.negate(never))
    return SymbolAlphabet(points, rest if byte_fallback else ())


def of_tiktoken(vocab: Vocabulary, encoding: Any, shift: int) -> Segmentation:
    """Read the segmentation of a ``tiktoken.Encoding`` whose token ids are shifted by ``shift``."""
    ranks: dict[bytes, int] = encoding._mergeable_ranks
    ids = {word: rank + shift for word, rank in ranks.items()}
    merges = dict[Pair, tuple[int, int]]()
    symbols = without_symbols(ids, vocab)
    for word, token in ids.items():
        if all(word[i : i + 1] in ids for i in range(len(word))):
            symbols[token] = [ids[word[i : i + 1]] for i in range(len(word))]
        for i in range(1, len(word)):
            if word[:i] in ids and word[i:] in ids:
                merges[ids[word[:i]], ids[word[i:]]] = (token, token)
    written = [None if symbols[i] is None else word for i, word in enumerate(vocab.token_bytes)]
    stage = Stage(encoding._pat_str, bounds("isolated"), by_tiktoken, gaps=False)
    marked = marked_text((stage,), SymbolAlphabet(utf8.EVERY, ()))
    single = np.zeros(len(vocab), bool)
    name = b"%d %s" % (shift, encoding._pat_str.encode())
    return checked(Segmentation(marked, Followers(symbols, merges), written, single, [], name), True)


def checked(found: Segmentation, whole_words: bool) -> Segmentation:
    """Mark tokens that merges do not make as never used.

    Raises ``UnsupportedConstraint`` for such a token if the tokenizer looks up whole pieces, and would use it.
    """
    for token, word in enumerate(found.written):
        if word is not None and not NO_TEXT.isdisjoint(word[1:] if found.single[token] else word):
            found.written[token] = None  # contains a byte that is reserved for marks
    made = found.followers.made
    orphans = [
        i for i, word in enumerate(found.written) if word is not None and not made[i] and not found.single[i]
    ]
    for token in orphans:
        word = found.written[token]
        if whole_words and word is not None and found.marked.accepts(word):
            raise refused(f"token that only a whole piece becomes, {word!r}")
        found.written[token] = None
    return found
