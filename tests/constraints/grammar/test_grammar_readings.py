"""Grammars in which several open readings call one rule: walks within budgets, and masks against enumeration."""

import json
import os
import random
from functools import cache
from pathlib import Path

import pytest
from grammars import JAVA, MOLECULES, least, walk

import tractile as tt

BYTES = [bytes([byte]) for byte in range(256)]
GPT2 = Path(os.environ.get("TRACTILE_SHARED", "../shared")) / "data/tokenizers/gpt2/vocab.json"

SMALL = {  # rules by name, each with its alternatives
    "two rules that end in one": {
        "start": ["{ ms }"], "ms": ["", "m ms"], "m": ["t b"], "b": ["{ ys }"], "ys": ["", "y ys"], "y": ["! b"],
        "t": ["n", "a"], "a": ["n [", "a ["], "n": ["h", "n . h"],
    },
    "casts": {"start": ["e"], "e": ["( t ) e", "( e )", "x", "e + x"], "t": ["x", "t [ ]"]},
    "types and comparisons": {
        "start": ["d ;", "c ;"], "d": ["t x"], "t": ["x", "x < t >"], "c": ["p", "p < c", "p > c"], "p": ["x", "( c )"],
    },
    "palindromes": {"start": ["a start a", "b start b", "a", "b", ""]},
    "one rule after three": {
        "start": ["x b", "y b c", "z b"], "x": ["a", "a x"], "y": ["a y c", "a"], "z": ["a a", "a a z"], "b": ["( b )", "( )"],
    },
    "lists of lists": {
        "start": ["l", "m"], "l": ["[ i ]"], "i": ["", "e", "e , i"], "m": ["[ k ]"], "k": ["e", "k , e"], "e": ["1", "l", "m"],
    },
}  # fmt: skip


def lark(rules):
    quoted = {
        name: [
            " ".join(word if word in rules else json.dumps(word) for word in one.split()) for one in options
        ]
        for name, options in rules.items()
    }
    return "\n".join(f"{name}: {' | '.join(options)}" for name, options in quoted.items())


def texts(rules, most):
    """The texts of ``start`` of at most ``most`` bytes: a least fixed point."""
    found = {name: set() for name in rules}
    while True:
        before = sum(map(len, found.values()))
        for name, options in rules.items():
            for option in options:
                made = {""}
                for symbol in option.split():
                    more = found.get(symbol, {symbol})
                    made = {a + b for a in made for b in more if len(a) + len(b) <= most}
                found[name] |= made
        if sum(map(len, found.values())) == before:
            return {text.encode() for text in found["start"]}


def allowed_by(language, vocab):
    """``allowed(text, budget)``: the tokens after which a text of the language ends within the budget, by enumeration."""
    words = [(token, word) for token, word in enumerate(vocab.token_bytes) if word]
    prefixes = {text[:n] for text in language for n in range(len(text) + 1)}

    @cache
    def fewest(text):
        least = 1 if text in language else 1 << 20
        for _, word in words:
            if text + word in prefixes:
                least = min(least, 1 + fewest(text + word))
        return least

    def allowed(text, budget):
        tokens = {token for token, word in words if text + word in prefixes and fewest(text + word) < budget}
        return tokens | ({vocab.eos_token_id} if text in language and budget else set())

    return allowed, fewest(b"")


def vocabulary(words):
    return tt.Vocabulary([*BYTES, *dict.fromkeys(words), None], eos_token_id=256 + len(dict.fromkeys(words)))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", SMALL)
def test_masks_near_the_least_budget_are_those_of_enumeration(name, seed):
    rng = random.Random(seed)
    language = texts(SMALL[name], 9)
    chosen = rng.choices(sorted(language - {b""}), k=20)
    starts = [rng.randrange(len(text)) for text in chosen]
    words = [text[at : at + rng.randint(2, 3)] for text, at in zip(chosen, starts, strict=True)]
    vocab = vocabulary([word for word in words if len(word) > 1])
    allowed, fewest = allowed_by(texts(SMALL[name], 12), vocab)
    query = tt.gcd(tt.constraints.grammar(lark(SMALL[name])).compile(vocab), horizon=30)
    assert least(query) == fewest
    for budget in range(fewest, 6):  # at most four tokens of three bytes before EOS
        for _ in range(25):
            text, tokens = b"", list[int]()
            query.start(budgets=budget)
            while True:
                mask = set(query.mask()[0].nonzero()[:, 0].tolist())
                assert mask == allowed(text, budget - len(tokens)), (text, budget - len(tokens))
                tokens.append(rng.choice(sorted(mask)))
                query.advance(tokens[-1:])
                if tokens[-1] == vocab.eos_token_id:
                    break
                text += vocab.token_bytes[tokens[-1]]


@pytest.fixture(scope="module")
def real():
    """GPT-2's vocabulary."""
    if not GPT2.exists():
        pytest.skip("needs the tokenizers of the shared folder")
    letters = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte = {chr(each): each for each in letters}
    byte |= {chr(256 + n): each for n, each in enumerate(sorted(set(range(256)) - set(letters)))}
    found = json.loads(GPT2.read_text(encoding="utf-8"))
    words = [None if "<|" in word else bytes(byte[each] for each in word) for word in found]
    return tt.Vocabulary(words, eos_token_id=found["<|endoftext|>"])


@pytest.mark.parametrize("name", ["java", "molecules"])
def test_walks_from_the_least_budget_on_end_in_time(real, name):
    constraint = tt.constraints.grammar(JAVA if name == "java" else MOLECULES)
    query = tt.gcd(constraint.compile(real), horizon=200)
    rng, fewest = random.Random(0), least(query)
    for more in (0, 1, 2, 5, 12, 30, 60, 120):
        text = walk(query, real, fewest + more, rng)
        assert constraint.accepts(text.decode()), text


def test_walks_in_nested_objects_end_in_time(real):
    """A lower bound above the budget leaves a stack without a distance; it is visited once."""
    inner = {"location": {"type": "string"}, "instruments": {"type": "array", "items": {"type": "string"}}}
    shop = {"type": "object", "properties": inner, "required": list(inner)}
    constraint = tt.constraints.json_schema(
        {"type": "object", "properties": {"shop": shop}, "required": ["shop"]}
    )
    query, rng = tt.gcd(constraint.compile(real), horizon=60), random.Random(0)
    for more in (0, 0, 0, 2, 6):
        assert constraint.accepts(walk(query, real, least(query) + more, rng).decode())
