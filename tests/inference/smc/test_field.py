"""Fields of answers against enumeration: exact where the texts can be listed, within the intervals where they cannot."""

import itertools
import json
import math
import re
from dataclasses import dataclass, replace

import pytest
import torch
from smc_reference import CASES, COMPILED, HMM, LIMIT, RUNS, N, enumerate_target, phi, spelled, z_scores

import tractile as tt
from tractile.errors import EvidenceError, NoParticleSurvived
from tractile.inference.smc import ABSENT, Posterior, explore
from tractile.inference.smc.paths import leaves
from tractile.inference.smc.prefix_tree import PrefixTree
from tractile.inference.smc.request import requests

PIECES = [None, b'{"kind":', b'"cat"', b'"dog"', b'"bi', b'rd"', b',"n":', b"1", b"2", b"}", b"[", b"]", b","]
VOCAB = tt.Vocabulary(PIECES, eos_token_id=0)


def model(seed=0, sharp=1.0, pieces=PIECES):
    """A Markov model of the pieces, with rows drawn at random."""
    draw = torch.Generator().manual_seed(seed)
    rows = (sharp * torch.randn(len(pieces) + 1, len(pieces), generator=draw).double()).log_softmax(1)
    table = {(v,): rows[v] for v in range(len(pieces))} | {(): rows[-1]}
    return tt.lm.TableLM(table, eos_token_id=0, vocabulary=VOCAB if pieces is PIECES else None)


def all_texts(lm, fa, budget):
    """p_lm of each accepted sequence of at most ``budget`` tokens, by its text."""
    found, todo = {}, [((), 0.0)]
    query = tt.gcd(fa, budget)
    for prefix, log_p in todo:
        if len(prefix) == budget or (prefix and prefix[-1] == 0):
            if prefix[-1] == 0:
                text = lm.decode(prefix)
                found[text] = found.get(text, 0.0) + math.exp(log_p)
            continue
        query.start(1, budget)
        for token in prefix:
            query.advance([token])
        lm.start([list(prefix)])
        row = lm.log_probs()[0]
        for token in query.mask()[0].nonzero()[:, 0].tolist():
            todo.append(((*prefix, token), log_p + float(row[token])))
    return found


def shares(texts, value):
    total, found = sum(texts.values()), {}
    for text, p in texts.items():
        found[value(text)] = found.get(value(text), 0.0) + p / total
    return found


KINDS = tt.constraints.regex(r'\{"kind":"(cat|dog|bird)"(,"n":[12]{1,3})?\}')
FA = KINDS.compile(VOCAB)


@pytest.mark.parametrize("proposal", ["lm", "lcd", "gcd"])
@pytest.mark.parametrize("seed", range(3))
def test_fields_that_can_be_listed_are_exact(proposal, seed):
    lm = model(seed)
    post = tt.smc(lm, [], FA, proposal, particles=4, max_new_tokens=9, seed=seed)
    texts = all_texts(lm, FA, 9)
    for path, value in [
        ("kind", lambda text: json.loads(text)["kind"]),
        ("n", lambda text: json.loads(text).get("n", ABSENT)),
    ]:
        truth, field = shares(texts, value), post.field(path)
        assert field.exact
        assert sum(p.value for _, p in field) == pytest.approx(1)
        assert field.unseen < 1e-3
        for one, p in truth.items():
            assert field.probability(one) == pytest.approx(p, abs=2e-3)
            if p > 1e-3:
                assert field.estimate(one).low - 1e-12 <= p <= field.estimate(one).high + 1e-12
        assert field.top()[0] == max(truth, key=truth.get)
        assert field.entropy == pytest.approx(-sum(p * math.log(p) for p in truth.values()), abs=0.02)


def test_a_tree_read_to_its_end_is_the_enumeration():
    lm = model(5)
    (request,) = requests("smc", lm, [], None, FA, "gcd", max_new_tokens=7)
    for width in (1, 3, 64):
        tree = PrefixTree(request, width)
        assert tree.log_unread == tree.bound == 0.0
        last = 0.0
        while tree.unfinished:
            tree.sweep()
            # What was found and what was not read bound the whole, from one sweep to the next.
            truth = sum(all_texts(lm, FA, 7).values())
            assert math.exp(tree.log_found) <= truth + 1e-12
            assert math.exp(tree.log_found) + math.exp(tree.log_unread) >= truth - 1e-12
            assert tree.log_unread < last
            last = tree.log_unread
        found = {}
        for tokens, log_p in tree.complete.items():
            text = lm.decode(tokens)
            found[text] = found.get(text, 0.0) + math.exp(log_p)
        assert found == pytest.approx(all_texts(lm, FA, 7))
        assert tree.log_unread == tree.bound == -math.inf


