"""The next-token query on a lazy automaton, against the query on the automaton written out, and what it refuses."""

import copy
import random

import numpy as np
import pytest
import torch
from lazy_machines import ONE, Members, String
from test_token_masks import LETTERS, vocabulary

from tractile.constraints import Vocabulary, regex
from tractile.constraints.automata.machines import DfaMachine
from tractile.constraints.automata.stack import StackAutomaton
from tractile.constraints.json.document import read_schema
from tractile.constraints.json.lazy.schema import lazy_schema
from tractile.constraints.masks import lazy_tokens
from tractile.constraints.masks.lazy_tokens import LazyTokens
from tractile.constraints.words.keywords import keywords
from tractile.errors import BudgetTooLarge, BudgetTooSmall, EvidenceError, ShapeError, VocabularyMismatch
from tractile.inference import gcd
from tractile.inference.next_token.finite_masks import FiniteMasks
from tractile.inference.next_token.gcd import GCDQuery
from tractile.inference.next_token.lazy_masks import LazyMasks

VOCAB = vocabulary(5)
SCHEMAS = [
    {"type": "string", "maxLength": 6},
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "ab": {"enum": ["b", "bb", 1]}},
        "required": ["a"],
    },
    {
        "type": "array",
        "items": {"anyOf": [{"type": "string", "minLength": 2}, {"type": "null"}]},
        "minItems": 2,
    },
    {"type": "object", "additionalProperties": {"type": "string", "pattern": "^[ab]+$"}, "maxProperties": 2},
    {"type": "string", "pattern": "^a.*b$", "minLength": 3, "maxLength": 6},
    {"type": "array", "items": {"type": "string", "pattern": "b$|^u{3}"}, "maxItems": 2},
    {
        "anyOf": [
            {
                "type": "object",
                "properties": {"a": {"type": "string", "pattern": "^(ab|bu)+$"}},
                "required": [name],
            }
            for name in ("ab", "b")
        ]
    },
    {"anyOf": [{"type": "object", "properties": {"n": {"const": 1}}}, {"type": "object", "required": ["b"]}]},
]
OPTIONS = ("space", "auto", None, None, True, "auto", False, None)


def lazy_query(tokens, horizon):
    return GCDQuery(tokens, horizon, LazyMasks(tokens, horizon))


def finite_query(automaton, horizon):
    return GCDQuery(automaton.finite, horizon, FiniteMasks(automaton.finite, horizon))


def walk_beside(query, other, rng, batch=3):
    """Random allowed tokens: both queries allow the same ones at every step."""
    while bool((query.remaining > 0).any()):
        mask = query.mask()
        assert torch.equal(mask, other.mask())
        assert torch.equal(query.bitmask(), other.bitmask())
        chosen = []
        for row, left in zip(mask, query.remaining.tolist(), strict=True):
            some = row.nonzero().flatten().tolist()
            assert some or not left
            chosen.append(rng.choice(some) if some else 0)
        query.advance(chosen)
        other.advance(chosen)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_masks_of_schemas_are_what_the_bytes_say(schema):
    automaton, _ = lazy_schema(read_schema(schema), False, OPTIONS)
    tokens, rng = LazyTokens(automaton, VOCAB), random.Random(0)
    states = tokens.states
    for seed in range(6):
        query = lazy_query(tokens, 1000).start()
        for _ in range(15):
            allowed = set(query.mask()[0].nonzero().flatten().tolist())
            state = query.states[0]
            if state < 0:
                break
            want = {t for t, w in enumerate(VOCAB.token_bytes) if w and states.run(state, w) >= 0}
            assert allowed == want | ({VOCAB.eos_token_id} if states.accepting(state) else set())
            ample = tokens.ample_in_tokens(state)
            assert all(tokens.bound(t) <= ample for t, _ in tokens.edges_from(state)), seed
            query.advance([rng.choice(sorted(allowed))])


@pytest.fixture
def query():
    named = Members({b"ab": String(0, 3), b"a": ONE}, within=True)
    return lazy_query(LazyTokens(StackAutomaton(named), VOCAB), 500).start(2)


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


def test_bad_buffers_and_tokens_are_refused(query):
    good = torch.empty(2, -(-len(VOCAB) // 32), dtype=torch.int32)
    query.bitmask(out=good)
    for bad in (good.long(), good[:1], good[:, 1:], good.float(), good[0]):
        with pytest.raises(ShapeError):
            query.bitmask(out=bad)
    query.select([0])
    with pytest.raises(ShapeError):
        query.bitmask(out=good)
    for tokens in ([], [0, 0], [-1], [len(VOCAB)], torch.tensor([0, 1])):
        with pytest.raises(VocabularyMismatch):
            query.advance(tokens)
    with pytest.raises(ShapeError):
        query.select([7])
    with pytest.raises(VocabularyMismatch):
        query.apply(torch.zeros(1, 3))
    with pytest.raises(BudgetTooLarge):
        query.start(budgets=501)
    with pytest.raises(BudgetTooSmall):
        query.start(budgets=0)
    with pytest.raises(BudgetTooSmall):
        lazy_query(query.automaton, 0)
    with pytest.raises((EvidenceError, ShapeError)):
        query.start(budgets=[1.5])


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
    assert len(LETTERS) < len(VOCAB)
    logits = torch.zeros(2, len(VOCAB) + 3)
    short.apply(logits)
    assert torch.equal(logits[:, : len(VOCAB)] == 0, short.mask())
    assert bool(logits[:, len(VOCAB) :].isinf().all())


def test_a_budget_never_runs_dry_where_searches_are_given_up():
    """The completion is not the text of the fewest tokens, and no mask searches: the tightest budget still ends in a text."""
    vocab = Vocabulary([*[bytes([b]) for b in range(256)], b"longtext", None], 257)
    tokens = LazyTokens(StackAutomaton(DfaMachine(regex("abcd(abc|longtext)").bytes_automaton)), vocab)
    assert tokens.fewest(tokens.start_state) == 6
    tokens = LazyTokens(StackAutomaton(DfaMachine(regex("abcd(abc|longtext)").bytes_automaton)), vocab)
    tokens.distances.most_positions = 0
    query = lazy_query(tokens, 6).start()
    for token in (*b"abcd", 256, 257):
        assert query.mask()[0].nonzero().flatten().tolist() == [token]
        query.advance([token])
    assert query.states == [lazy_tokens.SINK]


def test_masks_of_several_keywords_are_exact_where_searches_are_given_up():
    """Near the end of a budget the words that are missing can be written in many orders: more texts than a search reads."""
    pieces = [b"wal", b"ing", b"ield", b"isbee", b"atch", b"row", b" dog", b" the", b" a", b". "]
    vocab = Vocabulary([*[bytes([b]) for b in range(256)], *pieces, None], 256 + len(pieces))
    words = [
        ["dog", "dogs"],
        ["field", "fields"],
        ["catch", "catches", "caught"],
        ["frisbee"],
        ["throw", "threw"],
    ]
    automaton = keywords(words, ignore_case=True).compile(vocab)
    horizon = automaton.lazy.fewest(automaton.lazy.start_state) + 6
    exact = GCDQuery(automaton.finite, horizon, FiniteMasks(automaton.finite, horizon)).start()
    query, rng = gcd(keywords(words, ignore_case=True).compile(vocab), horizon).start(), random.Random(0)
    for _ in range(5):
        exact.start(), query.start()
        for _ in range(horizon):
            allowed = exact.mask()
            assert torch.equal(query.mask(), allowed)
            token = rng.choice(allowed[0].nonzero().flatten().tolist())
            exact.advance([token]), query.advance([token])
