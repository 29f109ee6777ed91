"""How much is done, counted: units of compiling, which decide what is refused, and calls of functions where states are walked.

No clock is read. Figures may fall: then write the lower one here. They rise only with what the change buys.
"""

import functools
import math
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
import torch

import tractile as tt
from tractile.constraints import grammar, json_schema, keywords, regex
from tractile.constraints.automata.work import limited_to
from tractile.inference import smc

ROOT = Path(tt.__file__).resolve().parent
FOLDERS = (
    "constraints/automata", "constraints/engine", "constraints/program", "circuits", "layers",
    "inference/next_token", "inference/queries", "inference/smc",
)  # fmt: skip
WORDS = [
    '": "', '{"', '"}', '", "', '":', "name", "id", "ab", "abc", "true", "12", "00", "[[", "]]", '["', '"]', "((", "))",
]  # fmt: skip
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
    "words": (lambda: regex("|".join(f"w{i}x?" for i in range(200))), 16_210),
    "repeats": (lambda: regex(r"(\w+\s?){1,20}[.!]"), 61_368),
    "subsets": (lambda: regex("(a|b)*a(a|b){6}"), 274),
    "both": (lambda: regex("(?=.*a.*b)[a-d]{2,20}"), 1_081),
    "but not": (lambda: regex("(?!.*ab)[a-d]{2,20}"), 1_096),
    "keywords": (lambda: keywords(["dog", "sea", "run"]), 8_711),
    "schema": (lambda: json_schema(SCHEMA).finite, 253_174),
    "grammar": (lambda: grammar(LISP).finite, 2_500),
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


def lookahead_within_memory():
    """Messages that are kept as checkpoints, and made again from there."""
    vocab = vocabulary()
    fa = regex("a{1,5}(bc|cb)*").compile(vocab)
    hmm = tt.HMM.random(3, len(vocab), seed=0)
    whole = tt.pgcd(hmm, fa, 24)
    for memory in (1 << 15, 1 << 16):
        with suppress(tt.errors.MemoryTooSmall):
            query = walk(tt.pgcd(hmm, fa, 24, memory=memory), b"aabccbbc")
            assert torch.equal(query.scores(), walk(whole, b"aabccbbc").scores())


def samplers():
    vocab = tt.Vocabulary([b"a", b"b", b"ab", None], 3)
    hmm = tt.HMM.random(3, 4, seed=0)
    fa = regex("(ab?){1,3}").compile(vocab)
    given = {"lm": tt.CircuitLM(hmm, 3, vocab), "prompt": [], "fa": fa, "max_new_tokens": 6}
    for proposal in ("gcd", "pgcd", "lcd", "awrs", "pgcd-mixture"):
        tt.smc(**given, proposal=proposal, particles=6, hmm=hmm, potential=lambda text: 1 + text.count("a"))
    smc.mcmc(**given, proposal="gcd", samples=4, burn_in=2)
    tt.decoding.speculative(**given, hmm=hmm, particles=3)
    tt.decoding.beam_search(**given, beams=3)


def queries_of_a_circuit():
    hmm = tt.HMM.random(3, 4, seed=0)
    circuit = hmm.unroll(5)
    for model in (circuit, hmm):
        given = {"n": 5} if model is hmm else {}
        tt.log_marginal(model, {1: 2}, **given)
        tt.conditional(model, {1: 2}, 3, **given)
        tt.inference.marginals(model, {1: 2}, **given)
        tt.sample(model, 3, **given)
        tt.mpe(model, {1: 2}, **given)


CALLS = {
    queries_of_a_schema: {
        "constraints/automata": 186, "constraints/engine": 390, "circuits": 4, "inference/next_token": 548,
    },
    lookahead_within_memory: {
        "constraints/automata": 153, "constraints/engine": 151, "constraints/program": 7, "circuits": 359, "layers": 2377,
        "inference/next_token": 2580,
    },
    samplers: {
        "constraints/automata": 650, "constraints/engine": 518, "constraints/program": 16, "circuits": 462, "layers": 2380,
        "inference/next_token": 5019, "inference/queries": 13, "inference/smc": 8467,
    },
    # weights of each type are read as such, and products of extreme ones are found to be so
    queries_of_a_circuit: {"circuits": 1625, "layers": 1727, "inference/queries": 683},
    lookahead_of_a_regex: {
        "constraints/automata": 81, "constraints/engine": 52, "constraints/program": 7, "circuits": 155, "layers": 512,
        "inference/next_token": 544,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", UNITS)
def test_units_of_compiling(name):
    make, known = UNITS[name]
    make()  # for what modules keep for good
    with limited_to(math.inf) as account:
        made = make()
        if hasattr(made, "nfa"):
            made.nfa.plain  # noqa: B018
    assert account.spent == pytest.approx(known, rel=0.01)


@pytest.mark.parametrize("work", CALLS, ids=lambda work: work.__name__)
def test_calls_of_functions(work):
    for folder, count in calls(work).items():
        assert count <= CALLS[work].get(folder, 0) * 1.1 + 2, folder
