"""Corpora are what the model said, can be interrupted, and are enough to find the model again."""

from pathlib import Path

import pytest
import torch
from corpora import EOS, source

import tractile as tt
from tractile import distill
from tractile.distill.evaluate import predictions
from tractile.distill.latent import kmeans
from tractile.errors import FormatError, ShapeError, VocabularyMismatch
from tractile.lm import CircuitLM, TableLM


def draw(out: Path, num_sequences: int = 300, **options: int) -> distill.Corpus:
    lm = CircuitLM(source(), eos_token_id=EOS)
    return distill.sample(lm, out, num_sequences, 9, [""], shard_size=128, batch_size=50, **options)


def test_log_probs_are_the_models_and_ends_are_padded(tmp_path: Path) -> None:
    corpus = draw(tmp_path)
    assert corpus.tokens.shape == (300, 9)
    torch.testing.assert_close(
        corpus.log_probs.double(), tt.log_marginal(source(), corpus.tokens), rtol=1e-5, atol=1e-5
    )
    ended = (corpus.tokens == EOS).int().cumsum(1) > 0
    assert 0.2 < ended[:, -1].double().mean() < 1
    assert (corpus.tokens[ended] == EOS).all()
    lengths = (~ended).sum(1) + ended[:, -1].int()
    assert corpus.num_tokens == int(lengths.sum())


def test_samples_follow_the_model(tmp_path: Path) -> None:
    """First tokens against their probabilities: chi-square with 3 degrees of freedom; fails by chance once in 10,000."""
    corpus = draw(tmp_path, 4000)
    hmm = source()
    expected = 4000 * (hmm.initial_probs @ hmm.emission_probs)
    seen = torch.bincount(corpus.tokens[:, 0], minlength=5).double()
    kept = expected > 0
    assert float(((seen - expected)[kept] ** 2 / expected[kept]).sum()) < 23.5


def test_prompts_are_continued(tmp_path: Path) -> None:
    """A table whose first token repeats for ever: each sequence repeats the token of its own prompt."""
    certain = torch.full((3, 3), -torch.inf).fill_diagonal_(0.0)
    table = {(): torch.full((3,), 1 / 3).log(), **{(i,): certain[i] for i in range(3)}}
    lm = TableLM(table, eos_token_id=2)
    corpus = distill.sample(lm, tmp_path, 40, 5, [[0], [1]], batch_size=7)
    assert torch.equal(corpus.tokens, corpus.prompt[:, None].expand(-1, 5))
    assert set(corpus.prompt.tolist()) == {0, 1}
    assert corpus.best is not None
    assert torch.equal(corpus.best[:, 1:], corpus.tokens[:, 1:])


def test_existing_text_goes_on_with_what_is_missing_and_beside_no_other_text(tmp_path: Path) -> None:
    _, tokenizer = tt.embedded.load_lm()

    def make(*texts: str) -> distill.Corpus:
        return distill.from_text(texts, tokenizer, tmp_path, 4, shard_size=2)

    whole = make("Once upon a time there was a dog.", "The end.").tokens
    first, *others = sorted(tmp_path.glob("shard-*"))
    first.unlink()
    before = {file: file.stat().st_mtime_ns for file in others}
    assert torch.equal(make("Once upon a time there was a dog.", "The end.").tokens, whole)
    assert {file: file.stat().st_mtime_ns for file in others} == before
    with pytest.raises(FormatError, match="other settings: text was"):
        make("Once upon a time there was a cat.", "The end.")


def test_training_finds_the_source(tmp_path: Path) -> None:
    """Within 0.03 nats a token of the entropy of a source with as many states, on fresh samples, from a random start."""
    fit, test = draw(tmp_path, 4000).split(0.25)
    hmm = distill.train(fit, 8, epochs=12, batch_size=500, seed=1)
    result = distill.evaluate(hmm, test)
    assert result.nats_per_token < result.lm_nats_per_token + 0.03
    assert result.unigram_nats_per_token > result.lm_nats_per_token + 0.05
    assert (result.sequences, result.tokens) == (1000, test.num_tokens)


