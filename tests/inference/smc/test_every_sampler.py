"""What every sampler's result says: the tokens' text, their probability, the constraint's narrowing; and views of models."""

import io
import math
from dataclasses import replace

import pytest
import torch
from smc_reference import sequence_log_prob

import tractile as tt
from tractile.circuits.narrowing import Narrowing
from tractile.inference import smc as sampling
from tractile.inference.smc import user_function
from tractile.inference.smc.step import Knowledge
from tractile.inference.smc.trace import END, SHOWN

VOCAB = tt.Vocabulary([b"a", b"b", None], 2)
HMM = tt.HMM.random(2, 3, seed=1)
CUT = Narrowing("/a", "maxLength", 9, 3, "size")
GIVEN = {"prompt": [], "max_new_tokens": 3}
SAMPLERS = {
    "smc": lambda **a: tt.smc(**a, proposal="gcd", particles=4),
    "awrs": lambda **a: tt.smc(**a, proposal="awrs", particles=4),
    "importance_sampling": lambda **a: sampling.importance_sampling(**a, proposal="gcd", particles=4),
    "resample_move": lambda **a: sampling.resample_move(**a, proposal="gcd", particles=4),
    "speculative": lambda **a: tt.decoding.speculative(**a, hmm=HMM, particles=4).posterior,
}  # fmt: skip


def automaton():
    fa = tt.constraints.regex("a{0,2}b").compile(VOCAB)
    fa.narrowed = (CUT,)
    return fa


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_result_says_what_its_tokens_are(name):
    post = SAMPLERS[name](lm=tt.CircuitLM(HMM, 2, VOCAB), fa=automaton(), **GIVEN)
    assert post.narrowed == (CUT,)
    assert len(post.texts) == len(post.token_ids) == len(post.log_weights) == len(post.log_probs) >= 2
    for ids, text, found in zip(post.token_ids, post.texts, post.log_probs.tolist(), strict=True):
        spelled = "".join("ab"[token] for token in ids if token < 2)
        assert text == spelled
        assert spelled in ("b", "ab", "aab")
        assert found == pytest.approx(sequence_log_prob(tt.CircuitLM(HMM, 2, VOCAB), ids), rel=1e-5)
    assert math.isfinite(post.log_evidence)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_budget_that_is_too_small_is_an_error(name):
    fa = tt.constraints.regex("aaab").compile(VOCAB)
    with pytest.raises(tt.errors.BudgetTooSmall):
        SAMPLERS[name](lm=tt.CircuitLM(HMM, 2, VOCAB), fa=fa, **GIVEN)


def test_files_and_pages_are_utf_8_whatever_the_locale(monkeypatch, tmp_path):
    """``io.text_encoding`` is asked where no encoding is given, which is then the locale's."""
    plain = io.text_encoding

    def asked(encoding, level=2):
        assert encoding is not None
        return plain(encoding, level)

    post = SAMPLERS["smc"](lm=tt.CircuitLM(HMM, 2, VOCAB), fa=automaton(), trace=True, **GIVEN)
    monkeypatch.setattr(io, "text_encoding", asked)
    page = post.to_html(tmp_path / "run.html")
    assert "★" in page
    assert page == post.to_html() == (tmp_path / "run.html").read_bytes().decode()


def test_the_page_shows_texts_cuts_and_the_guide():
    post = SAMPLERS["smc"](lm=tt.CircuitLM(HMM, 2, VOCAB), fa=automaton(), trace=True, **GIVEN)
    page = post.to_html()
    assert f"<h1>{len(post.texts)} particles, {len(set(post.texts))} distinct texts, log Z ≈ " in page
    assert page.count("★ best</td>") == page.count('<tr class="best">') == 1
    assert f'<tr class="best"><td class="n">{max(post.group_by(lambda p: p.text).values()):.3f}</td>' in page
    assert page.count('<td class="t">') == len(set(post.texts))
    assert "The constraint accepts less" in page
    assert "/a: maxLength: 3 instead of 9" in page
    assert "<p>Guide:" not in page
    bare = replace(post, narrowed=())
    assert "The constraint accepts less" not in bare.to_html()


