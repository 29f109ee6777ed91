"""Each proposal is properly weighted: E[W · 1{X = x}] = p_lm(x) · 1[x allowed] for every token."""

import math

import pytest
import torch
from smc_reference import Fsa, as_automaton, random_table

import tractile as tt
from tractile.cli.generate import Proposal as GenerateOption
from tractile.inference import smc as sampling
from tractile.inference.smc import (
    Extension,
    GCDProposal,
    LCDProposal,
    LMProposal,
    LookaheadPotential,
    LookaheadProposal,
    MixtureProposal,
    Step,
)
from tractile.inference.smc.arguments import PROPOSALS as NAMES
from tractile.inference.smc.awrs import MaskedAWRSProposal
from tractile.inference.smc.proposals import Knowledge, Tabular, draw_tokens
from tractile_bench import methods

V, HORIZON = 4, 5
# Ends in 2, or has 1 before 3; token 3 is a dead end after 0 at the start. Nondeterministic.
FSA = Fsa([(0, [0, 1], 0), (0, 2, 1), (0, 1, 2), (2, [0, 1], 2), (2, 3, 1), (1, 2, 1)], 0, [1], V)
HMM = tt.HMM.random(3, V, seed=4, dtype=torch.float64)


def query_for(proposal):
    """The query that a proposal needs, before any token."""
    if proposal.needs is Knowledge.LOCAL:
        return tt.lcd(as_automaton(FSA))
    if proposal.needs is Knowledge.BUDGET:
        return tt.gcd(as_automaton(FSA), HORIZON)
    return tt.pgcd(HMM, as_automaton(FSA), HORIZON)


def step_after(query, prefix, rows=1):
    lm = tt.lm.TableLM(random_table(V, 1, seed=2))
    lm.start([[]] * rows)
    query.start(rows)
    for token in prefix:
        tokens = torch.full((rows,), token)
        lm.advance(tokens)
        query.advance(tokens)
    return Step(lm.log_probs(), query, torch.tensor([prefix] * rows, dtype=torch.long))


def name_of(proposal):
    """The class and the plain settings of a proposal; a name as it is."""
    if isinstance(proposal, str):
        return proposal
    plain = {name: value for name, value in vars(proposal).items() if isinstance(value, float | str)}
    return f"{type(proposal).__name__}{plain}"


def test_beliefs_are_the_formulas():
    """q of each proposal (Dang et al. 2026, Eq. 1 and §4.3)."""
    query = tt.pgcd(HMM, as_automaton(FSA), HORIZON)
    step = step_after(query, (0, 1))
    p, mask = step.log_probs[0].exp(), step.mask[0]
    future, conditional = query.lookahead()[0].exp(), query.scores()[0].exp()
    expected = {
        LMProposal(): p,
        GCDProposal(): p * mask,
        LookaheadProposal(): p * future,
        LookaheadProposal(0.5): p * future**0.5,
        MixtureProposal(0.3): p**0.3 * conditional**0.7 * mask,
    }
    for proposal, q in expected.items():
        torch.testing.assert_close(proposal.belief(step)[0].softmax(0), q / q.sum(), rtol=1e-9, atol=0.0)


def test_a_row_without_a_way_on_weighs_nothing():
    fsa = Fsa([(0, 1, 1)], 0, [1], V)
    query = tt.lcd(as_automaton(fsa))
    step = step_after(query, (1,), rows=3)
    for proposal in (LMProposal(), LCDProposal()):
        tokens, log_weight = proposal.draw(step, torch.Generator().manual_seed(0))
        assert tokens.shape == (3,)
        assert bool(log_weight.isneginf().all())


def test_an_hmm_that_rules_out_a_possible_token_is_an_error():
    emission = torch.tensor([[0.5, 0.25, 0.25, 0.0]] * 2, dtype=torch.float64)
    half = torch.full((2, 2), 0.5, dtype=torch.float64)
    query = tt.pgcd(tt.HMM(half[0], half, emission), as_automaton(FSA), HORIZON)
    for proposal in (LookaheadProposal(), MixtureProposal()):
        with pytest.raises(tt.TractileError, match=r"probability zero to token 3.*smooth"):
            proposal.draw(step_after(query, (0, 1)), torch.Generator().manual_seed(0))


