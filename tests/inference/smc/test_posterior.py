"""The posterior's estimates, groups, samples and pictures, by hand."""

import json
import math
import re
import shutil
import subprocess

import pytest
import torch
from counting import HANGS
from smc_reference import ENDED, EOS, HMM, Letters, as_automaton, random_table

import tractile as tt
from tractile.inference import smc as sampling
from tractile.inference.smc.posterior import shortened

# Four particles, two of them the same sequence, one dead; unnormalised weights 1, 2, 1, 0.
POST = tt.inference.smc.Posterior(
    token_ids=[(1, 9), (2, 9), (1, 9), (3,)],
    texts=["a", "b", "a", "c"],
    log_weights=torch.tensor([1.0, 2.0, 1.0, 0.0], dtype=torch.float64).log(),
    log_probs=torch.tensor([-2.0, -1.0, -2.0, -3.0], dtype=torch.float64),
    ess_trace=(4.0, 16 / 6),
    resampled=(0,),
)
FAILED = tt.inference.smc.Posterior([(1,)], ["a"], torch.tensor([-math.inf]), torch.tensor([-1.0]))


def test_weights_evidence_and_effective_sample_size():
    assert POST.weights.tolist() == pytest.approx([0.25, 0.5, 0.25, 0.0])
    assert POST.log_evidence == pytest.approx(math.log(1.0))
    assert POST.ess == pytest.approx(16 / 6)


def test_best_sums_equal_particles_and_breaks_ties_by_probability():
    assert POST.best.text == "b"
    heavier = tt.inference.smc.Posterior(
        POST.token_ids, POST.texts, torch.tensor([1.1, 2.0, 1.0, 0.0]).double().log(), POST.log_probs
    )
    assert heavier.best.text == "a"
    assert heavier.best.token_ids == (1, 9)


def test_groups_add_up_and_come_heaviest_first():
    skewed = tt.inference.smc.Posterior(
        POST.token_ids, POST.texts, torch.tensor([2.0, 1.0, 1.0, 0.0]).double().log(), POST.log_probs
    )
    groups = skewed.group_by(lambda particle: particle.text)
    assert list(groups) == ["a", "b"]
    assert groups == pytest.approx({"a": 0.75, "b": 0.25})


def test_dead_particles_are_never_shown_to_a_user_function():
    def key(particle):
        assert particle.text != "c"
        return particle.text

    POST.group_by(key)
    assert POST.expectation(lambda p: float(key(p) == "a")) == pytest.approx(0.5)
    assert [p.text for p in POST.accepted] == ["a", "b", "a"]
    assert len(POST.particles) == 4


def test_samples_follow_the_weights():
    """Binomial at error probability 1e-5."""
    drawn = [p.text for p in POST.sample(2000, seed=1)]
    assert drawn.count("c") == 0
    assert drawn.count("a") == pytest.approx(1000, abs=4.42 * math.sqrt(500))
    assert drawn == [p.text for p in POST.sample(2000, seed=1)]


def test_a_failed_run_gives_nothing():
    assert FAILED.failed
    assert (FAILED.log_evidence, FAILED.ess, FAILED.weights.tolist()) == (-math.inf, 0.0, [0.0])
    asks = [
        lambda: FAILED.best,
        lambda: FAILED.accepted,
        lambda: FAILED.sample(1),
        lambda: FAILED.group_by(lambda p: p.text),
        lambda: FAILED.expectation(lambda p: 1.0),
    ]
    for ask in asks:
        with pytest.raises(tt.TractileError, match="none of 1 particles"):
            ask()


@pytest.mark.parametrize("post", [POST, FAILED], ids=["run", "failed"])
def test_to_dict_is_json(post):
    data = json.loads(json.dumps(post.to_dict(), allow_nan=False))
    assert data["failed"] == post.failed
    assert len(data["particles"]) == len(post.texts)
    if not post.failed:
        assert data["particles"][1] == {
            "text": "b",
            "token_ids": [2, 9],
            "weight": pytest.approx(0.5),
            "log_weight": pytest.approx(math.log(2)),
            "log_prob": -1.0,
        }
        assert data["particles"][3]["log_weight"] is None


