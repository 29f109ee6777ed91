"""Rows of the Boolean next-token query: buffers, tokens and budgets that are refused, copies; masks near a budget's end."""

import random

import numpy as np
import pytest
import torch

import tractile as tt
from tractile.constraints import keywords
from tractile.inference.next_token.finite_masks import FiniteMasks
from tractile.inference.next_token.gcd import GCDQuery

PIECES = [b'{"', b'"a', b'": "', b'"}', b"ab", b'", "']
VOCAB = tt.Vocabulary([*(bytes([byte]) for byte in range(256)), *PIECES, None], 256 + len(PIECES))


@pytest.fixture
def query():
    members = {"ab": {"type": "string", "maxLength": 3}, "a": {"const": 1}}
    schema = {"type": "object", "properties": members, "additionalProperties": False}
    return tt.gcd(tt.constraints.json_schema(schema).compile(VOCAB), 500).start(2)


def test_a_buffer_is_filled_however_it_is_laid_out(query):
    want = query.bitmask().clone()
    assert want.dtype == torch.int32
    for out in (torch.empty_like(want), torch.empty(want.shape[1], 2, dtype=torch.int32).T):
        for _ in range(2):
            assert query.bitmask(out=out.fill_(-1)) is out
            assert torch.equal(out, want)
    array = np.full(tuple(want.shape[::-1]), -1, np.int32).T
    assert np.array_equal(query.words(array), want.numpy())
    out = torch.empty_like(want)
    query.bitmask(out=out)
    query.advance([VOCAB.token_bytes.index(b"{"), VOCAB.token_bytes.index(b"{")])
    assert torch.equal(query.bitmask(out=out), query.bitmask())
    assert not torch.equal(out, want)


def test_masks_of_several_keywords_are_exact_where_searches_are_given_up():
    """Near the end of a budget the words that are missing can be written in many orders: more texts than a search reads."""
    pieces = [b"wal", b"ing", b"ield", b"isbee", b"atch", b"row", b" dog", b" the", b" a", b". "]
    vocab = tt.Vocabulary([*[bytes([b]) for b in range(256)], *pieces, None], 256 + len(pieces))
    words = [
        ["dog", "dogs"], ["field", "fields"], ["catch", "catches", "caught"], ["frisbee"], ["throw", "threw"],
    ]  # fmt: skip
    automaton = keywords(words, ignore_case=True).compile(vocab)
    horizon = automaton.lazy.fewest(automaton.lazy.start_state) + 6
    exact = GCDQuery(automaton.finite, horizon, FiniteMasks(automaton.finite, horizon)).start()
    query, rng = tt.gcd(keywords(words, ignore_case=True).compile(vocab), horizon).start(), random.Random(0)
    for _ in range(5):
        exact.start(), query.start()
        for _ in range(horizon):
            allowed = exact.mask()
            assert torch.equal(query.mask(), allowed)
            token = rng.choice(allowed[0].nonzero().flatten().tolist())
            exact.advance([token]), query.advance([token])


def test_what_is_handed_out_is_the_callers(query):
    """Changing an answer changes no other."""
    first = query.bitmask().clone()
    query.bitmask().fill_(-1)
    assert torch.equal(query.bitmask(), first)
