"""Oracles for the Metropolis–Hastings move: all states of a chain, and its transition matrix in exact probabilities."""

import math

import torch
from smc_reference import CASES, EOS, HMM, N, as_automaton, enumerate_target, padded, phi, spelled

import tractile as tt
from tractile.inference.smc import LCDProposal, LMProposal, systematic
from tractile.inference.smc.kernel import Kernel
from tractile.inference.smc.particles import Particles
from tractile.inference.smc.proposals import Proposal
from tractile.inference.smc.settings import SamplerSettings


def ahead(length):
    """Rather late than early, and not symmetric in any way."""
    return [1.0 + place**2 for place in range(length)]


def kernel_for(case, proposal, potential=None, cut=None):
    lm, fsa = CASES[case]
    potential = tt.PrefixPotential() if potential is None else potential
    return Kernel(
        SamplerSettings(lm, as_automaton(fsa), HMM, proposal, potential, systematic, 0.0, N), [], cut
    )


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
        cuts = kernel._cuts(path.length, N)[0].exp()
        for b, (y, other, log_q, _) in enumerate(found):
            for place in range(length):
                if x[:place] == y[:place]:
                    at = torch.tensor([place])
                    chance = min(0.0, float(kernel.log_acceptance(path, other, at, N)))
                    matrix[a, b] += cuts[place] * math.exp(sum(log_q[place:]) + chance)
        matrix[a, a] += 1 - matrix[a].sum()
    return matrix


def unpadded(x, case):
    return x[: x.index(EOS) + 1] if case == "ended" and EOS in x else x


PSI = {
    "none": (lambda: None, lambda x, c: 1.0),
    "text": (lambda: tt.FunctionPotential(phi, tt.every_clause), lambda x, c: phi(spelled(x, c))),
}
TABULAR = {
    "lm": LMProposal(),
    "lcd": LCDProposal(),
    "gcd, warm": tt.GCDProposal(1.5),
    "lookahead": tt.LookaheadProposal(),
    "mixture": tt.MixtureProposal(),
}
