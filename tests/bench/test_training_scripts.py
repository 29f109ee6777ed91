"""The scripts that train the models that ship: documents, batches, and runs that are interrupted."""

import random
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from scripts import load
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from tractile_bench import prompts

pytest.importorskip("zstandard")
embedded, small, goals = (
    load(f"bench/training/{name}.py") for name in ("train_embedded_lm", "train_small_lm", "small_lm_goals")
)


def stories(count: int) -> list[str]:
    rng = random.Random(0)
    words = [
        "the", "a", "dog", "cat", "ran", "sat", "saw", "big", "small", "red", "ball", "tree", "and", "was", "happy",
    ]  # fmt: skip
    sentence = lambda: " ".join(rng.choices(words, k=rng.randint(3, 9))).capitalize() + "."  # noqa: E731
    return [" ".join(sentence() for _ in range(rng.randint(2, 12))) for _ in range(count)]


def pairs(count: int = 40) -> list[tuple[str, str]]:
    rng = random.Random(0)
    found = list(goals.goals(rng, count))
    found += [(prompts.commongen(["dog", "ball"]), f"A dog has {n} balls.") for n in range(count)]
    return [*found, ("", "Plain text é.")]


def test_documents_hold_every_token_once_and_end() -> None:
    rng = random.Random(3)
    coded = [
        [[rng.randrange(3, 1024) for _ in range(rng.randint(1, 30))] for _ in range(40)] for _ in range(20)
    ]
    coded.append([[7] * 700])
    for whole in (0.0, 1.0):
        docs = list(embedded.documents(coded, whole, 2.5, random.Random(1)))
        assert all(doc[0] == embedded.BOS and len(doc) <= embedded.CONTEXT for doc in docs)
        inside = [token for doc in docs for token in doc[1:] if token != embedded.EOS]
        assert inside == [token for story in coded for sentence in story for token in sentence]
        open_ends = [doc for doc in docs if doc[-1] != embedded.EOS]
        assert all(len(doc) == embedded.CONTEXT for doc in open_ends)
    assert len(docs) < 100


def test_batches_hold_every_document_once() -> None:
    rng = random.Random(0)
    docs = [[1, *(rng.randrange(3, 99) for _ in range(rng.randint(1, 250))), 2] for _ in range(70)]
    found = []
    for inputs, targets in embedded.batches(docs, 1024, random.Random(0)):
        assert inputs.shape[1] in embedded.WIDTHS
        for row, target in zip(inputs, targets, strict=True):
            count = int((target != -100).sum())
            if count:
                found.append([*row[:count].tolist(), int(target[count - 1])])
                assert row[1:count].tolist() == target[: count - 1].tolist()
    assert sorted(found) == sorted(docs)


def test_batches_and_what_counts() -> None:
    tokenizer = small.train_tokenizer(part for pair in pairs() for part in pair)
    documents = small.encode(tokenizer, pairs(), whole=False) + small.encode(tokenizer, pairs(), whole=True)
    assert small.unpack(small.pack(documents)) == documents
    found = small.batches(documents, 1024, random.Random(0))
    key = lambda one: (one.tokens, one.whole)  # noqa: E731
    assert sorted((one for batch in found for one in batch), key=key) == sorted(documents, key=key)
    for batch in found:
        inputs, targets = small.tensors(batch, None)
        assert inputs.shape[1] in small.WIDTHS
        for row, document in enumerate(batch):
            counted = (targets[row] != -100).nonzero()[:, 0].tolist()
            assert counted == list(range(document.start - 1, len(document.tokens) - 1))
            assert targets[row, counted].tolist() == document.tokens[document.start :]
        some = small.tensors(batch, random.Random(0))[1]
        for row, document in enumerate(batch):
            assert (
                document.whole == ((some[row] != -100).sum() == len(document.tokens) - 1)
                or document.start == 1
            )


