"""benchmarks/guides.py: points are made once, the language model's short memory is exact, interpolation of what is needed."""

import importlib
import sys
from pathlib import Path

import pytest
import torch

from tractile import distill

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
MODULES = ("guides", "guides_pictures", "convergence", "proposals")


@pytest.fixture(scope="module")
def guides():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("guides")
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in MODULES:
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def source(guides, tmp_path_factory):
    return guides.Source(tmp_path_factory.mktemp("guides"), 2048, 16)


def test_a_point_is_made_once_and_kept_in_a_file(guides, tmp_path):
    made = []

    def make(value):
        made.append(value)
        return {"above": value}

    path = tmp_path / "work" / "points.jsonl"
    for value in (1.0, 2.0):  # a new process each
        points = guides.Points(path)
        assert points.once({"part": "nats", "way": "EM"}, make, value) == {
            "part": "nats",
            "way": "EM",
            "above": 1.0,
        }
        points.once({"part": "nats", "way": "clones"}, make, 3.0)
    assert made == [1.0, 3.0]
    assert len(path.read_text().splitlines()) == 2


def test_a_point_that_failed_is_not_kept(guides, tmp_path):
    points = guides.Points(tmp_path / "points.jsonl")
    with pytest.raises(ZeroDivisionError):
        points.once({"part": "nats"}, lambda: {"above": 1 / 0})
    assert points.lines == []
    assert not points.path.exists()


def test_smaller_corpora_are_parts_of_larger_ones(guides, source):
    small, large = source.fit(500), source.fit(1500)
    assert small.num_tokens <= 500 < small.num_tokens + guides.LENGTH
    assert large.num_tokens <= 1500 < large.num_tokens + guides.LENGTH
    assert torch.equal(large.tokens[: len(small)], small.tokens)


def test_a_window_as_long_as_the_text_loses_nothing_and_short_ones_lose_more(guides, source):
    above = [guides.remembering(source, source.test, window)["above"] for window in (1, 4, guides.LENGTH)]
    assert above[0] > above[1] > above[2]
    assert abs(above[2]) < 1e-4


def test_the_bigram_of_the_window_is_that_of_the_model(guides, source):
    """With a window of one token each loss is that of the model after the beginning and one token."""
    row = source.test.select(torch.tensor([0]))
    text, eos = row.tokens[0].tolist(), row.manifest.eos_token_id
    text = text[: text.index(eos) + 1] if eos in text else text
    model = source.model[0]

    def loss(head):
        read = [
            [*guides.PROMPT],
            *([*head, token] if t else [*guides.PROMPT, token] for t, token in enumerate(text[:-1])),
        ]
        scores = [model(torch.tensor([ids])).logits[0, -1].log_softmax(0) for ids in read]
        return -sum(float(score[token]) for score, token in zip(scores, text, strict=True)) / len(text)

    own = -float(row.log_probs.sum()) / len(text)
    with torch.no_grad():
        expected = [loss(head) - own for head in (guides.PROMPT, [])]
    assert guides.remembering(source, row, 1)["both"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("way", ["EM", "split, EM", "trigram", "Monarch, product, EM"])
def test_every_way_makes_an_hmm_of_the_states_asked_for(guides, source, way):
    hmm = guides.WAYS[way](source, source.fit(500), 16)
    assert hmm.hidden == 16
    assert hmm.vocab_size == source.test.manifest.vocab_size
    assert distill.evaluate(hmm, source.test).kl_per_token > 0


def test_what_is_needed_is_read_between_the_sizes_that_were_run(guides):
    pictures = sys.modules["guides_pictures"]
    cells = [
        (pictures.Distance(k, 0, 0, gap, 0, 0), cpu)
        for k, gap, cpu in ((1, 2.0, 1.0), (4, 0.5, 2.0), (16, 0.1, 4.0))
    ]
    assert pictures.needs(cells, 0.5) == pytest.approx((4, 2.0))
    k, seconds = pictures.needs(cells, 1.0)  # half of the way in both logarithms
    assert (k, seconds) == pytest.approx((2.0, 1 + 1 / 3))
    assert pictures.needs(cells, 0.01) == (float("inf"), float("inf"))
    assert pictures.needs(cells, 3.0) == (1, 1.0)
