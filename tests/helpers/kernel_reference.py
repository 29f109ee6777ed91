"""Oracles for the Metropolis–Hastings move: all states of a chain, and its transition matrix in exact probabilities."""

import math

import torch
from smc_reference import (
    CASES,
    EOS,
    FUNCTIONS,
    HMM,
    N,
    as_automaton,
    enumerate_target,
    moments,
    padded,
    phi,
    spelled,
)

import tractile as tt
from tractile.inference.smc import LCDProposal, LMProposal
from tractile.inference.smc.kernel import Kernel
from tractile.inference.smc.particles import Particles
from tractile.inference.smc.proposals import Proposal
from tractile.inference.smc.request import Request


def ahead(length):
    """Rather late than early, and not symmetric in any way."""
    return [1.0 + place**2 for place in range(length)]


def kernel_for(case, proposal, potential=None, cut=None):
    lm, fsa = CASES[case]
    request = Request(lm, [], as_automaton(fsa), HMM, proposal, potential, max_new_tokens=N)
    factors = [] if potential is None else [potential]
    return Kernel(request.prepare(*factors), factors, cut)


class Scripted(Proposal):
    """Draws what it is told, with the weight that a tabular proposal would have given, and notes log q."""

    def __init__(self, base):
        self.base, self.needs = base, base.needs

    def read(self, tokens):
        self.left, self.log_q = list(tokens), []
        return self

    def draw(self, step, generator):
        token = torch.tensor([self.left.pop(0)])
        log_q = self.base.belief(step).double().log_softmax(1)[0, token]
        self.log_q.append(float(log_q))
        return token, self.base.log_weight(step, log_q, token)


def states_of(case, base, potential, cut, psi):
    """Every state of the chain as a path made by the kernel, with log q of its tokens and its share of the target."""
    lm, fsa = CASES[case]
    target = {x: p * psi(x, case) for x, p in enumerate_target(lm, fsa, N).items()}
    scripted = Scripted(base)
    kernel = kernel_for(case, scripted, potential, cut)
    found = []
    for x, p in target.items():
        scripted.read(x)
        path = kernel.extend(Particles.start(1, N), torch.tensor([0]), N, torch.Generator())
        assert padded(path.tokens[0, : int(path.length[0])].tolist(), N, EOS) == x
        found.append((x, path, scripted.log_q, p / sum(target.values())))
    return kernel, found


def transition_matrix(kernel, found):
    """K[x, y] of one move."""
    matrix = torch.zeros(len(found), len(found), dtype=torch.float64)
    for a, (x, path, _, _) in enumerate(found):
        length = int(path.length[0])
        cuts = kernel._cuts(path.length)[0].exp()
        for b, (y, other, log_q, _) in enumerate(found):
            for place in range(length):
                if x[:place] == y[:place]:
                    at = torch.tensor([place])
                    chance = min(0.0, float(kernel.log_acceptance(path, other, at)))
                    matrix[a, b] += cuts[place] * math.exp(sum(log_q[place:]) + chance)
        matrix[a, a] += 1 - matrix[a].sum()
    return matrix


PSI = {
    "none": (lambda: None, lambda x, c: 1.0),
    "text": (
        lambda: tt.inference.smc.FunctionPotential(phi, tt.inference.smc.every_clause),
        lambda x, c: phi(spelled(x, c)),
    ),
}
TABULAR = {
    "lm": LMProposal(),
    "lcd": LCDProposal(),
    "gcd, warm": tt.inference.smc.GCDProposal(1.5),
    "lookahead": tt.inference.smc.LookaheadProposal(),
    "mixture": tt.inference.smc.MixtureProposal(),
}


def no_double(text):
    return all(x != y for x, y in zip(text.split(), text.split()[1:], strict=False))


def whole(text):
    return no_double(text) and "a" in text


def letter(text):
    weights = torch.zeros(257)
    for b in b"abc, \n":
        weights[b] = (0.7, 0.85, 1.0)[(b + len(text)) % 3]
    weights[256] = 0.9
    return weights


def letters_weight(x, case):
    total, text = 1.0, b""
    for t in x:
        if case == "ended" and t == EOS:
            return total * 0.9
        for b in (b"a, ", b"b\n", b"c")[t]:
            total, text = total * float(letter(text)[b]), text + bytes([b])
    return total


RANDOM = {
    "awrs": (lambda: tt.inference.smc.AWRSProposal(no_double, whole), lambda x, c: whole(spelled(x, c))),
    "characters": (
        lambda: tt.inference.smc.CharacterProposal(CASES["ended"][0]._vocabulary, letter),
        letters_weight,
    ),
}


def exact_start(kernel, count, generator):
    """Paths from the target itself, weights and all: draws kept with probability equal to their weight (at most 40)."""
    nothing, kept = torch.zeros(count, dtype=torch.long), []
    while sum(len(path.length) for path in kept) < count:
        drawn = kernel.extend(Particles.start(count, N), nothing, N, generator)
        weight = drawn.log_value(nothing).exp()
        top = 3.3 if kernel.factors else 1.0
        assert float(weight.max()) <= top + 1e-9
        keep = torch.rand(count, dtype=torch.float64, generator=generator) * top < weight
        kept.append(drawn.take(keep.nonzero()[:, 0]))
    return kept[0].joined(*kept[1:]).take(torch.arange(count))


def scores(paths, target):
    """z-scores of the mean of each function against its expectation under the target."""
    z, *totals = moments(target)
    rows = [padded(t[:n], N, EOS) for t, n in zip(paths.tokens.tolist(), paths.length.tolist(), strict=True)]
    values = torch.tensor([[g(x) for g in FUNCTIONS[1:]] for x in rows], dtype=torch.float64)
    truth = torch.tensor(totals, dtype=torch.float64) / z
    return (values.mean(0) - truth) / (values.std(0) / len(rows) ** 0.5)
