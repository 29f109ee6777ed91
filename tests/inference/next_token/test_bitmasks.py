"""Bitmasks of whole batches: rows in different states with different budgets, against the generic Boolean query."""

import random

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tractile as tt
from tractile.constraints import Constraint, Vocabulary, regex
from tractile.constraints.json.constraint import json_schema
from tractile.constraints.lift import lift
from tractile.inference import Boolean
from tractile.inference.next_token.generic import DenseQuery

BYTES = [bytes([b]) for b in range(256)]
LETTERS = '{}[]":, aäß€🙂01-.truefalsn\\u'
SCHEMAS = [
    {
        "type": "object", "properties": {"a": {"type": "integer"}, "aä": {"type": "string", "maxLength": 2}},
        "additionalProperties": False,
    },
    {"enum": ["a€", "aß", 0, True, ["a"], None]},
    {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
    {"type": "object", "patternProperties": {"^a+$": {"type": "null"}}, "additionalProperties": {"const": 1}, "maxProperties": 1},
    {"type": "string", "pattern": "a.*€"},
]  # fmt: skip
PATTERNS = [
    '"[^"]{0,3}"(, "a*")?', "(a|aa|ä)*b", "🙂{1,3}|a🙂", '"(?!a")[^"]*": (0|1)', "(?s).{0,4}", "[a-z]+-[0-9]{1,2}",
]  # fmt: skip


def vocabulary(rng: random.Random) -> Vocabulary:
    """All bytes, words, and words cut within letters of several bytes."""
    words = ["".join(rng.choices(LETTERS, k=rng.randint(1, 4))).encode() for _ in range(60)]
    cut = [w[rng.randint(0, 1) : len(w) - rng.randint(0, 1)] or b"a" for w in words]
    pieces: list[bytes | None] = [*BYTES, *words, *cut, None, b'"}', b'": ']
    rng.shuffle(pieces)
    return Vocabulary([*pieces, None], eos_token_id=len(pieces))


def generic(constraint: Constraint, vocab: Vocabulary) -> tt.Automaton:
    """The same automaton with one partition of the tokens, which the masks know nothing special of."""
    arrays = lift(constraint.bytes_automaton, vocab)
    return tt.Automaton.from_transitions(
        arrays.source, arrays.token_class_of_edge, arrays.target, arrays.token_class,
        arrays.start.tolist(), arrays.accept.tolist(), arrays.num_states, vocab.eos_token_id,
    )  # fmt: skip


def play(constraint: Constraint, seed: int) -> None:
    """Six rows, of which the first two have just the tokens that they need, to their ends."""
    rng = random.Random(seed)
    vocab = vocabulary(rng)
    automaton, explicit = constraint.compile(vocab), generic(constraint, vocab)
    if explicit.num_states > 120:
        return
    fewest = int(explicit.distances[explicit.start_states].min())
    budgets = torch.tensor([fewest, fewest] + [fewest + rng.randint(0, 6) for _ in range(4)])
    horizon = int(budgets.max())
    query, oracle = tt.gcd(automaton, horizon), DenseQuery(explicit, horizon, Boolean())
    query.start(6, budgets), oracle.start(6, budgets)
    buffer = torch.full((6, -(-len(vocab) // 32)), -1, dtype=torch.int32)
    for _ in range(horizon):
        allowed = oracle.mask()
        assert query.bitmask(out=buffer) is buffer
        assert torch.equal(buffer, oracle.bitmask())
        assert torch.equal(query.mask(), allowed)
        tokens = torch.tensor([rng.choice(row.nonzero()[:, 0].tolist() or [0]) for row in allowed])
        for q in (query, oracle):
            q.advance(tokens)
        rows = torch.tensor([0, 1, *rng.choices(range(6), k=4)])
        for q in (query, oracle):
            q.select(rows)


@settings(max_examples=12)
@given(st.sampled_from(PATTERNS), st.integers(0, 10_000))
def test_batches_under_regular_expressions(pattern, seed):
    play(regex(pattern), seed)


@settings(max_examples=12)
@given(st.sampled_from(SCHEMAS), st.integers(0, 10_000))
def test_batches_under_json_schemas(schema, seed):
    play(json_schema(schema, max_depth=1), seed)


def test_what_is_handed_out_is_the_callers():
    """Changing an answer changes no other."""
    query = tt.lcd(regex("a*").compile(vocabulary(random.Random(0)))).start()
    first = query.bitmask().clone()
    query.bitmask().fill_(-1)
    assert torch.equal(query.bitmask(), first)
    query.select(torch.tensor([], dtype=torch.long))
    query.advance([])
    assert query.bitmask().shape == (0, first.shape[1])
