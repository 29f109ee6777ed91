"""What is kept between runs, and what an HMM's folder says of prompts."""

import logging

import pytest
import torch
from smc_reference import CASES, ENDED, EXACT, HMM, Fsa, N, V, as_automaton, hmm_next, random_table

import tractile as tt
from tractile.distill import ContextHead, Copying
from tractile.embedded import load_lm
from tractile.inference.smc import prompted, query_cache
from tractile.inference.smc.prompted import KEPT, READERS
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
                tt.inference.smc.mcmc(lm, [], automaton, proposal, hmm, 2, N)
        assert tt.smc(lm, [], automaton, proposal, HMM, **settings).to_dict() == outside.to_dict()


# HMMs that know their prompt


@pytest.fixture(scope="module")
def embedded():
    model, tokenizer = load_lm()
    return model, tokenizer, tt.TransformersLM(model, tokenizer)


@pytest.fixture
def folder(embedded, tmp_path):
    """An HMM of the embedded model's tokens with a context head, and copying."""
    model, _, lm = embedded
    hmm = tt.HMM.random(4, lm.vocab_size, seed=0)
    generator = torch.Generator().manual_seed(0)
    rates = {
        "enter": torch.full((4,), 0.5),
        "stay": torch.full((lm.vocab_size,), 0.9),
        "start": torch.ones(lm.vocab_size),
    }
    usage = torch.full((4,), 0.25)
    copying = Copying(hmm, torch.tensor(0.5), follow=torch.tensor(1.0), usage=usage, **rates)
    copying.save_pretrained(tmp_path)
    ContextHead(
        torch.randn(4, model.config.hidden_size, generator=generator), torch.zeros(4)
    ).save_pretrained(tmp_path)
    return tmp_path


PROMPT = "Tom has a big dog. He said"


def test_the_sampler_fits_an_hmm_to_the_prompt_as_its_folder_says(embedded, folder):
    model, tokenizer, lm = embedded
    hmm = tt.HMM.from_pretrained(folder)
    begun = ContextHead.from_pretrained(folder).begin(hmm, model, tokenizer, PROMPT)
    copying = Copying.from_pretrained(folder)
    by_hand = Copying(
        begun, *(getattr(copying, n) for n in ("begin", "enter", "stay", "start", "follow", "usage"))
    )
    by_hand = by_hand.read(PROMPT, tokenizer)
    assert by_hand.hidden > hmm.hidden
    fa = tt.constraints.keywords(["dog"]).compile(tt.Vocabulary.from_tokenizer(tokenizer))
    settings = {"particles": 4, "max_new_tokens": 8}
    expected = tt.smc(lm, PROMPT, fa, hmm=by_hand, **settings)
    assert tt.smc(lm, PROMPT, fa, hmm=hmm, **settings).to_dict() == expected.to_dict()
    batch = tt.smc(lm, prompts=[PROMPT, "Once"], fa=fa, hmm=hmm, **settings)
    assert batch[0].token_ids == expected.token_ids
    assert (
        tt.inference.smc.mcmc(lm, PROMPT, fa, "pgcd", hmm, 2, 8).samples
        == tt.inference.smc.mcmc(lm, PROMPT, fa, "pgcd", by_hand, 2, 8).samples
    )
    assert tt.beam_search(lm, PROMPT, fa, 8, 2, hmm) == tt.beam_search(lm, PROMPT, fa, 8, 2, by_hand)
    moved = tt.inference.smc.resample_move(lm, PROMPT, fa, "pgcd", hmm, **settings)
    assert (
        moved.to_dict()
        == tt.inference.smc.resample_move(lm, PROMPT, fa, "pgcd", by_hand, **settings).to_dict()
    )
    hmm.source = None
    assert tt.smc(lm, PROMPT, fa, hmm=hmm, **settings).token_ids != expected.token_ids


def test_an_hmm_is_fitted_once_for_a_prompt(embedded, folder):
    lm = embedded[2]
    hmm = tt.HMM.from_pretrained(folder)
    first = prompted.prompted(hmm, lm, PROMPT)
    assert prompted.prompted(hmm, lm, PROMPT) is first
    assert first.source is None
    assert prompted.prompted(first, lm, PROMPT) is first
    assert prompted.prompted(hmm, lm, PROMPT, ["copying.safetensors"]) is not first
    for i in range(KEPT):
        prompted.prompted(hmm, lm, [5, i + 3])
    assert prompted.prompted(hmm, lm, PROMPT) is not first
    assert prompted.prompted(hmm, lm, PROMPT, []) is hmm
    assert hmm.to(dtype=torch.float64).source == hmm.source == folder


def test_in_double_precision_too(embedded, folder):
    lm = embedded[2]
    fitted = prompted.prompted(tt.HMM.from_pretrained(folder).to(dtype=torch.float64), lm, PROMPT)
    assert fitted.emission_probs.dtype == fitted.initial_probs.dtype == torch.float64


def test_a_language_model_without_a_tokenizer_leaves_out_what_needs_one_and_says_so(folder, caplog):
    vocab = tt.HMM.from_pretrained(folder).vocab_size
    lm = tt.TableLM({(): torch.full((vocab,), 1 / vocab, dtype=torch.float64).log()})
    with caplog.at_level(logging.WARNING):
        fitted = prompted.prompted(tt.HMM.from_pretrained(folder), lm, [5, 6, 7])
    assert fitted.hidden == 4 + 3  # it copies from token ids
    assert "context head" in caplog.text
    assert "TableLM" in caplog.text


def test_a_part_of_your_own(tmp_path, monkeypatch):
    HMM.save_pretrained(tmp_path)
    (tmp_path / "mine.txt").write_text("1")
    other = tt.HMM.random(5, V, seed=1, dtype=torch.float64)
    monkeypatch.setitem(READERS, "mine.txt", lambda hmm, folder, lm, prompt: other)
    lm = tt.TableLM(random_table(V, 1, seed=2))
    assert prompted.prompted(tt.HMM.from_pretrained(tmp_path), lm, []) is other


def test_the_guiding_query_is_kept_with_its_automaton():
    fa = as_automaton(ENDED)
    first = guided(HMM, fa, N).start(2)
    again = guided(HMM, fa, N).start(1)
    assert first.guide._tables is again.guide._tables
    first.advance(torch.tensor([0, 1]))
    again.advance(torch.tensor([1]))
    assert first.lookahead().shape == (2, V)  # their rows are their own
    torch.testing.assert_close(first.lookahead()[1], again.lookahead()[0])
    assert guided(HMM, fa, N + 1).guide._tables is not first.guide._tables
    assert guided(HMM, as_automaton(EXACT), N).guide._tables is not first.guide._tables


def test_a_changed_hmm_is_not_taken_for_the_one_before():
    hmm = tt.HMM.random(3, V, seed=1, dtype=torch.float64)
    fa = as_automaton(Fsa([(0, [0, 2], 0), (0, 1, 1), (1, [0, 1, 2], 1)], 0, [1], V))
    before = guided(hmm, fa, 2).start(1).lookahead()[0, 0]
    hmm.emission_probs.copy_(tt.HMM.random(3, V, seed=2, dtype=torch.float64).emission_probs)
    after = guided(hmm, fa, 2).start(1).lookahead()[0, 0]
    assert float(after.exp()) == pytest.approx(hmm_next(hmm, (0,))[1])
    assert abs(float(after - before)) > 1e-3
