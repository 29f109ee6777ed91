"""Samplers on random small models: proper weighting and E[Ẑ] = Z by enumerating the sampler's own randomness.

A sampler's random choices (tokens of a belief, answers to a black box, ancestors) are read off a script instead of a random
number generator. Every script is run and weighed by its probability, so expectations are exact: no test here is statistical.
The oracle is `smc_reference`: plain Python over all sequences.
"""

import math
import re
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import assume, given, reject
from hypothesis import strategies as st
from scripted_draws import Script, ScriptedRow, outcomes
from smc_reference import Fsa, as_automaton, enumerate_target, padded, sequence_log_prob

import tractile as tt
from tractile.inference import smc as sampling
from tractile.inference.smc import Step, resampling
from tractile.inference.smc.arguments import PROPOSALS
from tractile.inference.smc.awrs import MaskedAWRSProposal
from tractile.inference.smc.step import Knowledge

LETTERS = (b"a", b"b ", b"c\n", b"d, ")


@dataclass
class Case:
    """A language model, an automaton, a budget and a guide."""

    lm: object
    fsa: Fsa
    budget: int
    hmm: tt.HMM
    zeros: bool

    @property
    def eos(self):
        return self.fsa.eos_token_id

    def target(self, prompt=()):
        return enumerate_target(self.lm, self.fsa, self.budget, prompt)


def distribution(rng, size, zeros):
    p = rng.gamma(0.6, size=size) + 1e-3
    if zeros:
        p[rng.random(size) < 0.3] = 0.0
    if not p.any():
        p[rng.integers(size)] = 1.0
    return torch.tensor(p / p.sum())


class Spelling:
    token_bytes = LETTERS


@st.composite
def cases(draw, most_tokens=4, longest=4, zeros=True):
    """Small numbers shrink: tokens, states, budget; the rest comes from one seed."""
    vocab = draw(st.integers(2, most_tokens))
    budget, states = draw(st.integers(1, longest)), draw(st.integers(1, 3))
    ends, zeros, kind = draw(st.booleans()), zeros and draw(st.booleans()), draw(st.sampled_from("tc"))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    eos = vocab - 1 if ends else None
    words = vocab - ends
    edges = [(int(rng.integers(states)), int(rng.integers(words)), int(rng.integers(states)))
             for _ in range(int(rng.integers(1, 3 * states + 2)))]  # fmt: skip
    accept = sorted({int(s) for s in rng.integers(states, size=2)})
    if ends:  # as `compile` does: the end token leads to a sink that takes it for ever
        edges += [(state, eos, states) for state in accept] + [(states, eos, states)]
        accept = [states]
    fsa = Fsa(list(dict.fromkeys(edges)), 0, accept, vocab, eos)
    assume(fsa.finishes(frozenset([0]), budget))
    if kind == "t":
        contexts = [()] + [(t,) for t in range(vocab)]
        lm = tt.lm.TableLM({c: distribution(rng, vocab, zeros).log() for c in contexts}, eos, Spelling)
    else:
        rows = [distribution(rng, 2, False) for _ in range(3)]
        emission = torch.stack([distribution(rng, vocab, zeros) for _ in range(2)])
        lm = tt.CircuitLM(tt.HMM(rows[0], torch.stack(rows[1:]), emission), eos, Spelling)
    # The guide may rule out tokens, as long as the model does so too.
    possible = np.ones(vocab, bool)
    if zeros:
        possible = np.array([_ever(lm, token, vocab) for token in range(vocab)])
    emission = torch.stack([distribution(rng, vocab, False) for _ in range(2)]) * torch.tensor(possible)
    rows = [distribution(rng, 2, False) for _ in range(3)]
    hmm = tt.HMM(rows[0], torch.stack(rows[1:]), emission / emission.sum(1, keepdim=True))
    return Case(lm, fsa, budget, hmm, zeros)


def _ever(lm, token, vocab):
    """Whether the language model ever gives the token a positive probability."""
    if isinstance(lm, tt.lm.TableLM):
        return any(float(row[token]) > -math.inf for row in lm._table.values())
    return bool((lm._chain.emission_probs[:, token] > 0).any())


