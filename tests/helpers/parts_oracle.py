"""Budgets of parts by enumeration: expressions with limits, and the token sequences that they accept by definition."""

import itertools
import re
from dataclasses import dataclass
from functools import cache

from tractile.constraints import regex


@dataclass(frozen=True)
class Leaf:
    pattern: str

    def constraint(self):
        return regex(self.pattern)

    def spans(self, text, owner, begin, end):
        return re.fullmatch(self.pattern.encode(), text[begin:end]) is not None


@dataclass(frozen=True)
class Tokens:
    part: object
    at_most: int | None
    at_least: int

    def constraint(self):
        return self.part.constraint().tokens(self.at_most, self.at_least)

    def spans(self, text, owner, begin, end):
        count = len(set(owner[begin:end]))
        fits = self.at_least <= count and (self.at_most is None or count <= self.at_most)
        return fits and spans(self.part, text, owner, begin, end)


@dataclass(frozen=True)
class Either:
    options: tuple

    def constraint(self):
        first, *others = [option.constraint() for option in self.options]
        for other in others:
            first = first | other
        return first

    def spans(self, text, owner, begin, end):
        return any(spans(option, text, owner, begin, end) for option in self.options)


@dataclass(frozen=True)
class Series:
    parts: tuple

    def constraint(self):
        first, *others = [part.constraint() for part in self.parts]
        for other in others:
            first = first + other
        return first

    def spans(self, text, owner, begin, end):
        if not self.parts:
            return begin == end
        first, rest = self.parts[0], Series(self.parts[1:])
        return any(
            spans(first, text, owner, begin, middle) and spans(rest, text, owner, middle, end)
            for middle in range(begin, end + 1)
        )


@dataclass(frozen=True)
class Repeated:
    part: object
    low: int
    high: int | None

    def constraint(self):
        return self.part.constraint().repeat(self.low, self.high)

    def spans(self, text, owner, begin, end):
        most = max(self.low, end - begin) if self.high is None else self.high
        most = min(most, self.low + end - begin)  # further repetitions would be empty
        return any(
            spans(Series((self.part,) * number), text, owner, begin, end)
            for number in range(self.low, most + 1)
        )


@cache
def spans(node, text, owner, begin, end):
    """Whether a part of a text is one of an expression; ``owner[i]`` is the number of the token that wrote byte i."""
    return node.spans(text, owner, begin, end)


def accepted(node, vocab, most):
    """All sequences of at most so many tokens, EOS apart, that an expression accepts."""
    words = [(token, word) for token, word in enumerate(vocab.token_bytes) if word]
    found = set()
    for length in range(most + 1):
        for some in itertools.product(words, repeat=length):
            text = b"".join(word for _, word in some)
            owner = tuple(i for i, (_, word) in enumerate(some) for _ in word)
            if spans(node, text, owner, 0, len(text)):
                found.add(tuple(token for token, _ in some))
    spans.cache_clear()
    return found


def check_masks(query, sequences, eos, horizon):
    """All masks of a query with a budget of ``horizon`` tokens, against the sequences that fit it."""
    whole = {(*tokens, eos) for tokens in sequences if len(tokens) < horizon}
    allowed = {}
    for tokens in whole:
        for at, token in enumerate(tokens):
            allowed.setdefault(tokens[:at], set()).add(token)
    states = [()]
    for prefix in states:
        row = query.start()
        for token in prefix:
            row.advance([token])
        got = set(row.mask()[0].nonzero().flatten().tolist())
        assert got == allowed[prefix], (prefix, got, allowed[prefix])
        states += [(*prefix, token) for token in sorted(got) if token != eos]
    return len(states)