def test_a_sweep_that_is_stopped_leaves_nothing_out():
    """What was chosen and not read is open again; the greedy text is whole."""
    lm = model(5)
    (request,) = requests("smc", lm, [], None, FA, "gcd", max_new_tokens=7)
    truth = sum(all_texts(lm, FA, 7).values())
    for passes in range(1, 20):
        tree = PrefixTree(request, width=2)
        for _ in range(3):
            tree.sweep(stop=lambda tree=tree, passes=passes: tree.passes >= passes)
        found, unread = math.exp(tree.log_found), math.exp(tree.log_unread)
        assert found <= truth + 1e-12
        assert found + unread >= truth - 1e-12
        assert tree.greedy in tree.complete
        while tree.unfinished:
            tree.sweep()
        assert math.exp(tree.log_found) == pytest.approx(truth)


@pytest.mark.parametrize("strength", [0.0, 0.7])
def test_draws_and_listed_texts_together_are_unbiased(monkeypatch, strength):
    """With a tree of two rows the mean of Z · p(v) over seeds is the enumerated mass, under a potential and with a guide too."""
    monkeypatch.setattr(explore, "PrefixTree", lambda request, seed: PrefixTree(request, 2, seed))
    monkeypatch.setattr(tt.inference.smc.prefix_tree, "LISTED", 2)
    monkeypatch.setattr(explore, "DRAWS", 2)  # in two batches
    lm = model(2, 0.3)
    guide = guide_of(torch.linspace(1, 3, len(PIECES) - 1, dtype=torch.float64))

    def weight(text):
        return 0.5 + ("dog" in text)

    weighted = {text: p * weight(text) for text, p in all_texts(lm, FA, 9).items()}
    by_kind = shares(weighted, lambda text: json.loads(text)["kind"])
    masses = {kind: share * sum(weighted.values()) for kind, share in by_kind.items()}
    estimates, proposal = [], tt.inference.smc.LookaheadProposal(strength)
    for seed in range(RUNS):
        post = tt.smc(
            lm, [], FA, proposal, guide, particles=200, max_new_tokens=9, seed=seed, potential=weight
        )
        listed = explore.Source(post.source.request, post, passes=9).listed
        assert (bool(listed.texts), len(listed.others.texts)) == (True, 200 + 2 * 200)
        found = dict.fromkeys(masses, 0.0)
        masses_drawn = listed.others.log_weights - math.log(len(listed.others.texts))
        known = zip(listed.texts, listed.log_masses.tolist(), strict=True)
        for text, log_mass in [*known, *zip(listed.others.texts, masses_drawn.tolist(), strict=True)]:
            if log_mass > -math.inf:
                found[json.loads(text)["kind"]] += math.exp(log_mass)
        estimates.append([found[kind] for kind in masses])
    assert z_scores(estimates, list(masses.values())).abs().max() < LIMIT


def guide_of(pieces):
    """An HMM of independent pieces: a text goes on with probability 0.8; then it has ended for good."""
    emission = torch.block_diag(torch.ones(1, 1, dtype=torch.float64), pieces[None] / pieces.sum())
    return tt.HMM(torch.tensor([0.2, 0.8]).double(), torch.tensor([[1, 0], [0.2, 0.8]]).double(), emission)


def test_a_fields_guide_finds_the_texts_that_the_model_alone_does_not():
    """Each text with an ``a`` is paid for by ``xxx``: its mass is a billionth of that of texts of ``b`` and ``c`` alone."""
    vocab = tt.Vocabulary([None, b"a", b"b", b"c", b"x"], eos_token_id=0)
    pieces = torch.tensor([0.6, 0.25, 0.1499, 0.0001], dtype=torch.float64)
    lm = tt.lm.TableLM({(): torch.cat([torch.tensor([0.2]).double(), 0.8 * pieces]).log()}, 0, vocab)
    fa = tt.constraints.regex("[bc]{6}b{3}|[abc]{6}x{3}").compile(vocab)
    guided = tt.inference.smc.LookaheadProposal(1.0)
    post = tt.smc(lm, [], fa, guided, guide_of(pieces), particles=8, max_new_tokens=10)
    field = post.field()
    for text in ("bbbbbbbbb", "bcbbcbbbb", "ccccccbbb"):
        share = 0.25 ** text[:6].count("b") * 0.1499 ** text[:6].count("c") / 0.3999**6
        assert field.probability(text) == pytest.approx(share, abs=1e-4)
        assert field.estimate(text).error < 1e-4
    assert len(field) >= 64