def test_lookahead_potential_is_the_lookahead_of_the_token():
    query = query_for(LookaheadProposal())
    step = step_after(query, (0, 1), rows=V)
    nowhere = torch.zeros(V, dtype=torch.bool)
    value = LookaheadPotential().log_value(Extension(step, torch.arange(V), nowhere, ~nowhere))
    torch.testing.assert_close(value, query.lookahead()[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("uniform", [0.0, 1.0 - 2**-53, 2**-53, 0.5])
def test_no_random_number_draws_an_impossible_token(monkeypatch, uniform):
    probs = torch.tensor([[0.0, 0.3, 0.0, 0.7, 0.0], [0.0] * 5, [1e-8, 0, 0, 0, 1 - 1e-8]]).double()
    probs[1, 2] = 1e-300
    odd_totals = torch.rand(1000, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2
    odd_totals[:, [0, 4]] = 0
    probs = torch.cat([probs, odd_totals])
    monkeypatch.setattr(torch, "rand", lambda n, *_, **kw: torch.full((n, 1), uniform, dtype=kw["dtype"]))
    tokens, totals = draw_tokens(probs, torch.Generator())
    torch.testing.assert_close(totals, probs.sum(dim=1))
    assert bool((probs.gather(1, tokens[:, None]) > 0).all())


@pytest.mark.parametrize(
    "bad",
    [lambda: LookaheadProposal(-1.0), lambda: LookaheadProposal(math.nan), lambda: MixtureProposal(1.5)],
)
def test_settings_are_checked(bad):
    with pytest.raises(tt.TractileError):
        bad()


@pytest.mark.parametrize("size", [1, 2, 3, 10, 16, 1000])
def test_tokens_are_drawn_by_the_distribution_function(size):
    generator = torch.Generator().manual_seed(size)
    weights = torch.rand(200, size, generator=generator) * (torch.rand(200, size, generator=generator) < 0.5)
    weights[:, -1] = 0.25
    drawn, total = draw_tokens(weights, torch.Generator().manual_seed(1))
    uniform = torch.rand(200, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    cumulative = weights.double().cumsum(1)
    torch.testing.assert_close(total, cumulative[:, -1])
    torch.testing.assert_close(drawn, (cumulative <= uniform * cumulative[:, -1:]).sum(1))


# What a token both models rule out is worth, mixtures, defaults


def test_a_token_that_model_and_hmm_rule_out_does_no_harm():
    """0 · (−∞) is no weight: with strength 0, and in the mixture with all its weight on either side."""
    rows = torch.tensor([[0.5, 0.5, 0, 0], [0.2, 0.6, 0, 0.2]]).double()
    half = torch.full((2, 2), 0.5).double()
    hmm = tt.HMM(half[0], half, rows)
    lm = tt.CircuitLM(hmm)
    fa = tt.Automaton.from_edges([(0, [0, 2, 3], 0), (0, 1, 1), (1, [0, 1, 2], 1)], 0, [1], V)
    truth = float(tt.log_marginal(hmm * fa, n=3))
    exact = tt.smc(lm, [], fa, LookaheadProposal(), hmm, 8, 3)
    assert exact.log_evidence == pytest.approx(truth)
    for proposal in (LookaheadProposal(0.0), MixtureProposal(0.0), MixtureProposal(1.0)):
        post = tt.smc(lm, [], fa, proposal, hmm, 200, 3)
        assert bool(post.log_weights.isfinite().all())
        assert post.log_evidence == pytest.approx(truth, abs=0.3)


class Broken(sampling.Proposal):
    """Draws as GCD does, and then says something else."""

    needs = Knowledge.BUDGET

    def __init__(self, spoil):
        self.spoil = spoil

    def draw(self, step, generator):
        return self.spoil(*GCDProposal().draw(step, generator))


class NaNBelief(Tabular):
    needs = Knowledge.BUDGET

    def belief(self, step):
        return GCDProposal().belief(step) * math.nan


BROKEN = {
    "NaN": (lambda: Broken(lambda t, w: (t, w * math.nan)), "the log-weight nan"),
    "infinite": (lambda: Broken(lambda t, w: (t, w + math.inf)), "the log-weight inf"),
    "outside": (lambda: Broken(lambda t, w: (t + V, w)), "drew token . of 4"),
    "negative": (lambda: Broken(lambda t, w: (t * 0 - 1, w)), "drew token -1 of 4"),
    "shape": (lambda: Broken(lambda t, w: (t[:1], w)), "of shapes"),
    "forbidden": (
        lambda: Broken(lambda t, w: (t * 0 + 3, w)),
        "positive weight to token 3, which the constraint forbids",
    ),
    "belief": (NaNBelief, "nan as the logarithm of a probability"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_proposal_that_gives_no_weight_is_an_error_that_names_it(kind):
    """Never "failed", and never an invalid text: in the sampler and its moves."""
    make, message = BROKEN[kind]
    lm, fa = tt.lm.TableLM(random_table(V, 1, seed=2)), as_automaton(FSA)
    name = type(make()).__name__
    with pytest.raises(tt.errors.ProposalError, match=f"'{name}' .*{message}") as error:
        tt.smc(lm, [], fa, make(), None, 8, HORIZON, 1)
    assert error.value.name == name
    if kind != "belief":
        with pytest.raises(tt.errors.ProposalError, match=message):
            sampling.mcmc(lm, [], fa, make(), None, 2, HORIZON)


@pytest.mark.parametrize("proposal", ["lm", "lcd", "gcd", "awrs", sampling.AWRSProposal(bool)], ids=name_of)
def test_a_language_model_that_gives_nan_is_to_blame(proposal):
    class Overflows:
        vocab_size, eos_token_id, lm = V, None, tt.lm.TableLM(random_table(V, 1, seed=2))

        def log_probs(self):
            found = self.lm.log_probs()
            found[-1] = math.nan
            return found

        def __getattr__(self, name):
            return getattr(self.lm, name)

    with pytest.raises(tt.errors.EvidenceError, match="the language model gives NaN"):
        tt.smc(Overflows(), [], as_automaton(FSA), proposal, None, 8, HORIZON)
    with pytest.raises(tt.errors.EvidenceError, match=r"gives NaN .* row 0 \(prompt 1, after ''\)"):
        tt.smc(
            Overflows(), prompts=[[], [0]], fa=as_automaton(FSA), proposal=proposal, max_new_tokens=HORIZON
        )


STRENGTHS = {
    "lookahead": (lambda: LookaheadProposal(0.3), 0.3),
    "mixture": (MixtureProposal, 1.0),
    "awrs": (lambda: sampling.AWRSProposal(bool, base=LookaheadProposal(0.3)), 0.3),
}  # fmt: skip


@pytest.mark.parametrize("name", STRENGTHS)
def test_the_default_potential_has_the_proposals_strength(name):
    make, strength = STRENGTHS[name]
    assert make().potential.strength == strength
    lm, fa = tt.lm.TableLM(random_table(V, 1, seed=2)), as_automaton(FSA)
    given = {"particles": 6, "max_new_tokens": HORIZON, "hmm": HMM, "ess_threshold": 0.0}
    default = tt.smc(lm, [], fa, make(), **given)
    assert (
        default.ess_trace
        == tt.smc(lm, [], fa, make(), potential=LookaheadPotential(strength), **given).ess_trace
    )
    assert (
        default.ess_trace
        != tt.smc(lm, [], fa, make(), potential=LookaheadPotential(strength + 0.5), **given).ess_trace
    )


def test_names_stand_for_one_algorithm_everywhere():
    lm, fa = tt.lm.TableLM(random_table(V, 1, seed=2)), as_automaton(FSA)
    given = {"particles": 6, "max_new_tokens": HORIZON, "hmm": HMM}
    meant = {
        "pgcd": (LookaheadProposal("auto"), None),
        "pgcd-mixture": (MixtureProposal(), LookaheadPotential()),
        "pgcd-mixture-prefix": (MixtureProposal(), sampling.PrefixPotential()),
        "gcd": (GCDProposal(), sampling.PrefixPotential()),
        "awrs": (MaskedAWRSProposal(), sampling.PrefixPotential()),
    }
    for name, (proposal, potential) in meant.items():
        by_name = tt.smc(lm, [], fa, name, **given)
        assert by_name.to_dict() == tt.smc(lm, [], fa, proposal, potential=potential, **given).to_dict()
    assert {one.value for one in GenerateOption} == set(NAMES)
    assert {method.proposal for method in methods.METHODS.values()} <= set(NAMES)
    for name in ("lm", *meant):
        if name in methods.METHODS:
            made = methods.proposal(methods.METHODS[name], 0.5)
            assert tt.smc(lm, [], fa, made, **given).to_dict() == tt.smc(lm, [], fa, name, **given).to_dict()