def test_evaluation_is_what_the_source_says(tmp_path: Path) -> None:
    """Positions, agreement and frequencies against sums over all texts; an HMM is its own perfect surrogate."""
    corpus, hmm = draw(tmp_path, 2000), source()
    result = distill.evaluate(hmm, corpus, batch_size=333)
    assert result.kl_per_token == pytest.approx(0, abs=1e-6)
    assert result.agreement == 1
    assert result.vocabulary_coverage > 0.97
    assert result.vocabulary_seen == 1
    assert result.lm_by_position == pytest.approx(result.by_position, abs=1e-5)
    assert result.nats_per_token == pytest.approx(
        float(-tt.log_marginal(hmm, corpus.tokens).sum()) / corpus.num_tokens
    )

    other = distill.random_start(corpus, 6, seed=1).to(dtype=torch.float64)
    found, tokens = distill.evaluate(other, corpus), corpus.tokens
    before = torch.zeros(len(corpus), dtype=torch.float64)
    live, total = torch.ones(len(corpus), dtype=torch.bool), 0.0
    for t in range(9):
        prefix = tt.log_marginal(other, tokens[:, : t + 1])
        assert found.by_position[t] == pytest.approx(-float((prefix - before)[live].mean()), abs=1e-6)
        total += float((prefix - before)[live].sum())
        before, live = prefix, live & (tokens[:, t] != EOS)
    assert found.nats_per_token == pytest.approx(-total / found.tokens)
    assert found.kl_per_token > 0.02
    assert found.agreement < 1
    guess = [int(torch.stack([tt.log_marginal(other, torch.tensor([[*row[:4].tolist(), v]]))[0] for v in range(5)]).argmax())
             for row in tokens[:15]]  # fmt: skip
    assert distill.evaluate(other, corpus.select(torch.arange(15))).agreement is not None
    _, best = predictions(other, tokens[:15])
    alive = (tokens[:15, :4] != EOS).all(1)
    assert best[alive, 4].tolist() == torch.tensor(guess)[alive].tolist()


def test_half_precision_keeps_every_token_possible(tmp_path: Path) -> None:
    """A token that the corpus never holds is possible in the saved HMM wherever the text has not ended."""
    tokens = draw(tmp_path / "corpus").tokens
    corpus = distill.Corpus.of(tokens.masked_fill(tokens == 3, 2), 5, EOS)
    hmm = distill.train(corpus, 5, epochs=2, out=tmp_path / "hmm")
    hmm = tt.HMM.from_pretrained(tmp_path / "hmm")
    assert (hmm.emission_probs[:-1, :EOS] > 0).all()
    assert (hmm.transition.parameters()[0][:-1] > 0).all()
    assert torch.isfinite(tt.log_marginal(hmm, torch.tensor([[3, 3, EOS]]))).all()
    assert tt.log_marginal(hmm, torch.tensor([[3, EOS, 3]])).item() == -torch.inf


def test_parts_that_do_not_belong_together(tmp_path: Path) -> None:
    corpus = draw(tmp_path)
    with pytest.raises(VocabularyMismatch, match="6 tokens"):
        distill.evaluate(tt.HMM.random(3, 6), corpus)
    with pytest.raises(VocabularyMismatch):
        distill.train(corpus, 3, initial=tt.HMM.random(3, 6))
    with pytest.raises(ShapeError, match="has 4 states, monarch, not 4, dense"):
        distill.train(corpus, 4, initial=tt.HMM.random(4, 5, "monarch"))


def test_kmeans_finds_separate_clouds() -> None:
    generator = torch.Generator().manual_seed(0)
    label = torch.randint(5, (3000,), generator=generator)
    centres = 20 * torch.eye(5, 8)
    points = centres[label] + torch.randn(3000, 8, generator=generator)
    found = kmeans(points, 12, iterations=20, seed=3)
    joint = torch.zeros(12, 5).index_put_((found, label), torch.ones(3000), accumulate=True)
    assert float(joint.max(1).values.sum()) == 3000  # no cluster mixes two clouds


def test_a_start_of_clones_has_states_of_a_frequent_token_and_an_end(tmp_path: Path) -> None:
    model, tokenizer = tt.embedded.load_lm()
    corpus = distill.sample(tt.TransformersLM(model, tokenizer), tmp_path, 60, 12, [[1]], tokenizer=tokenizer)
    start = distill.initialise(model, tokenizer, corpus, 200, iterations=2)
    assert torch.equal(start.emission_probs[-1].nonzero()[:, 0], torch.tensor([corpus.manifest.eos_token_id]))
    tokens, text = corpus.tokens, corpus.tokens != corpus.manifest.eos_token_id
    frequent = int(torch.bincount(tokens[text]).argmax())
    assert int((start.emission_probs[:, frequent] > 0.99).sum()) > 1
    assert torch.isfinite(tt.log_marginal(start, tokens)).all()
