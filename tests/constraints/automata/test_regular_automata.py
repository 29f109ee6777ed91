"""Byte automata over tokens against brute force and against the automaton written out: masks, distances, queries."""

import pickle
import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tractile as tt
from tractile.constraints import Constraint, Vocabulary, regex
from tractile.constraints.automata import nfa
from tractile.constraints.lift import lift
from tractile.inference import Boolean
from tractile.inference.next_token.generic import DenseQuery

LETTERS = b'ab"\\u0\xc3\xa9 1,'
BYTES = [bytes([b]) for b in range(256)]
PATTERNS = [
    "a*",
    "[a-z]{0,5}b",
    "(?s).*",
    '"[^"]{0,7}"(,"[a-z]{2,4}")*',
    "é*a",
    '"(ab|[^"ab])*"',  # strings without ba …
    "[a-z]{3}[a-zA-Z0-9]{2,5}",  # one kind of letters after another
    "[ab]*[ac]",
    "(a|b|1)*,",
    '"(?!ab")[^"]*"',  # a name that is treated apart
    '"((a|ab|é)": 1|(?!(a|ab|é)")[^"]*": 0),"[^"]{1,3}"',
    '"([^"\\\\]|\\\\([u"]|0{2}))*"',  # escapes
    '("[^"]{2,}"|[0-9]{1,3})(,[^,]*){0,2}',
]


def vocabulary(seed: int, size: int = 300) -> Vocabulary:
    """All bytes, and random tokens of letters that matter: cut-off UTF-8, quotes, escapes; some twice, some special."""
    rng = random.Random(seed)
    words = [bytes(rng.choices(LETTERS, k=rng.randint(1, 6))) for _ in range(size)]
    pieces: list[bytes | None] = [*BYTES, *words, None, b"a" * 9]
    rng.shuffle(pieces)
    return Vocabulary([*pieces, None], eos_token_id=len(pieces))


def compiled(plain: nfa.Nfa, vocab: Vocabulary, require_eos: bool = True) -> tt.Automaton:
    return Constraint(plain).compile(vocab, require_eos)


@settings(max_examples=15)
@given(st.sampled_from(PATTERNS), st.integers(0, 5), st.integers(0, 2**31), st.booleans())
def test_masks_equal_the_boolean_query(pattern, extra, seed, require_eos):
    """Any game through the masks: those of the generic query on the automaton lifted with one partition of the tokens."""
    vocab, rng = vocabulary(2, 60), random.Random(seed)
    constraint = regex(pattern)
    automaton = constraint.compile(vocab, require_eos)
    arrays = lift(constraint.bytes_automaton, vocab, require_eos)
    explicit = tt.Automaton.from_transitions(
        arrays.source, arrays.token_class_of_edge, arrays.target, arrays.token_class,
        arrays.start.tolist(), arrays.accept.tolist(), arrays.num_states, vocab.eos_token_id,
    )  # fmt: skip
    if explicit.num_states > 80:
        return
    fewest = automaton.fewest_after([])
    budgets = torch.tensor([max(1, fewest), max(1, fewest + extra)])
    horizon = int(budgets.max())
    query, oracle = tt.gcd(automaton, horizon), DenseQuery(explicit, horizon, Boolean())
    local, local_oracle = tt.lcd(automaton), DenseQuery(explicit, None, Boolean())
    query.start(2, budgets), oracle.start(2, budgets), local.start(2), local_oracle.start(2)
    for _ in range(horizon):
        mask = query.mask()
        assert torch.equal(mask, oracle.mask())
        assert torch.equal(query.bitmask(), oracle.bitmask())
        assert torch.equal(local.mask(), local_oracle.mask())
        logits = torch.zeros(2, len(vocab) + 3)
        query.apply(logits)
        assert torch.equal(logits[:, :-3] == 0, mask)
        assert bool((logits[:, -3:] == -torch.inf).all())
        tokens = torch.tensor([rng.choice(row.nonzero()[:, 0].tolist() or [0]) for row in mask])
        for q in (query, oracle, local, local_oracle):
            q.advance(tokens)
    if fewest > 1:
        with pytest.raises(tt.errors.BudgetTooSmall) as caught:
            tt.gcd(automaton, fewest - 1).start()
        assert caught.value.needed == fewest