def test_intervals_hold_the_truth_where_texts_are_too_many():
    """Texts of eight pieces in any order: 4⁸ of them; the field is the first piece."""
    pieces = [None, b"a", b"b", b"c", b"d"]
    vocab = tt.Vocabulary(pieces, eos_token_id=0)
    fa = tt.constraints.regex("[ab][a-d]{6}[ab]").compile(vocab)
    lm = model(4, 0.7, pieces)
    rows = torch.stack([lm._table[(v,)] for v in range(5)]).exp()
    ahead = rows[:, 0].clone()
    for allowed in [[1, 2], *[[1, 2, 3, 4]] * 6]:  # from the end, exactly
        ahead = rows[:, allowed] @ ahead[allowed]
        last = ahead
    first = lm._table[()].exp()[[1, 2]] * last[[1, 2]]
    truth = (first / first.sum()).tolist()
    inside, errors, alone = 0, [], []
    for seed in range(40):
        post = tt.smc(lm, [], fa, "gcd", particles=16, max_new_tokens=9, seed=seed)
        post = replace(post, parse=str.split)
        field, known = post.field("[0]", level=0.9), replace(post, source=None).field("[0]")
        assert not field.exact
        for value, p in zip("12", truth, strict=True):
            errors.append(abs(field.probability(value) - p))
            alone.append(abs(known.probability(value) - p))
        inside += field.estimate("1").low <= truth[0] <= field.estimate("1").high
    assert 32 <= inside <= 40
    # the texts listed and the draws are worth more than as many particles
    assert sum(errors) < 0.75 * sum(alone)


def test_a_sampler_that_contradicts_the_texts_found_gives_bounds_alone():
    """The weights of the sampler say e⁻²⁰ of what the texts that were found have: no standard error can be taken from them."""
    pieces = [None, b"a", b"b"]
    lm = model(0, 0.0, pieces)
    fa = tt.constraints.regex("a[ab]{9}").compile(tt.Vocabulary(pieces, eos_token_id=0))
    post = tt.smc(lm, [], fa, "gcd", particles=4, max_new_tokens=11, seed=0)
    weak = replace(post, log_weights=post.log_weights - 20.0)
    field = replace(weak, source=explore.Source(post.source.request, weak), parse=str.split).field("[1]")
    assert not field.exact
    for value, p in field:
        assert value in ("1", "2")
        assert p.level == 1
        assert p.low < 0.5 < p.high
        assert p.high - p.low > 0.5
    assert field.unseen > 0.5
    assert "not seen at most" in str(field)
    assert field.estimate("3").high == field.unseen


@pytest.mark.parametrize("name", list(CASES))
def test_the_hmm_that_guides_changes_no_field(name):
    lm, fsa = CASES[name]
    truth = {}
    for x, p in enumerate_target(lm, fsa, N).items():
        truth[spelled(x, name)] = truth.get(spelled(x, name), 0.0) + p
    total = sum(truth.values())
    for proposal in ("pgcd", "pgcd-mixture", tt.inference.smc.LookaheadProposal(1.0)):
        post = tt.smc(
            lm, [], COMPILED[name], proposal, HMM, particles=8, max_new_tokens=N, seed=1, potential=phi
        )
        field = post.field()
        masses = {text: p * phi(text) for text, p in truth.items()}
        assert field.exact
        assert {text: p.value for text, p in field} == pytest.approx(
            {text: p / sum(masses.values()) for text, p in masses.items()}
        )
        plain = tt.smc(lm, [], COMPILED[name], proposal, HMM, particles=8, max_new_tokens=N, seed=1).field()
        assert {text: p.value for text, p in plain} == pytest.approx({t: p / total for t, p in truth.items()})


