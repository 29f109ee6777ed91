"""Drafts that are validated and tokens that are forced, of compiled constraints: budgets, end of sequence, canonical tokens."""

import re

import pytest
import torch

import tractile as tt
from tractile.constraints import Vocabulary, json_schema, regex
from tractile.embedded import load_hmm, load_lm
from tractile.inference.next_token import ahead
from tractile.inference.next_token.generic import DenseQuery


def choice(texts):
    return regex("|".join(map(re.escape, texts)))


AB = Vocabulary([None, b"a", b"b", b"aa", b"ab", b"c"], eos_token_id=0)
SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["Tom", "Anna"]}, "age": {"type": "integer", "minimum": 1}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def tokenizer():
    return load_lm()[1]


def continuation(tokenizer, text):
    """The tokens of a text that goes on with another, without the space that the tokenizer puts first."""
    return tokenizer(text, add_special_tokens=False)["input_ids"][1:]


def queries(fa, horizon, hmm=None):
    yield tt.gcd(fa, horizon)
    yield tt.lcd(fa)
    if hmm is not None:
        yield tt.pgcd(hmm, fa, horizon)


CONSTRAINTS = {
    "regex": lambda: regex("(ab|c)*c"),
    "a machine": lambda: json_schema({"type": "array", "items": {"enum": ["a", "b"]}}),
    "an object": lambda: json_schema(SCHEMA),
    "parts": lambda: regex(" [a-z]+").tokens(at_most=2) + regex("!").tokens(at_least=1),
}


@pytest.mark.parametrize("require_eos", [True, False])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_walks_ahead_are_step_by_step(name, require_eos, tokenizer):
    """Random walks by the masks; drafts made of allowed tokens, and of ones that are not."""
    fa = CONSTRAINTS[name]().compile(tokenizer, require_eos=require_eos)
    generator = torch.Generator().manual_seed(0)
    horizon = 22
    for query in queries(fa, horizon, load_hmm() if require_eos else None):
        query.start(3, [horizon, 20, 19])
        for _ in range(horizon):
            trial, drafts = query.fork(), [[] for _ in range(3)]
            for _ in range(4):
                mask = trial.mask()
                mask[~mask.any(1)] = True
                tokens = torch.multinomial(mask.double(), 1, generator=generator)[:, 0]
                trial.advance(tokens)
                for row, token in zip(drafts, tokens.tolist(), strict=True):
                    row.append(token)
            drafts[2][2] = int(torch.randint(len(tokenizer), (), generator=generator))
            assert query.validate(drafts).tolist() == ahead.validate(query, drafts).tolist()
            assert query.forced() == ahead.forced(query)
            mask = query.mask()
            mask[~mask.any(1)] = True
            query.advance(torch.multinomial(mask.double(), 1, generator=generator)[:, 0])


def test_the_end_of_sequence_is_forced_once():
    fa = regex("ab?").compile(AB)
    query = tt.gcd(fa, 3).start(1)
    query.advance([4])
    assert query.forced() == [[0]]
    query.advance([0])
    assert query.forced() == [[]]
    assert query.validate([[0, 0]]).tolist() == [1]  # padding within the budget
    open_ended = tt.gcd(regex("ab?").compile(AB, require_eos=False), 3).start(1)
    open_ended.advance([4])
    assert open_ended.forced() == [[]]  # the text may end as it is


def test_limit_bounds_what_is_listed():
    fa = tt.Automaton.from_edges([(0, 1, 0)], 0, [0], 2)
    for query in (tt.lcd(fa).start(2), DenseQuery(fa, None, tt.inference.Boolean()).start(2)):
        assert query.forced() == [[1] * 256] * 2
        assert query.forced(3) == [[1] * 3] * 2
        assert query.forced(0) == [[], []]


@pytest.mark.parametrize("text", [' {"name": "Tom", "age": 7}', " Once upon a time, there was a girl."])
def test_canonical_tokens_are_forced_as_the_tokenizer_writes_them(text, tokenizer):
    """Certain text has many tokenisations, of which none is certain: with ``canonical=True`` there is one."""
    ids = continuation(tokenizer, text)
    expected = [*ids, tokenizer.eos_token_id]
    query = tt.gcd(choice([text]).compile(tokenizer, canonical=True), len(expected)).start(1)
    assert query.forced() == [expected]
    assert query.forced(2) == [expected[:2]]
    assert tt.gcd(choice([text]).compile(tokenizer), 40).start(1).forced() == [[]]