@pytest.mark.parametrize("post", [POST, FAILED], ids=["run", "failed"])
def test_plot_draws_trace_and_weights(post, tmp_path):
    figure = post.plot()
    trace, bars = figure.axes
    assert trace.lines[0].get_ydata().tolist() == list(post.ess_trace)
    assert sorted(bar.get_width() for bar in bars.patches) == pytest.approx([] if post.failed else [0.5, 0.5])
    figure.savefig(tmp_path / "posterior.png")
    assert (tmp_path / "posterior.png").stat().st_size > 1000


def test_it_says_how_many_texts_differ():
    """Four particles, two of them equal and one dead; eight that are equal have full effective sample size."""
    assert POST.distinct == 2
    assert FAILED.distinct == 0
    equal = tt.inference.smc.Posterior(
        [(1,)] * 8, ["a"] * 8, torch.zeros(8).double(), torch.zeros(8).double()
    )
    assert (equal.ess, equal.distinct) == (pytest.approx(8.0), 1)
    assert "1 distinct text\n" in str(equal)
    assert equal.to_dict()["distinct"] == 1


def test_printing_it_takes_ten_lines():
    assert str(POST).splitlines() == [
        "4 particles, 2 distinct texts",
        "log Z ≈ 0.000 nats, effective sample size 2.7",
        " 0.500  'a'",
        " 0.500  'b'",
    ]
    assert repr(POST) == "Posterior(4 particles, 2 distinct, log_evidence=0.000, ess=2.7, best='b')"
    assert str(FAILED) == "1 particles, none of which satisfies the constraint"
    assert repr(FAILED) == "Posterior(1 particles, failed)"
    many = tt.inference.smc.Posterior([(i,) for i in range(200)], [f"{i}\n" * 60 for i in range(200)], torch.zeros(200).double(),
                        torch.zeros(200).double())  # fmt: skip
    lines = str(many).splitlines()
    assert len(lines) == 10
    assert max(map(len, lines)) < 160
    assert lines[-1] == " 0.965  in 193 more"


def test_the_page_begins_with_the_best_text():
    """The best sequence is that of most weight over equal particles, not the heaviest particle."""
    post = traced(particles=12, seed=3)
    data = json.loads(re.search(r'id="run">(.*?)</script>', post.to_html(), re.DOTALL).group(1))
    last = post.trace.steps[-1]
    shown, text = data["best"], ""
    for step in reversed(post.trace.steps):
        text, shown = step.text[shown] + text, step.parent[shown]
    assert text == post.best.text
    assert last.weight[data["best"]] > 0
    assert f"{post.distinct} distinct texts" in post.to_html()
    assert re.findall(r'<tr class="best">.*?<td class="t">(.*?)</td>', post.to_html(), re.DOTALL) == [
        post.best.text
    ]


def test_texts_with_odd_characters_can_be_plotted(tmp_path):
    odd = tt.inference.smc.Posterior(
        [(1,)], ["$x_1\n\\frac$ ^"], torch.zeros(1).double(), torch.zeros(1).double(), (1.0,)
    )
    odd.plot().savefig(tmp_path / "odd.png")  # reading "$x_1…$" as a formula would raise
    assert (tmp_path / "odd.png").stat().st_size > 1000


# Traces and the page


def traced(**options):
    lm = tt.lm.TableLM(random_table(3, 2, seed=3), EOS, Letters())
    options = {
        "proposal": sampling.LookaheadProposal(), "particles": 7, "max_new_tokens": 6, "ess_threshold": 0.95, "seed": 4,
    } | options  # fmt: skip
    return tt.smc(lm, (0, 1), as_automaton(ENDED), hmm=HMM, trace=True, **options)


