"""Sampling a corpus: by one model only, saved as it goes, and enlarged by asking for more."""

import shutil
from types import SimpleNamespace

import pytest
import torch
from corpora import EOS, content, source

import tractile as tt
from tractile import distill
from tractile.distill import drawing
from tractile.distill.drawing import partial_file
from tractile.errors import EvidenceError, FormatError, ShapeError, VocabularyMismatch
from tractile.lm import CircuitLM


class Watched(CircuitLM):
    """A language model that counts its batches, and does something at the beginning of each."""

    def __init__(self, seed=3, at_start=lambda number: None, wrong=lambda scores: scores):
        super().__init__(source(seed), eos_token_id=EOS)
        self.batches, self.at_start, self.wrong = 0, at_start, wrong

    def start(self, prompts):
        if len(prompts) > 1:  # not the probe
            self.batches += 1
            self.at_start(self.batches)
        super().start(prompts)

    def log_probs(self):
        return self.wrong(super().log_probs())


class Stopped(BaseException):
    """As Ctrl-C."""


def stop_at(number):
    def at_start(batch):
        if batch == number:
            raise Stopped

    return at_start


def draw(out, lm=None, num_sequences=300, shard_size=128, **options):
    lm = Watched() if lm is None else lm
    return distill.sample(lm, out, num_sequences, 9, [""], shard_size=shard_size, batch_size=32, **options)


# ------------------------------------------------------------------------------------------------ one model


@pytest.mark.parametrize("stopped", [True, False])
def test_a_folder_of_another_model_is_refused_finished_or_not(tmp_path, stopped):
    if stopped:
        with pytest.raises(Stopped):
            draw(tmp_path, Watched(at_start=stop_at(6)), model="first")
    else:
        draw(tmp_path, model="first")
    before = content(tmp_path)
    other = Watched(seed=4)
    with pytest.raises(VocabularyMismatch, match=r"'first'.*gives the tokens.*this model gives"):
        draw(tmp_path, other, model="first")
    assert content(tmp_path) == before
    assert other.batches == 0
    elsewhere = Watched(wrong=lambda scores: scores + 1e-3 * torch.randn(scores.shape))
    assert len(draw(tmp_path, elsewhere, model="first")) == 300


@pytest.mark.parametrize("value", [torch.nan, -torch.inf, torch.inf])
@pytest.mark.parametrize("first", [1, 20])
def test_probabilities_that_are_none_are_refused(tmp_path, value, first):
    calls = iter(range(10**6))

    def wrong(scores):
        return scores if next(calls) < first else torch.full_like(scores, value)

    with pytest.raises(EvidenceError, match="the language model gives log-probabilities"):
        draw(tmp_path, Watched(wrong=wrong))


@pytest.mark.parametrize("name", ["num_sequences", "max_new_tokens", "shard_size", "batch_size"])
@pytest.mark.parametrize("value", [0, 1.5, "3", True])
def test_sizes_are_whole_numbers(tmp_path, name, value):
    sizes = {"num_sequences": 4, "max_new_tokens": 3, "shard_size": 2, "batch_size": 2} | {name: value}
    with pytest.raises(ShapeError, match=name):
        distill.sample(Watched(), tmp_path / "new", prompts=[""], **sizes)
    assert not (tmp_path / "new").exists()


# ------------------------------------------------------------------------------------------------ saved as it goes


@pytest.mark.parametrize("batch", [1, 3, 4, 5, 7])
def test_what_is_stopped_loses_one_batch(tmp_path, batch):
    """Batches of 32 in shards of 128, 128 and 44: at most the batch under way is drawn again."""
    draw(tmp_path / "whole")
    with pytest.raises(Stopped):
        draw(tmp_path / "stopped", Watched(at_start=stop_at(batch)))
    rest = Watched()
    draw(tmp_path / "stopped", rest)
    assert rest.batches == 10 - (batch - 1)
    assert content(tmp_path / "stopped") == content(tmp_path / "whole")


