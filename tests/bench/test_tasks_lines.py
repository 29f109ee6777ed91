"""Answers that end with their line: probabilities against sums by hand, and a run of the benchmark."""

import math

import pytest
import torch

import tractile as tt
from tractile.errors import EvidenceError
from tractile_bench import Example, Task
from tractile_bench.results import Results, read
from tractile_bench.runner import Bench, Settings
from tractile_bench.stop_at_newline import NewlineStopLM

PIECES = [b"a", b"\n", b" \n\n", b"a\n", b" ", None, None]
EOS = 5
VOCAB = tt.Vocabulary(PIECES, eos_token_id=EOS)
ROW = torch.tensor([0.3, 0.2, 0.1, 0.05, 0.15, 0.1, 0.1], dtype=torch.float64).log()


def table():
    return tt.lm.TableLM({(): ROW, **{(i,): ROW for i in range(7)}}, EOS, VOCAB)


def test_newlines_end_the_text_and_nothing_else_does():
    lm = NewlineStopLM(table(), VOCAB)
    lm.start([[]])
    expected = torch.tensor([[0.3, 0, 0, 0.05, 0.15, 0.4, 0.1]], dtype=torch.float64)
    assert torch.allclose(lm.log_probs().exp(), expected)
    lm.select(torch.tensor([0, 0]))
    lm.advance(torch.tensor([0, EOS]))
    ended = torch.zeros(7, dtype=torch.float64).index_fill_(0, torch.tensor(EOS), 1.0)
    assert torch.allclose(lm.log_probs().exp(), torch.stack([expected[0], ended]))
    assert lm.log_probs().logsumexp(1).abs().max() < 1e-12
    assert lm.decode([0, 4, EOS]) == "a "
    assert torch.allclose(table()._table[()], ROW)  # the model's own numbers are left alone


def test_a_vocabulary_without_newlines_changes_nothing():
    lm = NewlineStopLM(table(), tt.Vocabulary([b"a"] * 5 + [None] * 2, eos_token_id=EOS))
    lm.start([[]])
    assert torch.equal(lm.log_probs()[0], ROW)


def test_a_model_that_never_ends_is_refused():
    with pytest.raises(EvidenceError, match="has no end token"):
        NewlineStopLM(tt.lm.TableLM({(): ROW}, None, VOCAB), VOCAB)


class Line(Task):
    """The letter a, once or twice."""

    name, metric, max_new_tokens, one_line = "line", "length", 3, True

    def examples(self, split="test"):
        yield Example("0", "", "a", {})

    def constraint(self, example):
        return tt.constraints.regex("a{1,2}")

    def scores(self, example, text):
        return {"length": float(len(text))}


@pytest.mark.parametrize("one_line", [True, False])
def test_the_benchmark_reads_a_model_of_lines_where_the_task_says_so(tmp_path, monkeypatch, one_line):
    monkeypatch.setattr(Line, "one_line", one_line)
    settings = Settings(methods=["gcd"], particles=[2000], max_new_tokens=3)
    Bench(Line(), table(), VOCAB, settings).run(
        list(Line().examples()), Results(tmp_path, {"task": "line", "metric": "length"})
    )
    end = 0.4 if one_line else 0.1
    (line,) = read(tmp_path)[1]
    assert line["log_z"] == pytest.approx(math.log(0.3 * end + 0.09 * end), abs=0.1)