@pytest.mark.parametrize(
    "options",
    [{}, {"proposal": "lm"}, {"proposal": "gcd", "beam_factor": 2, "resampling": "without-replacement"},
     {"proposal": "gcd", "align": sampling.every_clause, "ess_threshold": 1.1}],
    ids=["pgcd", "lm", "beam", "align"],
)  # fmt: skip
def test_the_trace_spells_every_particle_along_its_ancestry(options):
    post = traced(**options)
    steps = post.trace.steps
    assert len(steps) == len(post.ess_trace)
    assert [t for t, step in enumerate(steps) if step.resampled] == list(post.resampled)
    assert post.resampled or options.get("proposal") == "lm"
    for text, ids, i in zip(post.texts, post.token_ids, post.trace.final, strict=True):
        pieces, drawn = [], 0
        for step in reversed(steps):
            pieces.append(step.text[i])
            drawn += step.belief[i] is not None
            i = step.parent[i]
        assert "".join(reversed(pieces)) == text
        assert drawn == len(ids)
    for step in steps:
        assert sum(step.weight) == pytest.approx(1.0)
        for i, belief in enumerate(step.belief):
            assert (belief is None) <= (step.status[i] in ("ended", "dead", "waits"))
    assert steps[-1].weight == pytest.approx(post.weights.tolist()) or post.resampled[-1:] == (
        len(steps) - 1,
    )


def test_beliefs_are_those_of_model_constraint_and_proposal():
    post = traced(proposal="gcd")
    lm = tt.lm.TableLM(random_table(3, 2, seed=3), EOS)
    lm.start([(0, 1)])
    p = lm.log_probs()[0].exp()
    belief = post.trace.steps[0].beliefs[0]
    assert (belief.allowed, belief.vocab) == (2, 3)  # the text may not end before a 1
    found = {c.token: c for c in belief.candidates}
    assert set(found) == {0, 1, 2}
    for token in range(3):
        assert found[token].lm == pytest.approx(float(p[token]))
        assert found[token].allowed == (token != EOS)
        assert found[token].proposal == pytest.approx(float(p[token] / p[:2].sum()) if token != EOS else 0.0)
    assert (
        traced(proposal=sampling.AWRSProposal(lambda text: True))
        .trace.steps[0]
        .beliefs[0]
        .candidates[0]
        .proposal
        is None
    )


def test_a_trace_changes_nothing():
    plain = tt.smc(tt.lm.TableLM(random_table(3, 2, seed=3), EOS, Letters()), (0, 1), as_automaton(ENDED),
                   sampling.LookaheadProposal(), HMM, particles=7, max_new_tokens=6, ess_threshold=0.95, seed=4)  # fmt: skip
    post = traced()
    assert post.token_ids == plain.token_ids
    assert torch.equal(post.log_weights, plain.log_weights)
    assert "trace" not in plain.to_dict()
    with pytest.raises(tt.errors.EvidenceError, match="trace=True"):
        plain.to_html()
    assert json.loads(json.dumps(post.to_dict(), allow_nan=False))["trace"]["steps"][0]["beliefs"]
    assert len(post.plot().axes) == 3


def test_long_texts_are_shortened_and_others_are_not():
    assert shortened("a" * 80) == "a" * 80
    assert shortened("a" * 81) == "a" * 79 + "…"
    assert shortened("abcd", 3) == "ab…"


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.skipif(BROWSER is None, reason="no chromium to look at the page with")
def test_the_page_in_a_browser(tmp_path):
    class Hostile(Letters):
        token_bytes = (b"</script><b>", b"\n&'\"", b"")

    lm = tt.lm.TableLM(random_table(3, 2, seed=3), EOS, Hostile())
    post = tt.smc(lm, (0, 1), as_automaton(ENDED), "gcd", None, 5, 6, 1, trace=True, ess_threshold=1.1)
    path = tmp_path / "run.html"
    assert post.to_html(path) == path.read_text(encoding="utf-8")
    assert "http" not in path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")

    def dom(place):
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile",
                   "--dump-dom", f"{path.as_uri()}{place}"]  # fmt: skip
        return subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=True).stdout

    seen = dom("#1.2")
    assert 'data-ready="yes"' in seen  # the script came to its end
    assert len(re.findall("<circle", seen)) == sum(len(step.parent) for step in post.trace.steps)
    assert "Step 2, particle 2" in seen
    belief = post.trace.steps[1].beliefs[post.trace.steps[1].belief[2]]
    assert f"allowed {belief.allowed} of 3 tokens" in seen
    assert seen.count('class="edge on"') == 1
    assert "<b>" not in re.sub(r"<script.*?</script>", "", seen, flags=re.DOTALL)  # texts are not markup
    assert re.search(r"Step \d, particle \d: (ended|grows)", dom(""))
