"""The language model and the HMM that ship: whole, small, and as good as their cards say."""

import json
import math
from functools import cache
from pathlib import Path

import pytest
import torch

import tractile as tt
from tractile import distill
from tractile.embedded import HMM_PATH, LM_PATH, load_hmm, load_lm
from tractile.lm import TransformersLM

STORY = (
    "Once upon a time, there was a little girl named Anna. She had a small brown dog named Max. One day, Anna and Max "
    'went to the park to play with a ball. Max ran very fast and took the ball. Anna laughed and said, "Good dog, Max!" '
    "Then they saw a big tree with a bird in it. The bird was sad because it lost its mom. Anna wanted to help the bird. "
    "They looked and looked until they found the mom. The bird was happy and they all became friends."
)

lm = cache(load_lm)
hmm = cache(load_hmm)


@cache
def sampled(seed: int = 0, rows: int = 128, length: int = 48) -> torch.Tensor:
    """Fresh continuations of the first token, padded with the end."""
    model, tokenizer = lm()
    source = TransformersLM(model, tokenizer)
    generator = torch.Generator().manual_seed(seed)
    source.start([[tokenizer.bos_token_id]] * rows)
    tokens = []
    for _ in range(length):
        tokens.append(torch.multinomial(source.log_probs().exp(), 1, generator=generator)[:, 0])
        source.advance(tokens[-1])
    return torch.stack(tokens, 1)


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_sizes_and_cards() -> None:
    assert size(LM_PATH) <= 3_000_000
    assert size(HMM_PATH) <= 2_000_000
    for folder in (LM_PATH, HMM_PATH):
        card = (folder / "README.md").read_text(encoding="utf-8")
        assert "CDLA-Sharing-1.0" in card
        assert "MIT" in card
        assert "nats per token" in card.lower()


def test_the_model_is_a_small_llama() -> None:
    model, tokenizer = lm()
    assert type(model).__name__ == "LlamaForCausalLM"
    assert model.dtype == torch.float32
    assert not model.training
    assert 0.8e6 < sum(p.numel() for p in model.parameters()) < 1.5e6
    assert len(tokenizer) == model.config.vocab_size == 1024
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 2)
    assert json.loads((LM_PATH / "config.json").read_text())["dtype"] == "float16"
    assert all(p.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    "text",
    [STORY, "", " ", "a", "  two  spaces ", "naïve café", "emoji 😀👩‍👩‍👧", "日本語 ру́сский عربى", "tab\tnew\nline\r\n",
     "\x00\x7f\u2028\ufeff", '{"name": "Lily", "age": 3}', "\U0010ffff"],
)  # fmt: skip
def test_the_tokenizer_gives_text_back(text: str) -> None:
    _, tokenizer = lm()
    ids = tokenizer(text).input_ids
    assert ids[0] == tokenizer.bos_token_id
    assert tokenizer.unk_token_id not in ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_no_piece_crosses_a_space_and_every_byte_has_a_token() -> None:
    _, tokenizer = lm()
    pieces = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    assert all(f"<0x{byte:02X}>" in pieces for byte in range(256))
    assert not any("▁" in piece[1:] for piece in pieces)
    assert len(tokenizer(STORY).input_ids) < len(STORY) / 3


def test_the_model_predicts_stories() -> None:
    """A story that it cannot have seen; uniform guessing is log 1024 = 6.9 nats a token."""
    model, tokenizer = lm()
    ids = torch.tensor([[*tokenizer(STORY).input_ids, tokenizer.eos_token_id]])
    with torch.no_grad():
        loss = float(model(input_ids=ids, labels=ids).loss)
    bits = loss * (ids.shape[1] - 1) / len(STORY.encode()) / math.log(2)
    assert loss < 1.9, f"{loss:.3f} nats a token"
    assert bits < 0.7, f"{bits:.3f} bits a byte"


@pytest.mark.long
def test_passages_are_short_and_end() -> None:
    """Half of the passages or more end within 48 tokens, and what they say is text."""
    _, tokenizer = lm()
    tokens = sampled()
    ended = (tokens == tokenizer.eos_token_id).any(1)
    assert float(ended.double().mean()) > 0.5
    texts = tokenizer.batch_decode(tokens, skip_special_tokens=True)
    words = " ".join(texts).split()
    assert sum(
        word.strip('.,!?"').lower() in {"the", "a", "to", "and", "was", "she", "he", "they"} for word in words
    ) > 0.15 * len(words)
    assert sum(
        text.rstrip().endswith((".", "!", "?", '"'))
        for text, end in zip(texts, ended.tolist(), strict=True)
        if end
    ) > 0.9 * int(ended.sum())


def test_hmm_is_normalised_and_knows_the_end() -> None:
    model, eos = hmm(), lm()[1].eos_token_id
    assert model.vocab_size == 1024
    for weight in (model.initial_probs[None], *model.transition.parameters(), model.emission_probs):
        assert (weight >= 0).all()
        torch.testing.assert_close(
            weight.double().sum(-1), torch.ones(weight.shape[:-1], dtype=torch.float64)
        )
    text = torch.arange(1024) != eos
    assert (model.emission_probs[:-1][:, text] > 0).all()
    assert (model.emission_probs[:-1, eos] == 0).all()
    assert model.emission_probs[-1, eos] == 1
    assert model.transition.dense()[-1, -1] == 1
    assert (model.transition.dense()[:, -1] > 0).all()  # any text may end at any place


@pytest.mark.long
def test_hmm_follows_the_model() -> None:
    """On fresh samples of the language model: far better than independent tokens, and never better than the model itself
    by more than chance (a divergence is not negative; 128 samples, four standard errors)."""
    tokens, (network, tokenizer) = sampled(), lm()
    eos = tokenizer.eos_token_id
    count = (tokens[:, :-1] != eos).sum(1) + 1
    log_p = tt.log_marginal(hmm(), tokens)
    frequency = torch.zeros(1024).index_add_(0, sampled(1).flatten(), torch.ones(sampled(1).numel()))
    frequency[eos] = 128
    log_unigram = ((frequency + 0.1) / (frequency + 0.1).sum()).log()
    positions = torch.arange(tokens.shape[1]) < count[:, None]
    unigram = -(log_unigram[tokens] * positions).sum() / count.sum()
    surrogate = -log_p.sum() / count.sum()
    assert float(unigram - surrogate) > 1.5, f"{float(unigram):.2f} nats a token, HMM {float(surrogate):.2f}"

    with torch.no_grad():
        inputs = torch.cat([torch.full((len(tokens), 1), tokenizer.bos_token_id), tokens[:, :-1]], 1)
        scores = network(input_ids=inputs).logits.log_softmax(-1).gather(2, tokens[:, :, None])[:, :, 0]
    gap = (scores * positions).sum(1) - log_p
    assert float(gap.mean()) > -4 * float(gap.std()) / math.sqrt(len(gap))


@pytest.mark.long
def test_states_of_the_model_are_a_good_start(tmp_path: Path) -> None:
    """Before any EM, states read off the model beat independent tokens by half a nat on sequences that were not used."""
    model, tokenizer = lm()
    corpus = distill.sample(
        TransformersLM(model, tokenizer), tmp_path, 800, 24, [[1], "Once upon a time, there was a"]
    )
    fit, test = corpus.split(0.25)
    start = distill.initialise(model, tokenizer, fit, 64, iterations=5)
    result = distill.evaluate(start, test)
    assert result.nats_per_token < result.unigram_nats_per_token - 0.5
    assert isinstance(start, tt.HMM)
