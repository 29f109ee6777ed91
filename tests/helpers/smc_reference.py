"""Oracles for the sampler, in plain Python: `enumerate_target` lists p_lm(x) · 1[x ∈ C] for every sequence of a length."""

import itertools
import math

import oracle
import torch

import tractile as tt
from tractile.inference.smc.proposals import Tabular
from tractile.inference.smc.step import Knowledge


class Fsa(oracle.OracleFSA):
    """An automaton of edges (source, token or list of tokens, target), with one start."""

    def __init__(self, edges, start, accept, vocab_size, eos_token_id=None):
        self.given, self.eos_token_id = edges, eos_token_id
        every = [
            (s, v, d) for s, tokens, d in edges for v in (tokens if isinstance(tokens, list) else [tokens])
        ]
        super().__init__(every, [start], accept, vocab_size)

    def step(self, states, token):
        return {d for s, v, d in self.edges if s in states and v == token}

    def finishes(self, states, budget):
        """Is some accepted sequence of exactly `budget` more tokens possible?"""
        return oracle.alive(self, states, budget)

    def survives(self, states):
        """Is acceptance possible with any number of tokens?"""
        return oracle.alive(self, states)


def sequence_log_prob(lm, tokens, prompt=()):
    """log p_lm(tokens | prompt), token by token."""
    lm.start([list(prompt)])
    total = 0.0
    for token in tokens:
        total += float(lm.log_probs()[0, token])
        if total == -math.inf:
            return total
        lm.advance(torch.tensor([token]))
    return total


def enumerate_target(lm, fsa, n, prompt=()):
    """{x: p_lm(x)} over the sequences of n tokens that the automaton accepts, those of probability zero left out."""
    target = {}
    for x in itertools.product(range(fsa.vocab_size), repeat=n):
        if fsa.accepts(x) and (p := math.exp(sequence_log_prob(lm, x, prompt))) > 0:
            target[x] = p
    return target


def padded(token_ids, n, eos):
    """A particle's tokens as a sequence of n tokens."""
    return tuple(token_ids) + (eos,) * (n - len(token_ids))


def random_table(vocab_size, order, seed, zero=-1):
    """A random table of log-probabilities for `TableLM`: every context of at most `order` tokens; `zero` is impossible."""
    drawn = {"generator": torch.Generator().manual_seed(seed), "dtype": torch.float64}
    left_out = torch.arange(vocab_size) == zero
    return {
        context: torch.randn(vocab_size, **drawn).mul(1.2).masked_fill(left_out, -torch.inf).log_softmax(0)
        for length in range(order + 1)
        for context in itertools.product(range(vocab_size), repeat=length)
    }


def as_automaton(fsa):
    """The same automaton as a `tractile.Automaton`."""
    return tt.Automaton.from_edges(
        fsa.given, fsa.start, fsa.accept, fsa.vocab_size, eos_token_id=fsa.eos_token_id
    )


def z_scores(values, truth):
    """Standardised difference between the means of independent runs and the truth, for each column."""
    values, truth = (torch.as_tensor(x, dtype=torch.float64) for x in (values, truth))
    return (values.mean(dim=0) - truth) / values.std(dim=0) * len(values) ** 0.5


# One bench for samplers: two tiny language models with a constraint each, and functions whose expectations are known.

V, N, EOS = 3, 4, 2
# At least one 1 in the text, then end of sequence, then padding: what `compile` makes of a constraint.
ENDED = Fsa([(0, 0, 0), (0, 1, 1), (1, [0, 1], 1), (1, EOS, 2), (2, EOS, 2)], 0, [2], V, EOS)
# Exactly N tokens, an even number of 1s and the last is 0; nondeterministic and ambiguous on purpose.
EXACT = Fsa(
    [(0, 0, 0), (0, 1, 1), (1, 1, 0), (1, 0, 1), (0, 0, 3), (0, 2, 4), (4, 0, 3), (4, 2, 4), (0, 2, 0)],
    0,
    [3],
    V,
)
RUNS = 40
LIMIT = 4.42  # two-sided error probability 1e-5 for each z-score of RUNS independent runs
# The HMM is a poor model of the language model: weights must do the work.
HMM = tt.HMM.random(3, V, seed=7, dtype=torch.float64)


