"""The commands `tractile distill …`: every option reaches what it is for, and what is wrong is said in one line."""

import json
import math

import pytest
import torch
from commands import assert_refused, last_json, run

import tractile as tt
from tractile import distill
from tractile.distill.manifest import Manifest, begin


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    arguments = ["--num-sequences", 60, "--max-new-tokens", 8, "--shard-size", 25, "--out", folder]
    found = run("distill", "sample", *arguments)
    assert found.exit_code == 0, found.stderr
    return folder


def test_latent_start_log_and_curve(corpus, tmp_path):
    train = ["distill", "train", "--corpus", corpus, "--hidden", 12, "--epochs", 2, "--batch-size", 20]
    train += ["--held-out", 0.2, "--token-dropout", 0.01, "--checkpoint-minutes", 1]
    nats = {}
    for init in ("latent", "random"):
        found = run(*train, "--init", init, "--out", tmp_path / init)
        assert found.exit_code == 0, found.stderr
        log = [json.loads(line) for line in (tmp_path / init / "log.jsonl").read_text().splitlines()]
        assert len(log) == 2 * 3
        nats[init] = log[2]["held_out"]
        assert (tmp_path / init / "learning-curve.png").stat().st_size > 1000
        card = (tmp_path / init / "README.md").read_text()
        assert "from embedded" in card
        assert "| hidden states | 12, dense transition |" in card
        assert f"| 2 | {log[-1]['nats_per_token']:.4f} | {log[-1]['held_out']:.4f} |" in card
        assert f"6 steps took {log[-1]['seconds']:,.0f} seconds" in card
    assert nats["latent"] < nats["random"] - 0.05


def test_growing(corpus, tmp_path):
    train = ["distill", "train", "--corpus", corpus, "--epochs", 1, "--out", tmp_path / "large"]
    for name in "ab":
        tt.distill.random_start(distill.Corpus.load(corpus), 3, seed=ord(name)).save_pretrained(
            tmp_path / name
        )
    one = [*train, "--from", tmp_path / "a"]
    two = [*one, "--from", tmp_path / "b", "--transition", "monarch", "--hidden"]
    assert run(*two, 9).exit_code == 0
    assert tt.HMM.from_pretrained(tmp_path / "large").transition.dims == (3, 3)
    assert "Monarch (3 × 3)" in (tmp_path / "large" / "README.md").read_text()
    assert_refused(run(*one, "--hidden", 7), 1, "hidden was 9, is 7")
    assert run(*one, "--hidden", 7, "--overwrite").exit_code == 0
    assert tt.HMM.from_pretrained(tmp_path / "large").hidden == 7
    assert_refused(run(*two, 8), 2, "9 states, monarch")
    assert_refused(run(*one, "--hidden", 7, "--init", "latent"), 2, "without --init")
    found = run("distill", "eval", "--hmm", tmp_path / "large", "--corpus", corpus)
    assert "lm by position" in found.stdout


def test_the_start_alone_and_half_precision(corpus, tmp_path):
    train = ["distill", "train", "--corpus", corpus, "--hidden", 12, "--batch-size", 60, "--held-out", 0]
    start = tt.distill.random_start(distill.Corpus.load(corpus), 12, seed=1)
    start.save_pretrained(tmp_path / "start")
    assert run(*train, "--epochs", 0, "--from", tmp_path / "start", "--out", tmp_path / "kept").exit_code == 0
    gap = {}
    for name, more in (("kept", None), ("gentle", ["--step-size", 0.1]), ("whole", ["--half"])):
        if more is not None:
            found = run(*train, *more, "--epochs", 1, "--from", tmp_path / "start", "--out", tmp_path / name)
            assert found.exit_code == 0, found.stderr
        hmm = tt.HMM.from_pretrained(tmp_path / name)
        gap[name] = float((hmm.emission_probs - start.emission_probs).abs().max())
    assert gap["kept"] < 2e-3 < gap["gentle"] < gap["whole"]
    assert "messages in bfloat16" in (tmp_path / "whole" / "README.md").read_text()


def test_what_an_hmm_is_worth_as_a_guide(corpus):
    arguments = ["distill", "eval", "--hmm", tt.embedded.HMM_PATH, "--corpus", corpus, "--keyword", "dog"]
    found = last_json(run(*arguments, "--particles", 8, "--json"))
    assert found["sequences"] == 60
    assert 0 < found["nats_per_token"] < math.log(tt.embedded.load_hmm().vocab_size)
    facts = found["guidance"]
    assert set(facts) == {"gcd", "pgcd"}
    assert facts["pgcd"]["deviation"] < facts["gcd"]["deviation"]
    assert "effective sample size" in run(*arguments, "--particles", 2).stdout


