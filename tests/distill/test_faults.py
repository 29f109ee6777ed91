"""Whatever stops sampling or training, the same call finishes it: nothing is lost, nothing is there twice, and the end is the
same. Processes are really killed, at random moments."""

import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from corpora import EOS, content, draw, finish, fit, has_checkpoint, kill_when, start

import tractile as tt
from tractile import distill
from tractile.distill import checkpoint
from tractile.distill.corpus import shard_file
from tractile.distill.progress import read_log
from tractile.errors import FormatError, ShapeError, StorageError, VocabularyMismatch

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def kill_often(job: Callable[..., object], *args: object, kills: int, most: int, seed: int) -> None:
    """Start a job and kill it within its first ``most`` calls of functions, again and again, then let it finish."""
    rng, codes = random.Random(seed), []
    for _ in range(kills):
        codes += finish(start(job, *args, calls=rng.randrange(most)))
    assert codes.count(-signal.SIGKILL) > 1
    assert set(codes) <= {0, -signal.SIGKILL}
    assert finish(start(job, *args)) == [0]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    draw(folder)
    return folder


@pytest.fixture(scope="module")
def hmm(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hmm")
    fit(corpus, folder)
    return folder


def test_sampling_that_is_killed_goes_on(corpus: Path, tmp_path: Path) -> None:
    kill_often(draw, tmp_path, kills=8, most=40_000, seed=1)
    assert content(tmp_path) == content(corpus)


def test_training_that_is_killed_ends_in_the_same_bits(corpus: Path, hmm: Path, tmp_path: Path) -> None:
    kill_often(fit, corpus, tmp_path, kills=8, most=120_000, seed=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "README.md", "config.json", "learning-curve.png", "log.jsonl", "model.safetensors", "training.json",
    ]  # fmt: skip
    assert (tmp_path / "model.safetensors").read_bytes() == (hmm / "model.safetensors").read_bytes()
    assert (tmp_path / "learning-curve.png").read_bytes()[:4] == b"\x89PNG"
    logs = [read_log(p / "log.jsonl") for p in (tmp_path, hmm)]
    timing = {"seconds", "tokens_per_second"}
    left, right = ([{k: v for k, v in line.items() if k not in timing} for line in log] for log in logs)
    assert left == right
    assert [line["step"] for line in left] == list(range(1, 3 * 11 + 1))
    assert left[0]["step_size"] == 1
    assert left[-1]["step_size"] == pytest.approx(1 / 33)
    assert [line["epoch"] for line in left if "held_out" in line] == [1, 2, 3]


def test_a_full_disk(corpus: Path, hmm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third write fails: a typed error that says where, no part of a file; with room again all goes on."""
    real, calls = os.fsync, []

    def full(file: int) -> None:
        calls.append(file)
        if len(calls) > 3:
            raise OSError(28, "No space left on device")
        real(file)

    for name, job in {"corpus": draw, "hmm": lambda out: fit(corpus, out)}.items():
        calls.clear()
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(StorageError, match="No space left on device"):
                job(tmp_path / name)
        assert not list((tmp_path / name).glob(".*"))
        job(tmp_path / name)
    assert content(tmp_path / "corpus") == content(corpus)
    assert (tmp_path / "hmm/model.safetensors").read_bytes() == (hmm / "model.safetensors").read_bytes()


def test_damaged_shards_are_noticed_and_drawn_anew(corpus: Path, tmp_path: Path) -> None:
    draw(tmp_path)
    for spoil in (
        lambda raw: raw[:-7],
        lambda raw: raw[:-7] + bytes([raw[-7] ^ 1]) + raw[-6:],
        lambda _: b"no",
    ):
        file = shard_file(tmp_path, 5)
        file.write_bytes(spoil(file.read_bytes()))
        with pytest.raises(FormatError, match=r"shard-00005.safetensors is damaged.* delete"):
            distill.Corpus.load(tmp_path)
        file.unlink()
        draw(tmp_path)
    assert content(tmp_path) == content(corpus)
    draw(tmp_path / "other", seed=1)
    shard_file(tmp_path, 5).write_bytes(shard_file(tmp_path / "other", 5).read_bytes())
    with pytest.raises(FormatError, match="not a shard of this corpus"):
        distill.Corpus.load(tmp_path)


def test_the_start_is_made_only_if_it_is_needed(corpus: Path, tmp_path: Path) -> None:
    begun = []

    def initial() -> tt.HMM:
        begun.append(1)
        return distill.random_start(distill.Corpus.load(corpus), 6, seed=8)

    job = partial(distill.train, corpus, 6, epochs=10, batch_size=50, initial=initial, out=tmp_path)
    kill_when(partial(has_checkpoint, tmp_path), job)
    job()
    assert not begun


def test_settings_that_make_no_sense(corpus: Path) -> None:
    data = distill.Corpus.load(corpus)
    bad = {
        "token_dropout": 1.0,
        "pseudocount": -1,
        "floor": 2,
        "epochs": -1,
        "step_size": 0.0,
        "chunk_size": 0,
    }
    for name, value in [*bad.items(), ("step_size", 1.5)]:
        with pytest.raises(ShapeError):
            distill.train(data, 3, **{name: value})
    with pytest.raises(ShapeError, match="two hidden states"):
        distill.train(data, 1)
    with pytest.raises(ShapeError, match="no sequence is left"):
        distill.train(data.select(torch.arange(1)), 3, held_out=0.9)
    with pytest.raises(ShapeError, match="empty"):
        distill.evaluate(tt.HMM.random(3, 5), data.select(torch.arange(0)))
    with pytest.raises(VocabularyMismatch):
        distill.Corpus.of(torch.tensor([[5]]), 5, EOS)


def test_a_lost_shard_is_named_and_drawn_again(corpus: Path, tmp_path: Path) -> None:
    draw(tmp_path)
    for lost in (0, 38):
        shard_file(tmp_path, lost).unlink()
    for use in (lambda: fit(tmp_path, tmp_path / "hmm"), lambda: distill.Corpus.load(tmp_path)):
        with pytest.raises(
            FormatError, match=r"2 of 39 shards are missing, shard-00000.* run the same sampling again"
        ):
            use()
    assert not (tmp_path / "hmm").exists()
    draw(tmp_path)
    assert content(tmp_path) == content(corpus)


def test_a_run_goes_on_and_says_so(
    corpus: Path, hmm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The clock jumps between the runs and within them; the second run is of another version of torch."""
    caplog.set_level("INFO", "tractile")
    kill_when(partial(has_checkpoint, tmp_path), fit, corpus, tmp_path)
    rng = random.Random(0)
    monkeypatch.setattr(time, "time", lambda: rng.uniform(0, 4e9))
    monkeypatch.setattr(checkpoint, "VERSIONS", "tractile 9 with torch 99")
    fit(corpus, tmp_path)
    assert "the run goes on after step" in caplog.text
    assert "was written by tractile" in caplog.text
    assert "this is tractile 9 with torch 99" in caplog.text
    assert (tmp_path / "model.safetensors").read_bytes() == (hmm / "model.safetensors").read_bytes()
    caplog.clear()
    fit(corpus, tmp_path)
    assert "finished: its HMM is read, nothing is trained" in caplog.text
    draw(tmp_path / "corpus")
    shard_file(tmp_path / "corpus", 3).unlink()
    draw(tmp_path / "corpus")
    assert "the corpus goes on with 38 of 39 shards drawn" in caplog.text
    assert content(tmp_path / "corpus") == content(corpus)