@st.composite
def tabular(draw):
    """A proposal that is a table of probabilities."""
    strength = st.sampled_from([0.0, 0.3, 1.0, 2.0])
    return draw(
        st.one_of(
            st.sampled_from([n for n in PROPOSALS if n not in ("awrs", "pgcd")]).map(
                lambda name: PROPOSALS[name]()
            ),
            st.builds(sampling.LookaheadProposal, strength, st.sampled_from([1.0, 0.7])),
            st.builds(sampling.MixtureProposal, st.sampled_from([0.0, 0.2, 1.0])),
            st.builds(sampling.GCDProposal, st.sampled_from([0.5, 1.5])),
        )
    )


# ------------------------------------------------------------------------------------------------------ scripted randomness


class Scripted(sampling.Proposal):
    """A tabular proposal whose choices are those of the script that the generator's seed says."""

    def __init__(self, proposal, scripts):
        self.proposal, self.scripts, self.needs = proposal, scripts, proposal.needs

    @property
    def potential(self):
        return self.proposal.potential

    def draw(self, step, generator):
        script = self.scripts[generator.initial_seed()]
        belief = self.proposal.belief(step).double()
        tokens = [script.pick(row.exp().numpy()) if row.isfinite().any() else 0 for row in belief]
        log_q, tokens = belief.log_softmax(1), torch.tensor(tokens)
        return tokens, self.proposal.log_weight(step, log_q.gather(1, tokens[:, None])[:, 0], tokens)


def query_of(case, proposal):
    fa = as_automaton(case.fsa)
    if proposal.needs is Knowledge.HMM:
        return tt.pgcd(case.hmm, fa, case.budget)
    return tt.lcd(fa) if proposal.needs is Knowledge.LOCAL else tt.gcd(fa, case.budget)


def walked(case, proposal, steps, seed):
    """A step after a random prefix that model and constraint allow, and the prefix."""
    query = query_of(case, proposal).start(1)
    case.lm.start([[]])
    rng, prefix = np.random.default_rng(seed), []
    for _ in range(min(steps, case.budget - 1)):
        log_p = case.lm.log_probs()[0].masked_fill(~query.mask()[0], -math.inf)
        allowed = [t for t in range(case.fsa.vocab_size) if log_p[t] > -math.inf and t != case.eos]
        if not allowed:
            break
        prefix.append(int(rng.choice(allowed)))
        token = torch.tensor(prefix[-1:])
        case.lm.advance(token)
        query.advance(token)
    last = len(prefix) + 1 == case.budget
    step = Step(case.lm.log_probs(), query, torch.tensor([prefix], dtype=torch.long), decode=case.lm.decode,
                eos_token_id=case.eos, last=last)  # fmt: skip
    return step, prefix


@contextmanager
def a_guide_without_a_future(case):
    """Passes over cases in which the guide gives zero to a token or to all that may follow: these are refused by name."""
    try:
        yield
    except tt.errors.EvidenceError as error:
        if not case.zeros or not re.search("probability zero|no probability at all", str(error)):
            raise
        reject()


def truth(case, proposal, prefix):
    """p_lm · 1[allowed] of each token, by enumeration."""
    case.lm.start([[]])
    for token in prefix:
        case.lm.advance(torch.tensor([token]))
    p = case.lm.log_probs()[0].exp().tolist()
    states = case.fsa.states(prefix)
    left = case.budget - len(prefix) - 1
    after = [case.fsa.step(states, v) for v in range(case.fsa.vocab_size)]
    local = proposal.needs is Knowledge.LOCAL
    return [
        p[v] * (case.fsa.survives(s) if local else case.fsa.finishes(s, left)) for v, s in enumerate(after)
    ]


# --------------------------------------------------------------------------------------------------------- one step


BLACK_BOXES = {
    "recursive": lambda check, base: sampling.AWRSProposal(check, base=base, tokens=True),
    "recursive, two rejects": lambda check, base: sampling.AWRSProposal(
        check, base=base, tokens=True, max_rejects=2
    ),
}