def test_manifest_says_how_it_was_drawn(corpus):
    manifest = json.loads((corpus / "manifest.json").read_text())
    assert (manifest["model"], manifest["num_sequences"], manifest["seed"]) == ("embedded", 60, 0)
    assert manifest["vocabulary_fingerprint"] == tt.embedded.load_hmm().vocabulary_fingerprint
    assert len(list(corpus.glob("shard-*"))) == 3


def test_prompts_from_a_file_and_existing_text(tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "Once upon a time"}\n{"tokens": [1, 5, 7]}\n')
    arguments = ["distill", "sample", "--max-new-tokens", 5, "--out"]
    drawn = [*arguments, tmp_path / "drawn", "--num-sequences", 6, "--prompts", prompts, "--temperature", 0.5]
    assert run(*drawn).exit_code == 0
    manifest = distill.Corpus.load(tmp_path / "drawn").manifest
    assert manifest.prompts == ["Once upon a time", [1, 5, 7]]
    assert manifest.model == "embedded at temperature 0.5"
    prompts.write_text('{"text": 3}\n')
    assert_refused(run(*arguments, tmp_path / "x", "--num-sequences", 6, "--prompts", prompts), 1, "line 1")

    (tmp_path / "stories.txt").write_text("The dog ran to the park.\n\nA cat sat.\n")
    assert run(*arguments, tmp_path / "text", "--text", tmp_path / "stories.txt").exit_code == 0
    corpus = distill.Corpus.load(tmp_path / "text")
    tokenizer = tt.embedded.load_lm()[1]
    ids = [token for token in corpus.tokens.flatten().tolist() if token != tokenizer.eos_token_id]
    expected = [
        tokenizer(t, add_special_tokens=False).input_ids for t in ("The dog ran to the park.", "A cat sat.")
    ]
    assert ids == [token for row in expected for token in row]
    assert corpus.log_probs is None
    hmm = tmp_path / "hmm"
    tt.HMM.random(3, len(tokenizer)).save_pretrained(hmm)
    facts = last_json(run("distill", "eval", "--hmm", hmm, "--corpus", tmp_path / "text", "--json"))
    assert facts["lm_nats_per_token"] is None
    assert_refused(run(*arguments, tmp_path / "none"), 2, "--num-sequences")
    (tmp_path / "stories.txt").write_text("\n")
    assert_refused(run(*arguments, tmp_path / "none", "--text", tmp_path / "stories.txt"), 1, "no text")


def test_shares_and_shards(corpus, tmp_path, monkeypatch):
    sample = [
        "distill",
        "sample",
        "--num-sequences",
        60,
        "--max-new-tokens",
        8,
        "--shard-size",
        25,
        "--out",
        tmp_path / "c",
    ]
    for share, missing in (("1/2", 2), ("0/2", 0)):
        found = run(*sample, "--share", share)
        assert f"share {share} is drawn; {missing} shards" in found.stdout
    for shard in corpus.glob("shard-*"):
        assert (tmp_path / "c" / shard.name).read_bytes() == shard.read_bytes()
    assert_refused(run(*sample, "--share", "2/2"), 2, "I/N")
    text = ["distill", "sample", "--text", __file__, "--max-new-tokens", 8, "--out", tmp_path / "t"]
    assert_refused(run(*text, "--share", "0/2"), 2, "torchrun")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert_refused(run(*sample, "--vllm"), 2, "CUDA_VISIBLE_DEVICES", "--share")
    monkeypatch.delenv("WORLD_SIZE")

    train = ["distill", "train", "--shard", "--corpus", corpus, "--hidden", 12, "--epochs", 1, "--out"]
    assert run(*train, tmp_path / "a").exit_code == 0
    assert run(*train, tmp_path / "b", "--from", tmp_path / "a").exit_code == 0
    first, second = (json.loads((tmp_path / name / "log.jsonl").read_text()) for name in "ab")
    assert second["nats_per_token"] < first["nats_per_token"]
    assert_refused(run(*train, tmp_path / "x", "--init", "latent"), 2, "--epochs 0")


def test_another_tokenizer_is_refused(corpus, tmp_path):
    manifest = json.loads((corpus / "manifest.json").read_text()) | {"vocabulary_fingerprint": "0" * 64}
    other = Manifest(**manifest)
    begin(tmp_path, other)
    for i in range(3):
        shard = distill.Corpus.load(corpus).shards[i]
        distill.corpus.write_shard(tmp_path, i, other, dict(shard))
    train = [
        "distill", "train", "--corpus", tmp_path, "--hidden", 4, "--init", "latent", "--out", tmp_path / "h",
    ]  # fmt: skip
    assert_refused(run(*train), 1, "tokenizer")


def test_no_such_device(corpus, tmp_path):
    train = ["distill", "train", "--corpus", corpus, "--hidden", 4, "--out", tmp_path, "--device"]
    assert_refused(run(*train, "abacus"), 2, "abacus")
    if not torch.cuda.is_available():
        assert_refused(run(*train, "cuda"), 2, "no GPU")
