"""Classes of tokens: training on classes is training on tokens, and large vocabularies are divided by themselves."""

import json

import pytest
import torch

import tractile as tt
from tractile import distill
from tractile.distill import token_classes
from tractile.distill.token_classes import TokenClasses
from tractile.layers import Categorical, ClassCategorical

EOS = 9


@pytest.fixture
def corpus():
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 5, (60, 6), generator=generator)
    tokens[0, 1], tokens[1, 2], tokens[2, 0] = 5, 6, 11
    tokens[:, -1] = EOS
    return distill.Corpus.of(tokens, vocab_size=14, eos_token_id=EOS)


def divided(hmm, classes):
    return classes.widen(classes.narrow(hmm))


def test_shares_add_up_to_one_in_each_class(corpus):
    classes = TokenClasses.of(corpus)
    own = classes.class_of < classes.class_of.max()
    assert own.nonzero()[:, 0].tolist() == [0, 1, 2, 3, 4, EOS]
    assert classes.share[own].tolist() == [1.0] * 6
    totals = torch.zeros(7).index_add(0, classes.class_of, classes.share)
    torch.testing.assert_close(totals, torch.ones(7))
    assert (classes.share > 0).all()
    wide = TokenClasses.of(distill.Corpus.of(corpus.tokens, vocab_size=300_000, eos_token_id=EOS))
    assert abs(float(wide.share[wide.class_of == 6].double().sum()) - 1) < 1e-6
    once = torch.tensor([5, 6, 11])
    torch.testing.assert_close(classes.share[once].sum(), torch.tensor(0.5))


def test_a_step_of_em_on_classes_is_one_on_tokens(corpus):
    classes = TokenClasses.of(corpus)
    hmm = divided(distill.random_start(corpus, 4), classes)
    by_token, nats = tt.inference.em_step(hmm, corpus.tokens)
    by_class, fewer = tt.inference.em_step(classes.narrow(hmm), classes.relabelled(corpus).tokens)
    torch.testing.assert_close(classes.widen(by_class).emission_probs, by_token.emission_probs)
    torch.testing.assert_close(by_class.transition.dense(), by_token.transition.dense())
    shares = classes.share[corpus.tokens].double().log().sum()
    torch.testing.assert_close(nats, fewer + shares, rtol=1e-5, atol=0)


def test_a_trained_hmm_emits_every_token_and_survives_its_file(corpus, tmp_path):
    hmm = distill.train(corpus, hidden=4, epochs=3, token_classes=True, out=tmp_path, dtype=torch.float32)
    assert isinstance(hmm.inputs, ClassCategorical)
    assert hmm.vocab_size == 14
    assert (hmm.emission_probs[:-1].sum(0)[torch.arange(14) != EOS] > 0).all()
    again = tt.HMM.from_pretrained(tmp_path)
    torch.testing.assert_close(tt.log_marginal(again, corpus.tokens), tt.log_marginal(hmm, corpus.tokens))
    same = distill.train(corpus, hidden=4, epochs=3, token_classes=True, out=tmp_path, dtype=torch.float32)
    torch.testing.assert_close(same.emission_probs, again.emission_probs)
    found, written = (
        distill.evaluate(hmm, corpus),
        distill.evaluate(tt.HMM(hmm.initial_probs, hmm.transition, hmm.emission_probs), corpus),
    )
    assert found.nats_per_token == pytest.approx(written.nats_per_token, rel=1e-5)
    assert found.vocabulary_coverage == pytest.approx(written.vocabulary_coverage, rel=1e-5)


def test_the_log_tells_nats_of_tokens_and_not_of_classes(corpus, tmp_path):
    hmm = distill.train(
        corpus, hidden=4, epochs=2, batch_size=60, held_out=0.5, floor=1e-9, token_classes=True, out=tmp_path
    )
    fit, test = corpus.split(0.5)
    assert (fit.tokens == 11).any() or (fit.tokens == 5).any() or (fit.tokens == 6).any()
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert log[-1]["held_out"] == pytest.approx(distill.evaluate(hmm, test).nats_per_token, rel=1e-3)
    start = TokenClasses.of(fit)
    first = start.widen(distill.random_start(start.relabelled(corpus), 4))
    assert log[0]["nats_per_token"] == pytest.approx(distill.evaluate(first, fit).nats_per_token, rel=1e-3)


def test_lookahead_under_a_constraint_is_that_of_the_table(corpus):
    classes = TokenClasses.of(corpus)
    hmm = divided(distill.random_start(corpus, 4), classes)
    table = tt.HMM(hmm.initial_probs, hmm.transition, hmm.emission_probs)
    edges = [(0, [0, 1, 5, 12], 0), (0, [2, 6], 1), (1, list(range(9)), 1), (1, EOS, 2), (2, EOS, 2)]
    automaton = tt.Automaton.from_edges(edges, start=0, accept=[2], vocab_size=14)
    for tokens in ([], [0], [2], [5, 6]):
        scores = []
        for chain in (hmm, table):
            query = tt.pgcd(chain, automaton, horizon=5).start(batch=1)
            for token in tokens:
                query.advance([token])
            scores.append((query.scores(), query.lookahead()))
        for found, expected in zip(*scores, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_only_a_large_vocabulary_that_is_mostly_unseen_is_divided_by_itself(corpus, monkeypatch):
    assert TokenClasses.where_sparse(corpus) is None
    assert isinstance(distill.train(corpus, hidden=3, epochs=1).inputs, Categorical)
    monkeypatch.setattr(token_classes, "LARGE", 10)
    assert TokenClasses.where_sparse(corpus) is None  # 9 of 14 tokens occur
    wide = distill.Corpus.of(corpus.tokens, vocab_size=40, eos_token_id=EOS)
    assert TokenClasses.where_sparse(wide) is not None
    assert isinstance(distill.train(wide, hidden=3, epochs=1).inputs, ClassCategorical)
    assert isinstance(distill.train(wide, hidden=3, epochs=1, token_classes=False).inputs, Categorical)


def test_an_initial_hmm_of_the_whole_vocabulary_is_taken(corpus):
    start = distill.random_start(corpus, 3)
    hmm = distill.train(corpus, hidden=3, epochs=0, initial=start, token_classes=True, floor=0)
    classes = TokenClasses.of(corpus)
    torch.testing.assert_close(hmm.emission_probs, divided(start, classes).emission_probs)
