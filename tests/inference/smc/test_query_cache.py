"""What is kept between runs."""

import pytest
import torch
from smc_reference import CASES, ENDED, EXACT, HMM, N, V, as_automaton

import tractile as tt
from tractile.inference.smc import query_cache
from tractile.inference.smc.query_cache import guided


@pytest.fixture
def swept(monkeypatch):
    """The backward sweeps that were made."""
    made = []
    monkeypatch.setattr(
        query_cache, "pgcd", lambda *given, **options: (made.append(given), tt.pgcd(*given, **options))[1]
    )
    return made


def test_sweeps_of_several_hmms_are_kept_within_memory(swept):
    lm, fsa = CASES["ended"]
    fa = as_automaton(fsa)
    hmms = [tt.HMM.random(3, V, seed=s, dtype=torch.float64) for s in range(4)]
    guided = tt.inference.smc.LookaheadProposal()  # of a fixed strength: no pilot sweeps

    def run():
        return tt.smc(lm, prompts=[[]] * 4, fa=fa, proposal=guided, hmm=hmms, particles=2, max_new_tokens=N)

    first = run()
    assert len(swept) == 4
    assert [post.to_dict() for post in run()] == [post.to_dict() for post in first]
    assert len(swept) == 4
    query_cache.forget(fa)
    with query_cache.keeping(0):
        for _ in range(2):
            tt.smc(lm, [], fa, guided, hmms[0], 2, N)
        assert len(swept) == 5  # the latest is kept whatever its size
        run()
        run()
    assert len(swept) == 5 + 3 + 4


def test_masks_of_many_budgets_are_those_of_each():
    """Those of a few budgets are kept with an automaton; what another run has done with one of them is not seen."""
    fa = as_automaton(CASES["ended"][1])
    for horizon in [*range(2, 16), None, 3, 2, 15]:
        fresh = tt.lcd(fa) if horizon is None else tt.gcd(fa, horizon)
        query, expected = (one.start(batch=1) for one in (query_cache.masking(fa, horizon), fresh))
        assert torch.equal(query.mask(), expected.mask())
        token = torch.tensor([int(query.mask()[0].int().argmax())])
        for one in (query, expected):
            one.advance(token)
        assert torch.equal(query.mask(), expected.mask())


def test_an_automaton_that_keeps_nothing_has_nothing_to_forget():
    fa = as_automaton(CASES["ended"][1])
    query_cache.forget(fa)
    query_cache.forget(fa)


def test_a_changed_hmm_is_swept_again(swept):
    lm, fsa = CASES["ended"]
    fa, hmm = as_automaton(fsa), tt.HMM.random(3, V, seed=0, dtype=torch.float64)
    tt.smc(lm, [], fa, hmm=hmm, particles=2, max_new_tokens=N)
    hmm.emission_probs.copy_(HMM.emission_probs)
    changed = tt.smc(lm, [], fa, hmm=hmm, particles=2, max_new_tokens=N)
    assert len(swept) == 2
    fresh = tt.smc(lm, [], as_automaton(fsa), hmm=hmm, particles=2, max_new_tokens=N)
    assert changed.to_dict() == fresh.to_dict()


@pytest.mark.parametrize("proposal", ["gcd", "pgcd", "awrs", "pgcd-mixture"])
def test_in_inference_mode(proposal):
    """With an HMM made outside and inside, before and after a run outside."""
    lm, fsa = CASES["ended"]
    fa, settings = as_automaton(fsa), {"particles": 4, "max_new_tokens": N}
    outside = tt.smc(lm, [], fa, proposal, HMM, **settings)
    for automaton in (fa, as_automaton(fsa)):
        with torch.inference_mode():
            inside = tt.HMM.random(3, V, seed=7, dtype=torch.float64)
            for hmm in (HMM, inside):
                assert tt.smc(lm, [], automaton, proposal, hmm, **settings).to_dict() == outside.to_dict()
                tt.inference.smc.mcmc(lm, [], automaton, proposal, hmm, 2, N, burn_in=0)
        assert tt.smc(lm, [], automaton, proposal, HMM, **settings).to_dict() == outside.to_dict()


def test_the_guiding_query_is_kept_with_its_automaton():
    fa = as_automaton(ENDED)
    first = guided(HMM, fa, N).start(2)
    again = guided(HMM, fa, N).start(1)
    assert first._tables is again._tables
    first.advance(torch.tensor([0, 1]))
    again.advance(torch.tensor([1]))
    assert first.lookahead().shape == (2, V)  # their rows are their own
    torch.testing.assert_close(first.lookahead()[1], again.lookahead()[0])
    assert guided(HMM, fa, N + 1)._tables is not first._tables
    assert guided(HMM, as_automaton(EXACT), N)._tables is not first._tables
