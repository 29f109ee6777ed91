"""The stages of a tokenizer's pre-tokenizer: the patterns that split text before merges.

Each stage (patterns, digits, punctuation, …) splits the pieces of the stage before. The characters of a class such as ``\\s``
or ``\\p{L}`` are found by running the tokenizer's own engine on a text of all characters, since engines differ.
``marked_text.py`` makes an automaton of the stages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...errors import UnsupportedConstraint
from ..automata import utf8
from ..automata.utf8 import CodePoints
from ..regex.properties import PLAIN_CLASS, PROPERTY

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
NAMED = rf"{PROPERTY}|\\[sSdDwWhH]"
CLASS = re.compile(rf"{NAMED}|(?P<class>\[)|\\.|.", re.DOTALL)
ClassReader = Callable[[str], CodePoints]  # from a character class in a pattern to its code points
Boundaries = frozenset[tuple[str, str]]
# the kinds of neighbouring pieces with a boundary between them; gap, gap occurs only if inverted
BEHAVIOURS: dict[str, set[tuple[str, str]]] = {
    "isolated": {("match", "match"), ("match", "gap"), ("gap", "match"), ("gap", "gap")},
    "removed": {("match", "match"), ("match", "gap"), ("gap", "match"), ("gap", "gap")},
    "mergedwithprevious": {("match", "match"), ("match", "gap"), ("gap", "gap")},
    "mergedwithnext": {("match", "match"), ("gap", "match"), ("gap", "gap")},
    "contiguous": {("match", "gap"), ("gap", "match")},
}


class Stage(NamedTuple):
    """One split: at the matches of a pattern.

    ``bounds``: the kinds of neighbouring pieces with a boundary between them. ``engine``: tells the characters of a class.
    ``gaps``: whether text between matches is kept. ``low_lines``: whether spaces have become ``▁`` before.
    ``dollar_is_line_end``: whether ``$`` matches before a newline.
    """

    pattern: str
    bounds: Boundaries
    engine: ClassReader
    gaps: bool = True
    low_lines: bool = False
    dollar_is_line_end: bool = False


# ---------------------------------------------------------------- the stages of a tokenizer


def stages(settings: dict[str, Any] | None, low_lines: bool) -> list[Stage]:
    """Return the stages of a pre-tokenizer of the tokenizers package.

    Raises ``UnsupportedConstraint`` for a pre-tokenizer that is not supported.
    """
    if settings is None:
        return []
    kind, found = settings["type"], list[Stage]()
    if kind == "Sequence":
        for part in settings["pretokenizers"]:
            found += stages(part, low_lines)
            low_lines |= part["type"] == "Metaspace"
        return found
    if kind == "ByteLevel":
        if not settings["use_regex"]:
            return []
        return [Stage(GPT2, bounds("isolated"), by_tokenizers, True, low_lines, True)]
    if kind == "Metaspace":
        return [Stage("▁", bounds("mergedwithnext"), by_tokenizers, True, True)] if settings["split"] else []
    if kind == "Digits":
        behaviour = "isolated" if settings["individual_digits"] else "contiguous"
        return [Stage(r"\p{Digits}", bounds(behaviour), by_splitting, True, low_lines)]
    engine: ClassReader = by_tokenizers
    if kind == "Punctuation":
        pattern, inverted, behaviour = r"\p{Punctuation}", False, settings["behavior"].lower()
        engine = by_splitting
    elif kind == "Split":
        (form, pattern), inverted = next(iter(settings["pattern"].items())), settings["invert"]
        pattern = re.escape(pattern) if form == "String" else pattern
        pattern, behaviour = in_python(pattern), settings["behavior"].lower()
    else:
        raise refused(f"pre-tokenizer {kind}")
    if behaviour not in BEHAVIOURS or (behaviour == "removed" and not inverted):
        raise refused(f"pre-tokenizer {kind} that is {behaviour!r}, so that text is lost")
    gaps = behaviour != "removed"
    return [Stage(pattern, bounds(behaviour, inverted), engine, gaps, low_lines, True)]


def in_python(pattern: str) -> str:
    """Translate a pattern of the tokenizers package: its ``x{1,3}+`` means ``(x{1,3})+``.

    Raises ``UnsupportedConstraint`` for such quantifiers other than ``{1,…}+``.
    """
    pattern = re.sub(r"(?<!\\)\{1,\d*\}\+", "+", pattern)
    if found := re.search(r"(?<!\\)\{\d+(,\d*)?\}\+|(?<!\\)\{\d+\}\?", pattern):
        raise refused(f"pattern with {found[0]}: {pattern}")
    return pattern


def refused(what: str) -> UnsupportedConstraint:
    """Return the error for a feature of a tokenizer that is not supported."""
    return UnsupportedConstraint(f"canonical=True: the tokenizer has a {what}; compile without canonical")


def bounds(behaviour: str, inverted: bool = False) -> Boundaries:
    """Return the kinds of neighbouring pieces between which the behaviour puts a boundary."""
    other = {"match": "gap", "gap": "match"} if inverted else {"match": "match", "gap": "gap"}
    return frozenset((other[a], other[b]) for a, b in BEHAVIOURS[behaviour])


# ---------------------------------------------------------------- character classes of the engines


@lru_cache(maxsize=1)
def all_text() -> str:
    """Return every character in order, without surrogates."""
    return "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))


@lru_cache(maxsize=64)
def by_tokenizers(text: str) -> CodePoints:
    """Return the characters that the tokenizers package matches with a class."""
    from tokenizers import Regex, normalizers

    rest = normalizers.Replace(Regex(f"(?:{text})+"), "").normalize_str(all_text())
    return utf8.within(utf8.negate(of_text(rest)), utf8.EVERY)


@lru_cache(maxsize=64)
def by_tiktoken(text: str) -> CodePoints:
    """Return the characters that tiktoken matches with a class."""
    import tiktoken

    ranks = {bytes([byte]): byte for byte in range(256)}
    found = tiktoken.Encoding("class", pat_str=f"(?:{text})+", mergeable_ranks=ranks, special_tokens={})
    return of_text(bytes(found.encode_ordinary(all_text())).decode())


@lru_cache(maxsize=2)
def by_splitting(text: str) -> CodePoints:
    """Return the characters that ``Digits`` or ``Punctuation`` splits off.

    Every second piece of a text of all characters consists of them, since its first character is not one.
    """
    from tokenizers import pre_tokenizers

    splitter = pre_tokenizers.Digits(False) if "Digits" in text else pre_tokenizers.Punctuation("contiguous")
    return of_text("".join(piece for piece, _ in splitter.pre_tokenize_str(all_text())[1::2]))


def of_text(text: str) -> CodePoints:
    """Return the characters of a text, which must be in ascending order, as ranges."""
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.int64)
    cut = np.flatnonzero(np.diff(points) != 1) + 1
    runs = np.split(points, cut) if len(points) else []
    return utf8.normalize((int(run[0]), int(run[-1])) for run in runs)


def spelled_out(pattern: str, engine: ClassReader) -> str:
    """Return a pattern with its character classes written out as ranges where engines of patterns read them differently."""
    parts, position = [], 0
    while found := CLASS.match(pattern, position):
        position, text = found.end(), found[0]
        if found["class"]:
            plain = PLAIN_CLASS.match(pattern, found.start())
            if plain is None:
                raise refused(f"pattern with a class that does not end: {pattern[found.start() :]}")
            position = plain.end()
            inner = re.sub(rf"{NAMED}|\\.", lambda m: as_ranges(m[0], engine), plain[0], flags=re.DOTALL)
            text = inner
        elif re.fullmatch(NAMED, text) or text == ".":
            text = f"[{as_ranges(text, engine)}]"
        parts.append(text)
    return "".join(parts)


def as_ranges(text: str, engine: ClassReader) -> str:
    """Write the characters of ``\\s``, a property, … as ranges; other escapes are unchanged."""
    if not re.fullmatch(NAMED, text) and text != ".":
        return text
    negated = text[1:2] in ("S", "D", "W", "H", "P")
    points = engine(text[0] + text[1].lower() + text[2:] if negated else text)
    return "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in (utf8.negate(points) if negated else points))
