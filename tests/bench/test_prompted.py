"""HMMs that know their prompt: what their folder says of it."""

import logging

import pytest
import torch
from smc_reference import HMM, V, random_table

import tractile as tt
from tractile.embedded import load_lm
from tractile_bench.guides import ContextHead, Copying, prompted
from tractile_bench.guides.prompted import KEPT, READERS


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


def test_a_part_of_your_own(tmp_path, monkeypatch):
    HMM.save_pretrained(tmp_path)
    (tmp_path / "mine.txt").write_text("1")
    other = tt.HMM.random(5, V, seed=1, dtype=torch.float64)
    monkeypatch.setitem(READERS, "mine.txt", lambda hmm, folder, lm, prompt: other)
    lm = tt.lm.TableLM(random_table(V, 1, seed=2))
    assert prompted(tt.HMM.from_pretrained(tmp_path), tmp_path, lm, []) is other