@given(
    cases(),
    tabular(),
    st.sampled_from(list(BLACK_BOXES)),
    st.integers(1, 15),
    st.integers(0, 3),
    st.integers(0, 99),
)
def test_black_box_proposals_are_properly_weighted(case, base, kind, accepted, steps, seed):
    """E[W · 1{X = x}] = p_lm(x) · 1[x allowed] · ψ(x) over everything that the proposal draws."""
    proposal = BLACK_BOXES[kind](lambda tokens: bool(accepted >> tokens[-1] & 1), base)
    step, prefix = walked(case, proposal, steps, seed)
    with a_guide_without_a_future(case):
        log_q = base.belief(step).double()
    assume(bool(log_q.isfinite().any()))
    log_q = log_q.log_softmax(1)
    q = log_q[0].exp().numpy()

    def sample(pick):
        return proposal.draw_rows([ScriptedRow(q, prefix, pick)], step)[0]

    found = np.zeros(len(q))
    for number, (probability, (token, weight)) in enumerate(outcomes(sample)):
        assume(number < 2000)
        assert weight >= 0
        found[token] += probability * weight
    tokens = torch.arange(len(q))
    correction = (
        torch.cat([base.log_weight(step, log_q[:, t], tokens[t : t + 1]) for t in tokens]).exp().numpy()
    )
    expected = [p * (accepted >> v & 1) for v, p in enumerate(truth(case, proposal, prefix))]
    assert (found * np.where(q > 0, correction, 0.0)).tolist() == pytest.approx(expected, rel=1e-8, abs=1e-14)
    _, log_weight = proposal.draw_checked(step, torch.Generator().manual_seed(seed))
    assert not bool(log_weight.isnan().any())


# --------------------------------------------------------------------------------------------------------- whole runs


def worth(text):
    """Positive, and not a product over tokens."""
    return 1.0 + (2.7 * len(text) + 3 * text.count("b") ** 2) % 2.3


def forbids(text):
    """No text with two b's, whatever follows."""
    return float(text.count("b") < 2)


def value_of(x, case, function):
    return function(case.lm.decode(x))


POTENTIALS = {
    "none": (lambda: None, lambda x, case: 1.0),
    "prefix": (sampling.PrefixPotential, lambda x, case: 1.0),
    "lookahead": (lambda: sampling.LookaheadPotential(0.5), lambda x, case: 1.0),
    "function": (lambda: sampling.FunctionPotential(worth), lambda x, case: value_of(x, case, worth)),
    "lines": (lambda: sampling.FunctionPotential(worth, sampling.every_line), lambda x, case: value_of(x, case, worth)),
    "zeros": (lambda: sampling.FunctionPotential(forbids), lambda x, case: value_of(x, case, forbids)),
    "twist": (lambda: sampling.FunctionPotential(worth, twist=True), lambda x, case: 1.0),
    "held": (
        lambda: sampling.FunctionPotential(worth).at(sampling.every_clause), lambda x, case: value_of(x, case, worth)),
    "product": (
        lambda: sampling.FunctionPotential(forbids) * sampling.FunctionPotential(worth, sampling.at_end),
        lambda x, case: value_of(x, case, forbids) * value_of(x, case, worth)),
}  # fmt: skip


def estimate(post, case, f):
    """Ẑ · E[f]: the mean over the particles of weight · f."""
    weights = post.log_weights.exp().tolist()
    values = [
        w * f(padded(ids, case.budget, case.eos)) if w else 0.0
        for w, ids in zip(weights, post.token_ids, strict=True)
    ]
    return math.fsum(values) / len(values)


FUNCTIONS = [lambda x: 1.0, lambda x: 1.0 + x[0] + 2 * sum(x)]


