"""Rows of the Boolean next-token query: buffers, tokens and budgets that are refused, copies; masks near a budget's end."""

import copy
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


def test_rows_are_chosen_copied_and_end(query):
    brace, eos = VOCAB.token_bytes.index(b"{"), VOCAB.eos_token_id
    query.advance(torch.tensor([brace, brace]))
    query.advance([VOCAB.token_bytes.index(b"}"), brace])  # the second is not allowed
    assert query.mask()[0].nonzero().flatten().tolist() == [eos]
    assert not query.mask()[1].any()
    twin = copy.copy(query)
    twin.select([0, 0])
    twin.advance([eos, eos])
    assert twin.ended().tolist() == [0, 0]
    assert twin.mask().sum(1).tolist() == [1, 1]
    assert query.remaining.tolist() == [498, 498]
    assert twin.remaining.tolist() == [497, 497]
    short = query.start(2, [3, 4])
    short.advance([brace, brace])
    logits = torch.zeros(2, len(VOCAB) + 3)
    short.apply(logits)
    assert torch.equal(logits[:, : len(VOCAB)] == 0, short.mask())
    assert bool(logits[:, len(VOCAB) :].isinf().all())


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