def test_posteriors_without_a_model_use_their_particles():
    weights = torch.tensor([0.5, 0.25, 0.25, 0.0], dtype=torch.float64).log()
    texts = ['{"a": [1, true]}', '{"a": [1.5, true]}', '{"b": {"c.d": 1}}', "broken"]
    post = Posterior([(i,) for i in range(4)], texts, weights, torch.zeros(4).double())
    first = post.field("a[0]")
    assert next((value, p.value) for value, p in first) == (1, pytest.approx(0.5))
    assert first.probability(ABSENT) == pytest.approx(0.25)
    assert first.estimate(1.5).error > 0
    assert first.probability(True) == 0  # 1 is not True
    assert post.field("a[-1]").probability(True) == pytest.approx(0.75)
    assert post.field('b["c.d"]').probability(1) == pytest.approx(0.25)
    assert not first.exact
    assert first.unseen == pytest.approx(1.0)  # each value was seen once
    assert len(post.field()) == 3
    assert post.field("a").probability([1, True]) == pytest.approx(0.5)
    for path in ("c", "a[0].x", "a["):
        with pytest.raises(EvidenceError, match="field"):
            post.field(path)
    with pytest.raises(NoParticleSurvived):
        Posterior([(1,)], ["a"], torch.tensor([-math.inf]), torch.tensor([-1.0])).field()
    with pytest.raises(EvidenceError, match="is no JSON"):
        Posterior([(1,)], ["a"], torch.tensor([0.0]), torch.tensor([-1.0])).field("kind")


def test_a_value_that_no_sample_has_is_not_said_to_be_impossible():
    """Of 16 draws none shows a value of probability 0.1 in 19 % of all runs: its interval of 90 % must reach it."""
    post = Posterior(
        [(i,) for i in range(16)], ["a"] * 16, torch.zeros(16).double(), torch.zeros(16).double()
    )
    absent = post.field().estimate("b")
    assert (absent.value, absent.low, absent.level) == (0.0, 0.0, 0.9)
    assert 0.1 < absent.high < 0.2
    assert post.field().probability("b") == 0.0


def test_equal_numbers_are_one_value():
    zeros = torch.zeros(2, dtype=torch.float64)
    ((value, p),) = Posterior([(1,), (2,)], ["3", "3.0"], zeros, zeros, parse=json.loads).field()
    assert (value, p.value) == (3, pytest.approx(1.0))


def test_a_potential_above_one_leaves_nothing_out():
    """A text of small p_lm with a large potential is most of the target, so the unread mass bounds nothing."""
    lm = model(0)
    post = tt.smc(
        lm,
        [],
        FA,
        "gcd",
        particles=4,
        max_new_tokens=9,
        seed=0,
        potential=lambda text: 1e5 if "222" in text else 1.0,
    )
    listed = post.source.listed
    assert listed.log_unread == -math.inf or listed.others is not None


def test_no_text_of_the_target_is_an_error():
    post = tt.smc(model(0), [], FA, "gcd", particles=4, max_new_tokens=9, potential=lambda text: 0.0)
    for path in ("", "kind"):
        with pytest.raises(NoParticleSurvived):
            post.field(path)


def test_proposals_of_ones_own_and_awrs_are_not_asked_again():
    lm = model(1)
    post = tt.smc(lm, [], FA, "awrs", particles=8, max_new_tokens=9, seed=0)
    assert post.source.listed is None
    assert not post.field("kind").exact


def test_paths_of_an_answer():
    @dataclass
    class Person:
        name: str
        ages: list[int]

    value = {"a.b": Person("x", [1, 2]), "c": [], "d": None}
    assert list(leaves(value)) == ['["a.b"].name', '["a.b"].ages[0]', '["a.b"].ages[1]', "c", "d"]
    assert list(leaves(3)) == [""]
    for path in itertools.chain(leaves(value), [""]):
        assert tt.inference.smc.paths.at_path(value, tt.inference.smc.paths.read_path(path)) is not ABSENT


def test_texts_that_the_model_finds_improbable_are_listed_too():
    """128 sentences have 3e-7 of the mass: what was read at first is far less than what was not, and yet all are soon listed."""
    model, tokenizer = tt.embedded.load_lm()
    things = "cat|dog|bird|fish|bear|frog|duck|mouse|rabbit|lion|pig|horse|cow|sheep|bee|bug"
    form = rf" The (?P<thing>{things}) was (?P<mood>happy|sad|angry|scared|tired|excited|proud|bored)\."
    output = tt.constraints.output_type(re.compile(form))
    settings = {"output": output, "max_new_tokens": 24, "posterior": True, "particles": 4}
    fields = []
    for seed in range(2):
        _, post = tt.generate(model, tokenizer, "Once there was a boy named Tim.", seed=seed, **settings)
        assert post.log_evidence < math.log(1e-6)
        fields.append(post.field("thing"))
    assert all(field.exact for field in fields)
    for thing in things.split("|"):
        assert fields[0].probability(thing) == pytest.approx(fields[1].probability(thing), abs=2e-3)