class Letters:
    """Token 0 ends a clause, 1 a line."""

    token_bytes = (b"a, ", b"b\n", b"c")


def phi(text):
    """A positive function of a text that is not a product over tokens."""
    return 1.0 + (2.7 * len(text) + 3 * text.count("b\n") ** 2) % 2.3


def spelled(x, case):
    """The text of a padded sequence of a case."""
    kept = [t for t in x if not (case == "ended" and t == EOS)]
    return b"".join(Letters.token_bytes[t] for t in kept).decode()


CASES = {
    "ended": (tt.lm.TableLM(random_table(V, 2, seed=3), EOS, Letters()), ENDED),
    "exact": (tt.lm.TableLM(random_table(V, 2, seed=5), None, Letters()), EXACT),
}


COMPILED = {
    case: as_automaton(fsa) for case, (_, fsa) in CASES.items()
}  # which keep their queries from run to run


class Follows(tt.inference.smc.Potential):
    """Ψ(x) = p(x)^power under another model: a potential with a state for each particle."""

    is_twist = False

    def __init__(self, power, lm):
        self.power, self.lm = power, lm

    def start(self, lm, prompts, budgets):
        self.lm.start(list(prompts))
        self.total = torch.zeros(len(prompts), dtype=torch.float64)

    def log_value(self, rows):
        return self.total[rows.step.rows] + self._gain(rows.step.rows, rows.tokens)

    def advance(self, indices, tokens):
        gain = self._gain(indices, tokens.clamp(min=0)).masked_fill(tokens < 0, 0.0)
        self.total = self.total[indices] + gain
        self.lm.select(indices)
        self.lm.advance(tokens)

    def _gain(self, states, tokens):
        log_p = self.lm.log_probs()[states, tokens].double()
        return self.power * log_p if self.power else torch.zeros_like(log_p)


class ForgetsItsWeight(Tabular):
    """A planted bias: locally constrained sampling presented as if it were the target."""

    needs = Knowledge.BUDGET

    def belief(self, step):
        return tt.inference.smc.GCDProposal().belief(step)

    def log_weight(self, step, log_q, tokens):
        return torch.zeros(len(tokens), dtype=torch.float64)


def moments(target):
    """Z and Z·E[f] for three functions of the padded sequence, by enumeration."""
    return [sum(p * g(x) for x, p in target.items()) for g in FUNCTIONS]


FUNCTIONS = [lambda x: 1.0, lambda x: float(x[0] == 1), lambda x: float(sum(x)), lambda x: float(x.count(0))]


def estimates(post):
    """Ẑ and Ẑ·f: mean over particles of weight × f."""
    rows = []
    for particle in post.particles:
        x = padded(particle.token_ids, N, EOS)
        weight = math.exp(particle.log_weight)
        rows.append([weight * g(x) if weight else 0.0 for g in FUNCTIONS])
    return torch.tensor(rows, dtype=torch.float64).mean(dim=0)


def against_enumeration(run, target, runs=RUNS):
    """z-scores of the mean over seeds of Ẑ and Ẑ·f for a target {padded sequence: weight}."""
    found, truth = torch.stack([estimates(run(seed)) for seed in range(runs)]), moments(target)
    fixed = found.std(dim=0) <= 1e-12 * found.abs().amax(dim=0)  # no noise: right or wrong
    right = (found[0] - torch.tensor(truth, dtype=torch.float64)).abs() <= 1e-9
    return torch.where(fixed, torch.where(right, 0.0, torch.inf), z_scores(found, truth))