def test_what_is_killed_loses_what_was_drawn_since_the_last_save(tmp_path, monkeypatch):
    """The clock says 10 seconds for each batch: with ``save_seconds=20`` every other batch is saved."""
    now, saved = [0.0], []
    write = drawing.write_tensors

    def watched(path, *content):
        saved.append((now[0], path.name))
        write(path, *content)

    monkeypatch.setattr(drawing, "write_tensors", watched)

    def at_start(batch):
        now[0] = 10.0 * (batch - 1)
        shutil.copytree(tmp_path / "whole", tmp_path / f"killed at {batch}")

    monkeypatch.setattr(drawing, "time", SimpleNamespace(monotonic=lambda: now[0]))
    draw(tmp_path / "whole", Watched(at_start=at_start), num_sequences=256, shard_size=256, save_seconds=20)
    assert saved == [(20.0 * i, "partial-00000.safetensors") for i in (1, 2, 3)]
    for batch, left in ((2, 8), (3, 8), (4, 5), (5, 5), (6, 3), (8, 1)):
        rest = Watched()
        draw(tmp_path / f"killed at {batch}", rest, num_sequences=256, shard_size=256)
        assert rest.batches == left
        assert content(tmp_path / f"killed at {batch}") == content(tmp_path / "whole")


def test_a_damaged_or_foreign_part_is_drawn_anew(tmp_path):
    draw(tmp_path / "whole")
    for name, seed in (("foreign", 1), ("damaged", 0), ("mixed", 0)):
        with pytest.raises(Stopped):
            draw(tmp_path / name, Watched(at_start=stop_at(4)), seed=seed)
    part = [partial_file(tmp_path / name, 0) for name in ("foreign", "damaged", "mixed")]
    part[1].write_bytes(part[1].read_bytes()[:-100])
    shutil.copy(part[0], part[2])
    for name in ("damaged", "mixed"):
        draw(tmp_path / name, rest := Watched())
        assert rest.batches == 10
        assert content(tmp_path / name) == content(tmp_path / "whole")


# ------------------------------------------------------------------------------------------------ enlarged


def test_a_corpus_grows_when_more_is_asked_for(tmp_path):
    small = draw(tmp_path)
    before, tokens = content(tmp_path), small.tokens
    lm = Watched()
    large = draw(tmp_path, lm, num_sequences=500)
    assert lm.batches == 4 + 3  # shards of 128 and 72 sequences
    assert torch.equal(large.tokens[:300], tokens)
    assert [large.manifest.sequences_in(i) for i in range(5)] == [128, 128, 44, 128, 72]
    shards = {name: data for name, data in before.items() if name.startswith("shard")}
    assert shards.items() <= content(tmp_path).items()
    rows = torch.tensor([0, 299, 300, 427, 428, 499])
    assert torch.equal(large.take(rows), large.tokens[rows])
    assert torch.allclose(large.log_probs.double(), tt.log_marginal(source(), large.tokens), atol=1e-4)
    assert len({tuple(row) for row in large.tokens.tolist()}) > len({tuple(row) for row in tokens.tolist()})
    idle = Watched()
    assert torch.equal(draw(tmp_path, idle, num_sequences=500).tokens, large.tokens)
    assert idle.batches == 0
    with pytest.raises(FormatError, match="only grows"):
        draw(tmp_path)


def test_an_unfinished_corpus_grows_too_and_growing_can_be_interrupted(tmp_path):
    draw(tmp_path / "a")
    whole = draw(tmp_path / "a", num_sequences=400)
    with pytest.raises(Stopped):
        draw(tmp_path / "b", Watched(at_start=stop_at(6)))
    with pytest.raises(Stopped):
        draw(tmp_path / "b", Watched(at_start=stop_at(6)), num_sequences=400)
    with pytest.raises(FormatError, match="not a complete corpus"):
        distill.Corpus.load(tmp_path / "b")
    again = draw(tmp_path / "b", num_sequences=400)
    assert torch.equal(again.tokens, whole.tokens)
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert again.digest == whole.digest


def test_a_draw_takes_one_random_number_whatever_the_size_of_the_vocabulary(tmp_path):
    """Tokens that cannot come up change no draw: nothing random is made for each token of a vocabulary."""
    small = torch.tensor([0.5, 0.3, 0.2]).log()
    large = torch.cat([small, torch.full((1000,), -torch.inf)])
    drawn = [
        distill.sample(
            tt.lm.TableLM({(): row}, eos_token_id=2), tmp_path / str(len(row)), 200, 6, [[]], seed=3
        ).tokens
        for row in (small, large)
    ]
    assert torch.equal(*drawn)
