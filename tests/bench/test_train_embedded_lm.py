"""The script that trains the embedded model: documents, batches, tokenizer, and a run that is interrupted."""

import importlib.util
import random
import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

zstandard = pytest.importorskip("zstandard")
SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "training" / "train_embedded_lm.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_embedded_lm", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_embedded_lm"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def stories(count: int) -> list[str]:
    rng = random.Random(0)
    words = [
        "the", "a", "dog", "cat", "ran", "sat", "saw", "big", "small", "red", "ball", "tree", "and", "was", "happy",
    ]  # fmt: skip
    sentence = lambda: " ".join(rng.choices(words, k=rng.randint(3, 9))).capitalize() + "."  # noqa: E731
    return [" ".join(sentence() for _ in range(rng.randint(2, 12))) for _ in range(count)]


def test_sentences_join_to_the_story_and_keep_quotes_whole(script: ModuleType) -> None:
    story = 'Tom said, "I am sad. I lost it!" Mom came. "Do not cry," she said. It was late'
    parts = script.sentences(story)
    assert " ".join(parts) == story
    assert parts == [
        'Tom said, "I am sad. I lost it!"',
        "Mom came.",
        '"Do not cry," she said.',
        "It was late",
    ]


def test_documents_hold_every_token_once_and_end(script: ModuleType) -> None:
    rng = random.Random(3)
    coded = [
        [[rng.randrange(3, 1024) for _ in range(rng.randint(1, 30))] for _ in range(40)] for _ in range(20)
    ]
    coded.append([[7] * 700])
    for whole in (0.0, 1.0):
        docs = list(script.documents(coded, whole, 2.5, random.Random(1)))
        assert all(doc[0] == script.BOS and len(doc) <= script.CONTEXT for doc in docs)
        inside = [token for doc in docs for token in doc[1:] if token != script.EOS]
        assert inside == [token for story in coded for sentence in story for token in sentence]
        open_ends = [doc for doc in docs if doc[-1] != script.EOS]
        assert all(len(doc) == script.CONTEXT for doc in open_ends)
    assert len(docs) < 100


def test_batches_hold_every_document_once(script: ModuleType) -> None:
    rng = random.Random(0)
    docs = [[1, *(rng.randrange(3, 99) for _ in range(rng.randint(1, 250))), 2] for _ in range(70)]
    found = []
    for inputs, targets in script.batches(docs, 1024, random.Random(0)):
        assert inputs.shape[1] in script.WIDTHS
        for row, target in zip(inputs, targets, strict=True):
            count = int((target != -100).sum())
            if count:
                found.append([*row[:count].tolist(), int(target[count - 1])])
                assert row[1:count].tolist() == target[: count - 1].tolist()
    assert sorted(found) == sorted(docs)


def test_pieces_stay_within_words(script: ModuleType) -> None:
    tokenizer = script.train_tokenizer(stories(50))
    for text in ("The dog sat.", " é😀 ", 'x "y" 12'):
        assert tokenizer.decode(tokenizer(text).input_ids, skip_special_tokens=True) == text
    apart = script.encode(tokenizer, ["The dog sat. A cat ran."])[0]
    together = tokenizer("The dog sat. A cat ran.", add_special_tokens=False).input_ids
    assert [token for sentence in apart for token in sentence] == together


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon, which the script uses")
def test_an_interrupted_run_ends_in_the_same_model(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training broken off at its second checkpoint and taken up again gives the weights of training in one go."""
    texts = stories(60)
    coded = script.encode(script.train_tokenizer(texts), texts)
    ticks = iter(range(0, 10**7, 70))  # seconds: every look at the clock is late, so checkpoints are frequent
    monkeypatch.setattr(script.time, "monotonic", lambda: next(ticks))
    save = script.save_checkpoint

    def run(name: str, checkpoints: int) -> dict[str, Tensor]:
        left = iter(range(checkpoints))
        work = tmp_path / name
        work.mkdir(exist_ok=True)
        args = Namespace(
            lr=0.05, steps=6, minutes=1e6, work=work, batch=512, whole=0.3, mean=2.5, seed=0, compile=False
        )

        def save_or_stop(*arguments: Any) -> None:
            save(*arguments)
            if next(left, None) is None:
                raise KeyboardInterrupt

        monkeypatch.setattr(script, "save_checkpoint", save_or_stop)
        model = script.build_model(0)
        assert script.train(model, coded, args).step == 6
        assert [path.name for path in work.iterdir()] == ["checkpoint.safetensors"]
        return dict(model.state_dict())

    whole = run("whole", 100)
    with pytest.raises(KeyboardInterrupt):
        run("again", 1)
    again = run("again", 100)
    start = script.build_model(0).state_dict()
    for name, value in whole.items():
        torch.testing.assert_close(again[name], value, rtol=0, atol=1e-4)
    assert any((start[name] - value).abs().max() > 1e-3 for name, value in whole.items())
