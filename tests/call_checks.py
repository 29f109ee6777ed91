"""What tests of calls in JSON and in Python have in common: random texts, and checks against the finite automaton."""

import itertools
import random

import pytest

import tractile as tt
from tractile.constraints import Vocabulary
from tractile.constraints.automata.lazy import Numbered
from tractile.constraints.automata.stack import StackAutomaton
from tractile.constraints.constraint import Constraint
from tractile.inference.next_token.finite_masks import FiniteMasks
from tractile.inference.next_token.gcd import GCDQuery
from tractile.inference.next_token.lazy_masks import LazyMasks


def walk(automaton, rng, most):
    """A random text, with the checks that hold at every configuration."""
    here, text = automaton.start(), bytearray()
    while True:
        moves = automaton.moves(here)
        ends = automaton.accepting(here)
        assert moves or ends
        assert all(one[1] < other[0] for one, other in itertools.pairwise(moves)), bytes(text)
        if ends and (not moves or rng.random() < 0.5):
            return bytes(text)
        end = automaton.completion(here)
        there = here
        for byte in end:
            there = automaton.step(there, byte)
            assert there is not None, (bytes(text), end)
        assert automaton.accepting(there), (bytes(text), end)
        if len(text) > most:
            return bytes(text) + end
        low, high, here = rng.choice(moves)
        text.append(rng.randint(low, high))


def pieces_and_bytes(pieces):
    """A vocabulary of these pieces and of all characters and bytes."""
    words = [piece.encode() for piece in pieces]
    words += [*(chr(i).encode() for i in range(127)), *(bytes([b]) for b in range(127, 256))]
    return Vocabulary([*words, None], eos_token_id=len(words))


def check_guides(constraint, rejected):
    """The abstractions that guides are made of accept all texts, and not everything."""
    rng, guide = random.Random(3), Constraint(constraint.regular(1_000))
    levels = [Numbered(StackAutomaton(constraint.automaton.root.coarse(level))) for level in range(3)]
    for i in range(40):
        text = walk(constraint.automaton, rng, 3 * i)
        assert guide.accepts(text)
        assert all(level.accepts(text) for level in levels)
    assert not any(guide.accepts(text) for text in rejected)


def check_masks_and_budgets(c, vocab):
    """Masks within three budgets, and the least budget, are those of the finite automaton."""
    lazy, finite = c.compile(vocab).lazy, c.finite.compile(vocab)
    least = lazy.fewest(lazy.start_state)
    assert lazy.distances.exact
    for budget in (least, least + 3, 40):
        for seed in range(3):
            one = GCDQuery(lazy, budget, LazyMasks(lazy, budget)).start(1)
            other = GCDQuery(finite, budget, FiniteMasks(finite, budget)).start(1)
            rng = random.Random(budget + seed)
            while int(one.remaining):
                mask = one.mask()
                assert mask.equal(other.mask())
                token = rng.choice(mask[0].nonzero().flatten().tolist())
                one.advance([token])
                other.advance([token])
    with pytest.raises(tt.errors.BudgetTooSmall):
        GCDQuery(lazy, least - 1, LazyMasks(lazy, least - 1)).start(1)