def of_the_embedded_model(monkeypatch) -> SimpleNamespace:
    texts = stories(60)
    coded = embedded.encode(embedded.train_tokenizer(texts), texts)
    args = {"lr": 0.05, "batch": 512, "whole": 0.3, "mean": 2.5, "compile": False}
    return SimpleNamespace(
        script=embedded, args=args, build=lambda: embedded.build_model(0),
        train=lambda model, args: embedded.train(model, coded, args),
    )  # fmt: skip


def of_the_small_model(monkeypatch) -> SimpleNamespace:
    monkeypatch.setattr(small, "VOCABULARY", 300)
    tokenizer = small.train_tokenizer(part for pair in pairs() for part in pair)
    documents = small.encode(tokenizer, pairs(), whole=False)
    args = {"lr": 0.3, "batch": 1024, "compile": False, "device": "cpu", "bf16": True}
    return SimpleNamespace(
        script=small, args=args | {"log_every": 3, "checkpoint_minutes": 1}, tokenizer=tokenizer, documents=documents,
        build=lambda: small.build_model(0, 64, 1),
        train=lambda model, args: small.train(model, tokenizer, documents, args),
    )  # fmt: skip


class Interrupted(Exception):
    """As Ctrl-C."""


def trained(job, work, monkeypatch, checkpoints=100, factor=1.0):
    """The model of six steps, unless the run ends at a checkpoint; its weights at the beginning are multiplied by ``factor``."""
    save, left = job.script.save_checkpoint, iter(range(checkpoints))

    def save_or_stop(*arguments):
        save(*arguments)
        if next(left, None) is None:
            raise Interrupted

    work.mkdir(exist_ok=True)
    args = Namespace(steps=6, minutes=1e6, work=work, seed=0, **job.args)
    model = job.build()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(factor)
    with monkeypatch.context() as patch:
        patch.setattr(job.script, "save_checkpoint", save_or_stop)
        assert job.train(model, args).step == 6
    return model


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon, which the scripts use")
@pytest.mark.parametrize("of", [of_the_embedded_model, of_the_small_model])
def test_an_interrupted_run_ends_in_the_same_model(of, tmp_path, monkeypatch):
    """Broken off at its second checkpoint and taken up again: the weights of training in one go."""
    job = of(monkeypatch)
    ticks = iter(range(0, 10**7, 70))  # seconds: every look at the clock is late, so checkpoints are frequent
    monkeypatch.setattr(job.script.time, "monotonic", lambda: next(ticks))
    whole = trained(job, tmp_path / "whole", monkeypatch)
    with pytest.raises(Interrupted):
        trained(job, tmp_path / "again", monkeypatch, checkpoints=1)
    assert (tmp_path / "again" / "checkpoint.safetensors").exists()
    again = trained(job, tmp_path / "again", monkeypatch, factor=0.5).state_dict()  # it goes on from the file
    start = job.build().state_dict()
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(again[name], value, rtol=0, atol=1e-4)
    assert any((start[name] - value).abs().max() > 1e-3 for name, value in whole.state_dict().items())
    if of is of_the_small_model:
        check_what_is_saved(job, whole, tmp_path / "out")


def check_what_is_saved(job, model, folder):
    """`from_pretrained` reads the model in half precision and its tokenizer; it has learnt."""
    small.save_model(model, job.tokenizer, folder)
    loaded = LlamaForCausalLM.from_pretrained(folder)
    assert loaded.dtype == torch.float16
    weight = model.state_dict()["model.embed_tokens.weight"]
    torch.testing.assert_close(loaded.lm_head.weight.float(), weight, rtol=1e-2, atol=1e-4)
    read = PreTrainedTokenizerFast.from_pretrained(folder)
    assert read("A dog.").input_ids == job.tokenizer("A dog.").input_ids
    before, after = (small.evaluate(one, job.documents, "cpu") for one in (job.build(), loaded.float()))
    assert after.nats_per_token < before.nats_per_token - 0.3
    assert after.tokens == sum(len(one.tokens) - one.start for one in job.documents)
    assert 0 <= after.probability <= 1
