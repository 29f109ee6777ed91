"""HMMs that know their prompt: what their folder says of it, and emissions that the prompt raises."""

import logging

import pytest
import torch

import tractile as tt
from tractile.embedded import load_lm
from tractile_bench.guides import ContextHead, Copying, cache_model, prompted
from tractile_bench.guides.prompted import KEPT


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


def test_an_hmm_is_fitted_to_the_prompt_as_its_folder_says(embedded, folder):
    model, tokenizer, lm = embedded
    hmm = tt.HMM.from_pretrained(folder)
    begun = ContextHead.from_pretrained(folder).begin(hmm, model, tokenizer, PROMPT)
    copying = Copying.from_pretrained(folder)
    by_hand = Copying(
        begun, *(getattr(copying, n) for n in ("begin", "enter", "stay", "start", "follow", "usage"))
    )
    by_hand = by_hand.read(PROMPT, tokenizer)
    assert by_hand.hidden > hmm.hidden
    fitted = prompted(hmm, folder, lm, PROMPT)
    for one, other in zip(fitted.parameters(), by_hand.parameters(), strict=True):
        assert torch.equal(one, other)
    fa = tt.constraints.keywords(["dog"]).compile(tt.Vocabulary.from_tokenizer(tokenizer))
    given = {"particles": 4, "max_new_tokens": 8}
    expected = tt.smc(lm, PROMPT, fa, hmm=by_hand, **given)
    assert tt.smc(lm, PROMPT, fa, hmm=fitted, **given).to_dict() == expected.to_dict()
    assert tt.smc(lm, PROMPT, fa, hmm=hmm, **given).token_ids != expected.token_ids


def test_an_hmm_is_fitted_once_for_a_prompt(embedded, folder):
    lm = embedded[2]
    hmm = tt.HMM.from_pretrained(folder)
    first = prompted(hmm, folder, lm, PROMPT)
    assert prompted(hmm, folder, lm, PROMPT) is first
    assert prompted(hmm, folder, lm, PROMPT, ["copying.safetensors"]) is not first
    for i in range(KEPT):
        prompted(hmm, folder, lm, [5, i + 3])
    assert prompted(hmm, folder, lm, PROMPT) is not first
    assert prompted(hmm, folder, lm, PROMPT, []) is prompted(hmm, folder / "none", lm, PROMPT) is hmm


def test_in_double_precision_too(embedded, folder):
    lm = embedded[2]
    fitted = prompted(tt.HMM.from_pretrained(folder).to(dtype=torch.float64), folder, lm, PROMPT)
    assert fitted.emission_probs.dtype == fitted.initial_probs.dtype == torch.float64


def test_a_language_model_without_a_tokenizer_leaves_out_what_needs_one_and_says_so(folder, caplog):
    vocab = tt.HMM.from_pretrained(folder).vocab_size
    lm = tt.lm.TableLM({(): torch.full((vocab,), 1 / vocab, dtype=torch.float64).log()})
    with caplog.at_level(logging.WARNING):
        fitted = prompted(tt.HMM.from_pretrained(folder), folder, lm, [5, 6, 7])
    assert fitted.hidden == 4 + 3  # it copies from token ids
    assert "context head" in caplog.text
    assert "TableLM" in caplog.text


def test_emissions_of_the_prompt_are_raised_and_sum_to_one():
    hmm = tt.HMM.random(3, 6, seed=1, dtype=torch.float64)
    raised = cache_model(hmm, [2, 4, 2], boost=3.0)
    for state in range(3):
        weights = [float(hmm.emission_probs[state, v]) * (4 if v in (2, 4) else 1) for v in range(6)]
        expected = torch.tensor([w / sum(weights) for w in weights], dtype=torch.float64)
        torch.testing.assert_close(raised.emission_probs[state], expected)
    torch.testing.assert_close(raised.initial_probs, hmm.initial_probs)
    text = torch.tensor([[2, 4, 4, 2]])
    assert tt.log_marginal(raised, text) > tt.log_marginal(hmm, text)


def test_no_boost_and_no_prompt_change_nothing():
    hmm = tt.HMM.random(3, 6, seed=1, dtype=torch.float64)
    for same in (cache_model(hmm, [1, 2], boost=0.0), cache_model(hmm, [])):
        torch.testing.assert_close(same.emission_probs, hmm.emission_probs)


@pytest.mark.parametrize(("prompt", "boost"), [([6], 1.0), ([-1], 1.0), ([1], -0.5), ([1], float("nan"))])
def test_what_is_no_boost_and_no_token_is_refused(prompt, boost):
    with pytest.raises(tt.errors.ShapeError, match="cache_model"):
        cache_model(tt.HMM.random(3, 6, seed=1), prompt, boost)
