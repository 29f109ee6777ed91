"""How much is done, counted: units of compiling, which decide what is refused, and calls of functions where states are walked.

No clock is read. Figures may fall: then write the lower one here. They rise only with what the change buys.
"""

import functools
import math
import sys
from collections import Counter
from pathlib import Path

import pytest

import tractile as tt
from tractile.constraints import grammar, json_schema, keywords, regex
from tractile.constraints.automata.lazy import Numbered
from tractile.constraints.automata.work import limited_to
from tractile.constraints.lifting.lazy_distances import Distances
from tractile.constraints.masks.lazy_tokens import LazyTokens

ROOT = Path(tt.__file__).resolve().parent
FOLDERS = (
    "constraints/automata",
    "constraints/lifting",
    "constraints/masks",
    "inference/next_token",
    "circuits",
)
WORDS = [
    '": "',
    '{"',
    '"}',
    '", "',
    '":',
    "name",
    "id",
    "ab",
    "abc",
    "true",
    "12",
    "00",
    "[[",
    "]]",
    '["',
    '"]',
    "((",
    "))",
]
TOKENS = [*(bytes([byte]) for byte in range(32, 127)), *(word.encode() for word in WORDS)]
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "id": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ["a", "bc"]}, "maxItems": 4},
    },
    "required": ["name", "id"],
}
TEXT = b'{"name": "abc", "id": 120, "tags": ["a", "bc"], "x": [[1]]}'
LISP = 'start: "(" /[a-c]+/ (" " start)? ")"'

UNITS = {
    "words": (lambda: regex("|".join(f"w{i}x?" for i in range(200))), 59_057),
    "repeats": (lambda: regex(r"(\w+\s?){1,20}[.!]"), 72_077),
    "subsets": (lambda: regex("(a|b)*a(a|b){6}"), 2_968),
    "both": (lambda: regex("(?=.*a.*b)[a-d]{2,20}"), 10_762),
    "but not": (lambda: regex("(?!.*ab)[a-d]{2,20}"), 11_305),
    "keywords": (lambda: keywords(["dog", "sea", "run"]), 51_715),
    "schema": (lambda: json_schema(SCHEMA).finite, 43_288),
    "grammar": (lambda: grammar(LISP).finite, 80_293),
}  # fmt: skip


def vocabulary():
    """A new one each time, with nothing kept."""
    return tt.Vocabulary([*TOKENS, None], len(TOKENS))


def calls(work):
    """The calls of the package's functions, by folder; done once before, so that what modules keep is there."""
    work()
    found = Counter()

    def see(frame, event, _):
        if event == "call":
            found[frame.f_code.co_filename] += 1

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(before)
    folders = Counter()
    for file, count in found.items():
        path = Path(file).resolve()
        if path.is_relative_to(ROOT):
            folders[path.relative_to(ROOT).parent.as_posix()] += count
    return {folder: folders[folder] for folder in FOLDERS}


def walk(query, text):
    """Masks along a text, and once more after going back."""
    query = query.start()
    place = {token: i for i, token in enumerate(TOKENS)}
    for byte in text:
        assert query.mask().any()
        query.advance([place[bytes([byte])]])
    query.rollback(len(text) // 2)
    query.mask()
    query.forced()
    return query


def masks_of_a_schema():
    automaton, tokens = json_schema(SCHEMA).automaton, None
    for _ in range(2):  # the second one shares masks with the first
        tokens = LazyTokens(automaton, tokens.vocab if tokens else vocabulary())
        state = tokens.start_state
        for byte in TEXT:
            tokens.masks.mask(state)
            state = tokens.step(state, TOKENS.index(bytes([byte])))


def distances_of_a_schema():
    states = Numbered(json_schema(SCHEMA).automaton)
    distances = Distances(states, vocabulary())
    state = states.start()
    for byte in TEXT[:40]:
        distances.fewest(state)
        for left in (5, 9):
            distances.within(state, left)
            distances.lower_bound(state)
        state = states.after(state, byte)


@functools.cache
def compiled():
    return json_schema(SCHEMA).compile(vocabulary())


def queries_of_a_schema():
    fa = compiled()
    walk(tt.gcd(fa, 64), TEXT)
    walk(tt.gcd(fa, 34), TEXT[:30])


def lookahead_of_a_regex():
    vocab = vocabulary()
    fa = regex("a{1,5}(bc|cb)*").compile(vocab)
    query = walk(tt.pgcd(tt.HMM.random(3, len(vocab), seed=0), fa, 12), b"aabccb")
    query.scores()


CALLS = {
    masks_of_a_schema: {"constraints/automata": 7385, "constraints/lifting": 60, "constraints/masks": 2259},
    distances_of_a_schema: {"constraints/automata": 3038, "constraints/lifting": 21131},
    queries_of_a_schema: {"inference/next_token": 2054, "circuits": 420},
    lookahead_of_a_regex: {
        "constraints/automata": 365,
        "constraints/lifting": 74,
        "inference/next_token": 696,
        "circuits": 103,
    },
}


@pytest.mark.parametrize("name", UNITS)
def test_units_of_compiling(name):
    make, known = UNITS[name]
    with limited_to(math.inf) as account:
        made = make()
        if hasattr(made, "nfa"):
            made.nfa.plain  # noqa: B018
    assert account.spent == pytest.approx(known, rel=0.01)


@pytest.mark.parametrize("work", CALLS, ids=lambda work: work.__name__)
def test_calls_of_functions(work):
    for folder, count in calls(work).items():
        assert count <= CALLS[work].get(folder, 0) * 1.01 + 2, folder