def test_queries_of_the_written_out_automaton():
    """Counting, and a product with an HMM: the same as with one partition of the vocabulary."""
    vocab = vocabulary(3, 40)
    constraint = regex('"[^"]{0,3}"(,[a-z]{1,2})?')
    automaton = constraint.compile(vocab)
    arrays = lift(constraint.bytes_automaton, vocab)
    explicit = tt.Automaton.from_transitions(
        arrays.source, arrays.token_class_of_edge, arrays.target, arrays.token_class,
        arrays.start.tolist(), arrays.accept.tolist(), arrays.num_states, vocab.eos_token_id,
    )  # fmt: skip
    assert tt.count(automaton, n=6) == tt.count(explicit, n=6) > 1000
    assert automaton.finite.partitioned.edges() == explicit.edges()
    assert automaton.minimize().num_states <= explicit.minimize().num_states
    hmm = tt.HMM.random(3, len(vocab), seed=0)
    ours, theirs = tt.pgcd(hmm, automaton, 6).start(), tt.pgcd(hmm, explicit, 6).start()
    torch.testing.assert_close(ours.scores(), theirs.scores(), rtol=1e-5, atol=1e-5)
    token = int(ours.scores().argmax())
    for query in (ours, theirs):
        query.advance(torch.tensor([token]))
    torch.testing.assert_close(ours.scores(), theirs.scores(), rtol=1e-5, atol=1e-5)


def test_a_saved_one_is_an_automaton(tmp_path):
    from tractile.circuits.io.serialize import load, save

    automaton = regex('"[^"]{0,3}"').compile(vocabulary(4, 50))
    save(automaton, tmp_path)
    again = load(tmp_path)
    assert type(again) is tt.Automaton
    assert again.edges() == automaton.finite.edges()
    assert again.eos_token_id == automaton.eos_token_id
    assert again.is_deterministic


def test_pickled_after_use():
    automaton = regex('"[^"]{0,3}"').compile(vocabulary(4, 50))
    tt.gcd(automaton, 9).start().bitmask()
    again = pickle.loads(pickle.dumps(automaton))
    assert again.num_states == automaton.num_states
    assert [tt.count(again, n=n) for n in range(1, 7)] == [tt.count(automaton, n=n) for n in range(1, 7)]


def test_a_byte_that_is_no_token_leaves_no_dead_end():
    vocab = Vocabulary([b"a", b"ab", b"b", None], eos_token_id=3)
    mask = tt.lcd(regex("[ab]*c|b").compile(vocab)).start().mask()
    assert mask.tolist() == [[False, False, True, False]]


def test_bounded_strings_share_their_sets():
    """Ten strings of up to 128 characters, and 64 of them: no transition for each token, nor for each class elsewhere."""
    rng = random.Random(1)
    words = {bytes(rng.choices(range(97, 123), k=rng.randint(2, 8))) for _ in range(20_000)}
    vocab = Vocabulary([*BYTES, *sorted(words), None], eos_token_id=256 + len(words))
    ten: Constraint = regex("".join(f'"{i}": "[a-z]{{0,128}}"' for i in range(10)))
    automaton = ten.compile(vocab).finite
    assert automaton.num_states > 1300
    rows = automaton.transitions
    assert len(rows) < 1290 * 12
    assert automaton.labels.num_classes < 150
    assert len(automaton.labels.classes.row) < 60_000


def test_a_state_that_nothing_leads_to_is_left_out():
    edges = np.array([[0, 97, 97, 2], [1, 98, 98, 2], [2, 99, 99, 3]])  # nothing leads to state 1
    spoilt = nfa.Nfa(4, edges, (), np.array([0]), np.array([3]))
    found = compiled(spoilt, vocabulary(0))
    assert found.distances.tolist() == [3, 2, 1, 0]
    with pytest.raises(tt.errors.BudgetTooSmall) as error:
        tt.gcd(found, 8).start(budgets=1)
    assert error.value.needed == 3