def test_the_plot_has_its_axes():
    post = SAMPLERS["smc"](lm=tt.CircuitLM(HMM, 2, VOCAB), fa=automaton(), trace=True, **GIVEN)
    first, between, bars = post.plot().axes
    assert (first.get_xlabel(), first.get_ylabel()) == ("step", "effective sample size")
    assert first.get_ylim() == pytest.approx((0, 4.2))
    assert (between.get_xlabel(), between.get_ylabel()) == ("step", "weight")
    assert between.get_xlim() == (0, len(post.trace.steps) + 1)
    assert between.get_ylim() == (0, 1)
    assert bars.get_xlabel() == "weight"
    assert bars.get_title() == f"log Z ≈ {post.log_evidence:.3f} nats"
    shown = [label.get_text() for label in bars.get_yticklabels()]
    assert shown[::-1] == [repr(text) for text in post.group_by(lambda p: p.text)]


def test_a_trace_says_what_became_of_each_particle():
    """And shows the likeliest tokens under the model and under the proposal, and those that were drawn."""
    size = 40
    vocab = tt.Vocabulary([*(bytes([65 + i]) for i in range(size)), None], size)
    lm = tt.CircuitLM(tt.HMM.random(3, size + 1, seed=2), size, vocab)
    fa = tt.constraints.regex("[A-T]{1,2}").compile(vocab)
    steps = tt.smc(lm, [], fa, "gcd", particles=2, max_new_tokens=4, trace=True).trace.steps
    for step in steps:
        for belief in step.beliefs:
            assert belief.vocab == size + 1
            asked = [
                sorted(belief.candidates, key=key)[-SHOWN:]
                for key in (lambda c: c.lm, lambda c: c.proposal or 0)
            ]
            likeliest = {c.token for half in asked for c in half}
            assert SHOWN <= len(likeliest) <= len(belief.candidates) <= len(likeliest) + 2
            assert {c.text for c in belief.candidates if c.token == size} <= {END}
    killed = tt.smc(lm, [], fa, "lm", particles=16, max_new_tokens=4, trace=True, seed=1)
    for step in killed.trace.steps:
        for weight, status in zip(step.weight, step.status, strict=True):
            assert status in ("grows", "waits", "ended", "dead")
            assert (status == "dead") == (weight == 0)
    assert {status for step in killed.trace.steps for status in step.status} >= {"grows", "dead"}
    assert {status for step in steps for status in step.status} == {"grows", "ended"}


def test_the_values_of_a_function_that_are_kept_are_the_latest(monkeypatch):
    asked = []

    def longer(text):
        asked.append(text)
        return 1.0 + len(text)

    monkeypatch.setattr(user_function, "CACHE_SIZE", 4)
    function = user_function.UserFunction(longer)
    assert function.values([(str(i), False) for i in range(6)]) == [2.0] * 6
    asked.clear()
    assert function.values([(str(i), False) for i in range(6)]) == [2.0] * 6
    assert asked == ["0", "1"]


def test_the_last_line_names_each_cut_once():
    post = SAMPLERS["smc"](lm=tt.CircuitLM(HMM, 2, VOCAB), fa=automaton(), **GIVEN)
    other = CUT._replace(keyword="max_depth")
    last = str(replace(post, narrowed=(CUT, other, CUT))).splitlines()[-1]
    assert last == "the constraint leaves out some texts (maxLength, max_depth): see narrowed"


class Wrong(sampling.Proposal):
    """Draws a token that there is not."""

    needs = Knowledge.LOCAL

    def __init__(self, token):
        self.token = token

    def draw(self, step, generator):
        rows = len(step.rows)
        return torch.full((rows,), self.token), torch.zeros(rows, dtype=torch.float64)


@pytest.mark.parametrize("token", [-1, 3])
def test_a_token_that_there_is_not_is_named_with_its_text(token):
    lm = tt.CircuitLM(HMM, 2, VOCAB)
    with pytest.raises(tt.errors.ProposalError, match=f"drew token {token} of 3") as caught:
        tt.smc(lm, [], automaton(), Wrong(token), particles=2, max_new_tokens=3)
    assert str(caught.value).count("''") == 1  # the text before it
