"""Every proposal is properly weighted, for every token: those of the library, and one that an outsider writes."""

import pytest
import torch
from smc_reference import Fsa, as_automaton, random_table

import tractile as tt
from tractile.inference.smc import (
    AWRSProposal,
    CharacterProposal,
    GCDProposal,
    LCDProposal,
    LMProposal,
    LookaheadProposal,
    MixtureProposal,
    Proposal,
)  # fmt: skip
from tractile.inference.smc.awrs import MaskedAWRSProposal
from tractile.testing import check_proposal

V, HORIZON = 4, 5
# Ends in 2, or has 1 before 3; token 3 is a dead end after 0 at the start. Nondeterministic.
FSA = as_automaton(
    Fsa([(0, [0, 1], 0), (0, 2, 1), (0, 1, 2), (2, [0, 1], 2), (2, 3, 1), (1, 2, 1)], 0, [1], V)
)
HMM = tt.HMM.random(3, V, seed=4, dtype=torch.float64)
PREFIXES = [(), (0,), (0, 1), (1, 0, 0), (0, 1, 3), (1, 1, 1, 0)]


class Words:
    token_bytes = (b"a", b"ab", b"b", b"ab")


LM = tt.lm.TableLM(random_table(V, 1, seed=2), None, Words())


class Uniform(Proposal):
    """The class of the documentation: the allowed tokens, one as probable as another."""

    def draw(self, step, generator):
        tokens = torch.multinomial(step.mask.double(), 1, generator=generator)
        weight = step.log_probs.gather(1, tokens)[:, 0] + step.mask.sum(1).log()
        return tokens[:, 0], weight.double()


def even(tokens):
    """A check of any prefix."""
    return (sum(tokens) + len(tokens)) % 3 != 1


def next_byte(text):
    """A weight for each byte, 257 for the end, that depends on the whole text; some are zero."""
    return [((b * 7 + len(text) * 3) % 5) / 4 for b in range(257)]


def spelled_weight(tokens, end=None):
    """Π of the weights of the bytes of the last token, or the weight of the end, which spells nothing."""
    text, total = b"".join(Words.token_bytes[token] for token in tokens[:-1]), 1.0
    for byte in [256] if tokens[-1] == end else Words.token_bytes[tokens[-1]]:
        total, text = total * next_byte(text)[byte], text + bytes([byte % 256])
    return total


BASES = [GCDProposal(), LCDProposal()]
PROPOSALS = [
    LMProposal(), LCDProposal(), GCDProposal(), GCDProposal(0.6), LookaheadProposal(0.5, temperature=1.7),
    LookaheadProposal(), LookaheadProposal(strength=0.5),
    LookaheadProposal(strength=0.0), MixtureProposal(), MixtureProposal(w=1.0), MixtureProposal(w=0.0), MaskedAWRSProposal(),
    AWRSProposal(bool), Uniform(),
]  # fmt: skip


@pytest.mark.parametrize("proposal", PROPOSALS, ids=type)
def test_a_proposal_is_properly_weighted(proposal):
    check_proposal(proposal, LM, FSA, HMM, horizon=HORIZON, prefixes=PREFIXES)


@pytest.mark.parametrize("base", BASES, ids=type)
@pytest.mark.parametrize("rejects", [None, 2])
def test_a_check_of_ones_own_is_a_factor(base, rejects):
    check = AWRSProposal(even, base=base, tokens=True, max_rejects=rejects)
    check_proposal(check, LM, FSA, HMM, horizon=HORIZON, prefixes=PREFIXES, factor=even)


@pytest.mark.parametrize("base", BASES, ids=type)
@pytest.mark.parametrize("end", [None, 3])
def test_weights_of_bytes_are_a_factor(base, end):
    """Whatever bytes the vocabulary gives the end token."""
    ended = Fsa([(0, [0, 1], 0), (0, 2, 1), (1, [0, 1], 1), (1, 3, 2), (2, 3, 2)], 0, [2], V, end)
    fa, prefixes = (FSA, PREFIXES[:3]) if end is None else (as_automaton(ended), [(0,), (2,), (2, 1, 0)])
    lm, proposal = tt.lm.TableLM(LM._table, end, Words()), CharacterProposal(Words(), next_byte, base=base)
    given = {"horizon": HORIZON, "prefixes": prefixes, "factor": lambda tokens: spelled_weight(tokens, end)}
    check_proposal(proposal, lm, fa, HMM, **given)