@given(
    cases(most_tokens=3, longest=3),
    tabular(),
    st.sampled_from(list(POTENTIALS)),
    st.sampled_from([0.0, 0.8, 1.1]),
    st.sampled_from([None, sampling.every_line, sampling.every_clause]),
)
def test_estimates_are_unbiased(case, proposal, potential, threshold, align):
    """E[Ẑ] = Z and E[Ẑ f] = Z E[f], exactly: all tokens and ancestors are enumerated, the scripts of a round in one batch."""
    particles = 2 if case.fsa.vocab_size**case.budget <= 4 else 1
    make, psi = POTENTIALS[potential]
    scripts, fa = [], as_automaton(case.fsa)

    def ancestors(weights, generator, count):
        script = scripts[generator.initial_seed()]
        return torch.tensor(sorted(script.pick(weights.numpy()) for _ in range(count)))

    pending, found, total = [[]], np.zeros(2), 0.0
    while pending:
        scripts[:] = [Script(given) for given in pending]
        with a_guide_without_a_future(case):
            posts = tt.smc(case.lm, prompts=[[]] * len(scripts), fa=fa, proposal=Scripted(proposal, scripts), hmm=case.hmm,
                           particles=particles, max_new_tokens=case.budget, seed=list(range(len(scripts))), potential=make(),
                           resampling=ancestors, ess_threshold=threshold, align=align)  # fmt: skip
        for script, post in zip(scripts, posts, strict=True):
            total += script.probability
            found += script.probability * np.array([estimate(post, case, f) for f in FUNCTIONS])
        pending = [branch for script in scripts for branch in script.branches]
    target = {x: p * psi(x, case) for x, p in case.target().items()}
    assert total == pytest.approx(1.0, rel=1e-9)
    expected = [math.fsum(p * f(x) for x, p in target.items()) for f in FUNCTIONS]
    assert found.tolist() == pytest.approx(expected, rel=1e-8, abs=1e-13)


@st.composite
def proposals(draw):
    """Any proposal, with what it multiplies p_lm with, a function of the text or None."""
    plain = st.one_of(tabular(), st.builds(MaskedAWRSProposal))
    checked = st.sampled_from(list(BLACK_BOXES)).flatmap(
        lambda kind: tabular().map(lambda base: (BLACK_BOXES[kind], base))
    )
    made = draw(st.one_of(plain, plain, checked))
    if isinstance(made, tuple):
        kind, base = made
        return kind(lambda tokens: tokens.count(1) < 2, base), lambda x: float(x.count(1) < 2)
    return made, lambda x: 1.0


@given(
    cases(),
    proposals(),
    st.sampled_from(list(POTENTIALS)),
    st.sampled_from(list(resampling.SCHEMES)),
    st.sampled_from([0.0, 0.5, 1.1]),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([(1, None), (1, sampling.every_clause), (2, None)]),
    st.integers(0, 2**16),
)
def test_weights_are_positive_exactly_where_a_text_is_valid(
    case, proposed, potential, scheme, threshold, particles, split, seed
):
    """Never NaN; no error but a typed one; log p_lm is that of the tokens; and without resampling a weight is a product of
    ratios, so a particle lives if and only if its tokens satisfy the constraint with p_lm · Ψ > 0."""
    (proposal, check), (make, psi) = proposed, POTENTIALS[potential]
    beam, align = split
    with a_guide_without_a_future(case):
        post = tt.smc(case.lm, [], as_automaton(case.fsa), proposal, case.hmm, particles, case.budget, seed, potential=make(),
                      resampling=scheme, ess_threshold=threshold, beam_factor=beam, align=align)  # fmt: skip
    assert not bool(
        post.log_weights.isnan().any() | post.log_weights.isposinf().any() | post.log_probs.isnan().any()
    )
    assert not math.isnan(post.log_evidence)
    assert not math.isnan(post.ess)
    rejects = isinstance(proposal, sampling.AWRSProposal) and proposal.max_rejects
    for particle in post.particles:
        whole = len(particle.token_ids) == case.budget or particle.token_ids[-1:] == (case.eos,)
        x = padded(particle.token_ids, case.budget, case.eos)
        log_p = sequence_log_prob(case.lm, particle.token_ids)
        alive = particle.log_weight > -math.inf
        if alive or log_p > -math.inf:
            assert particle.log_prob == pytest.approx(log_p, rel=1e-9, abs=1e-9)
        valid = (
            whole
            and case.fsa.accepts(x)
            and log_p > -math.inf
            and psi(x, case) * check(particle.token_ids) > 0
        )
        assert valid or not alive
        assert alive or not valid or rejects or threshold > 0


# --------------------------------------------------------------------------------------------------------- resampling
