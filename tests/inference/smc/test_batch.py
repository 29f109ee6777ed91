"""Many prompts in one batch, particles that wait for each other, texts that grow: nothing changes but the work."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from smc_reference import CASES, ENDED, EOS, HMM, Follows, Letters, N, V, as_automaton, phi, random_table

import tractile as tt
from tractile.embedded import load_lm
from tractile.inference import smc as sampling
from tractile.inference.smc import (
    FunctionPotential,
    at_end,
    every_clause,
    every_json_value,
    every_line,
    every_statement,
    proposals,
)
from tractile.inference.smc.awrs import MaskedAWRSProposal
from tractile.inference.smc.boundaries import BLOCK, Texts
from tractile.inference.smc.particles import Particles
from tractile.inference.smc.sparse import draw_sparse, sparse_step
from tractile.inference.smc.step import Step

PROMPTS = [(0, 1), (), (1, 1, 0), (0, 1)]
BUDGETS = [N, 3, 6, 7]
AUTOMATA = [as_automaton(ENDED), as_automaton(ENDED), None, as_automaton(ENDED)]
HMMS = [HMM, tt.HMM.random(3, V, seed=7), HMM, HMM]


def other():
    return tt.lm.TableLM(random_table(V, 1, seed=9), EOS)


def shorter(text):
    return 0.9 ** len(text)


# Batches


def fair(text):
    return not text.endswith("b\n")


def letters(text):
    return [0.5 + 0.5 * ((b + len(text)) % 2) for b in range(256)] + [0.9]


PROPOSALS = {
    "lm": sampling.LMProposal, "lcd": sampling.LCDProposal, "gcd": lambda: sampling.GCDProposal(1.5),
    "lookahead": lambda: sampling.LookaheadProposal(0.6), "mixture": sampling.MixtureProposal,
    "masked awrs": MaskedAWRSProposal, "awrs": lambda: sampling.AWRSProposal(fair),
    "characters": lambda: sampling.CharacterProposal(Letters(), letters),
}  # fmt: skip


class ReadsTheStep(sampling.Potential):
    """All that a step offers, of the rows of all prompts at once."""

    needs = sampling.Knowledge.HMM

    def log_value(self, rows):
        step, at = rows.step, rows.tokens[:, None]
        tables = [step.log_probs, step.lookahead, step.conditional]
        seen = [(1 - table.double().cpu().gather(1, at)[:, 0]).reciprocal() for table in tables]
        open_ways = step.mask.sum(1).cpu() / step.mask.shape[1]
        lengths = torch.tensor([len(prefix) for prefix in step.prefixes], dtype=torch.float64)
        return -sum(seen) - open_ways.double() - 0.1 * lengths - 0.3 * step.ends(rows.tokens)


SECOND = tt.Automaton.from_edges([(0, [0, 1], 0), (0, [EOS], 1), (1, [EOS], 1)], 0, [0, 1], V)
POTENTIALS = {
    "prefix": sampling.PrefixPotential,
    "lookahead": lambda: sampling.LookaheadPotential(0.4),
    "other model": lambda: Follows(0.5, other()),
    "constraint": lambda: sampling.ConstraintPotential(SECOND),
    "constraint, budgeted": lambda: sampling.ConstraintPotential(SECOND, budgeted=True),
    "function": lambda: FunctionPotential(phi),
    "function of tokens": lambda: FunctionPotential(lambda ids: 0.8 ** len(ids), tokens=True),
    "function, twist": lambda: FunctionPotential(phi, twist=True),
    "at a boundary": lambda: Follows(-0.2, other()).at(every_line),
    "product": lambda: FunctionPotential(phi, every_line) * Follows(0.3, other()),
    "reads the step": ReadsTheStep,
}


@pytest.mark.parametrize(
    ("proposal", "potential"),
    [(name, "function") for name in PROPOSALS] + [("gcd", name) for name in POTENTIALS],
)
def test_every_proposal_and_potential_is_alone_what_it_is_in_a_batch(proposal, potential):
    """Exactly, for prompts with budgets, constraints and HMMs of their own, one of them twice."""
    lm = CASES["ended"][0]

    def made(hmm):
        chosen = {"proposal": PROPOSALS[proposal](), "potential": POTENTIALS[potential]()}
        return {**chosen, "hmm": hmm, "particles": 6, "ess_threshold": 1.1}

    together = tt.smc(lm, prompts=PROMPTS, fa=AUTOMATA, max_new_tokens=BUDGETS, seed=3, **made(HMMS))
    for i, post in enumerate(together):
        alone = tt.smc(lm, PROMPTS[i], AUTOMATA[i], max_new_tokens=BUDGETS[i], seed=3 + i, **made(HMMS[i]))
        assert post.to_dict() == alone.to_dict()
    assert not all(post.failed for post in together)


@pytest.fixture(scope="module")
def embedded():
    model, tokenizer = load_lm()
    return tt.TransformersLM(model, tokenizer), tt.Vocabulary.from_tokenizer(tokenizer)


@pytest.mark.parametrize("align", [None, every_clause])
def test_a_batch_of_unequal_prompts_on_a_transformer(embedded, align):
    """Its numbers depend on the batch in their last digits: with these seeds the same tokens, weights up to 1e-3."""
    lm, vocab = embedded
    prompts = ["The names of the girls were", "Once upon a time, there was a little dog. His name was", "He"]
    fas = [tt.constraints.regex(r"( [A-Z]?[a-z]+[,.]?){1,6}").compile(vocab), None, None]
    options = {"proposal": "gcd", "particles": 5, "align": align, "potential": FunctionPotential(shorter, every_clause),
                   "ess_threshold": 1.1}  # fmt: skip
    together = tt.smc(lm, prompts=prompts, fa=fas, max_new_tokens=[8, 14, 12], seed=1, **options)
    for i, (post, budget) in enumerate(zip(together, [8, 14, 12], strict=True)):
        alone = tt.smc(lm, prompts[i], fas[i], max_new_tokens=budget, seed=1 + i, **options)
        assert post.token_ids == alone.token_ids
        torch.testing.assert_close(post.log_weights, alone.log_weights, rtol=0, atol=1e-3)


class Counting:
    """A language model that counts the rows it evaluates."""

    def __init__(self, lm):
        self.lm, self.vocab_size, self.eos_token_id = lm, lm.vocab_size, lm.eos_token_id
        self.started, self.rows, self.seen = [], [], []

    def start(self, prompts):
        self.started += prompts
        self.lm.start(prompts)

    def advance(self, tokens):
        self.lm.advance(tokens)
        moved = [row for row, token in zip(self.lm._rows, tokens.tolist(), strict=True) if token >= 0]
        self.rows.append(len(moved))
        self.seen += moved

    def __getattr__(self, name):
        return getattr(self.lm, name)


@pytest.mark.parametrize("align", [None, every_line])
def test_every_prefix_is_evaluated_once_and_no_finished_one(align):
    lm = Counting(CASES["ended"][0])
    posts = tt.smc(lm, prompts=[(0, 1), (0, 1)], fa=as_automaton(ENDED), proposal="gcd", particles=30,
                   max_new_tokens=6, align=align)  # fmt: skip
    assert lm.started == [(0, 1)]  # the same prompt is read once
    assert all(EOS not in row for row in lm.seen)
    prefixes = {tuple(ids[:n]) for post in posts for ids in post.token_ids for n in range(1, len(ids))}
    assert {row[2:] for row in lm.seen} == prefixes
    assert len(lm.seen) <= 2 * len(prefixes)  # once for each prompt
    assert max(lm.rows) < 60


def test_a_potential_is_asked_about_all_prompts_at_once():
    asked = []

    def batched(texts):
        asked.append(list(texts))
        return [phi(text) for text in texts]

    lm = CASES["ended"][0]
    tt.smc(lm, prompts=PROMPTS, fa=AUTOMATA, proposal="gcd", particles=6, max_new_tokens=BUDGETS, seed=3,
           potential=FunctionPotential(batched, batched=True))  # fmt: skip
    assert len(asked) <= max(BUDGETS)
    texts = [text for call in asked for text in call]
    assert len(texts) == len(set(texts))


def test_the_progress_bar_counts_tokens(capsys):
    lm, fsa = CASES["ended"]
    post = tt.smc(lm, [], as_automaton(fsa), "gcd", max_new_tokens=40, progress=True)
    assert f"{len(post.ess_trace)}/40 tokens, 0 particles grow" in capsys.readouterr().out
    tt.smc(lm, [], as_automaton(fsa), "gcd", max_new_tokens=40)
    assert capsys.readouterr().out == ""


def test_bad_lists_are_errors():
    lm, fsa = CASES["ended"]
    fa = as_automaton(fsa)
    assert tt.smc(lm, prompts=[], fa=fa, proposal="gcd") == []
    assert (
        tt.smc(
            lm, prompts=[], fa=[], hmm=[], potential=[], align=[], max_new_tokens=[], seed=[], proposal="gcd"
        )
        == []
    )
    lists = [
        ("fa", [fa]), ("max_new_tokens", [3, 4, 5]), ("seed", [1]), ("hmm", [HMM]), ("potential", [None]), ("align", [None]),
    ]  # fmt: skip
    for name, value in lists:
        options = {"fa": fa, name: value}
        with pytest.raises(tt.errors.EvidenceError, match=rf"{name} has {len(value)} entries for 2 prompts"):
            tt.smc(lm, prompts=[(), ()], proposal="gcd", **options)
    with pytest.raises(tt.errors.EvidenceError, match="one prompt, or prompts"):
        tt.smc(lm, (), fa, "gcd", prompts=[()])
    with pytest.raises(tt.errors.EvidenceError, match="one prompt, or prompts"):
        tt.smc(lm, fa=fa)
    with pytest.raises(tt.errors.BudgetTooSmall):
        tt.smc(lm, prompts=[(), ()], fa=fa, proposal="gcd", max_new_tokens=[5, 1])
    with pytest.raises(tt.errors.EvidenceError, match="needs hmm"):
        tt.smc(lm, prompts=[(), ()], fa=fa, proposal="gcd", hmm=[HMM, None], max_new_tokens=6,
               potential=[None, sampling.LookaheadPotential()])  # fmt: skip
    with pytest.raises(tt.errors.EvidenceError, match="cannot wait"):
        tt.smc(lm, (), fa, "gcd", align=every_line, beam_factor=2)


# Waiting


@pytest.mark.parametrize("proposal", ["gcd", "pgcd"])
def test_only_particles_at_the_same_boundary_are_resampled(monkeypatch, proposal):
    seen = []
    descendants = Particles.descendants

    def watched(particles, scheme, count, generator):
        alive = ~particles.log_weight.isneginf()
        assert bool(particles.growing[alive].all())
        texts = [lm.decode(row[:n].tolist()) for row, n in
                 zip(particles.tokens[alive], particles.length[alive], strict=True)]  # fmt: skip
        seen.append((texts, particles.length[alive].tolist(), float(particles.log_weight.logsumexp(0))))
        chosen = descendants(particles, scheme, count, generator)
        assert float(chosen.log_weight.logsumexp(0)) == pytest.approx(seen[-1][2])
        return chosen

    monkeypatch.setattr(Particles, "descendants", watched)
    table = {(): torch.tensor([0.2, 0.35, 0.45], dtype=torch.float64).log()}
    lm = tt.lm.TableLM(table, None, Letters())
    tt.smc(lm, [], None, proposal, HMM, 12, 12, 1, ess_threshold=1.1, align=every_line)
    assert len(seen) >= 2
    for n, (texts, _, _) in enumerate(seen, start=1):
        assert all(text.endswith("\n") and text.count("\n") == n for text in texts)
    assert any(len(set(lengths)) > 1 for _, lengths, _ in seen)


# Few of the tokens, for each state once


@pytest.mark.parametrize("proposal", ["lcd", "gcd", "pgcd", "pgcd-mixture"])
@pytest.mark.parametrize("case", CASES)
def test_drawing_among_the_allowed_tokens_is_drawing_from_the_whole_table(monkeypatch, case, proposal):
    lm, fsa = CASES[case]
    fa, drawn = as_automaton(fsa), []
    monkeypatch.setattr("tractile.inference.smc.sparse.MOST", 1.0)
    monkeypatch.setattr(proposals, "draw_sparse", lambda *given: drawn.append(1) or draw_sparse(*given))

    def posts():
        return [tt.smc(lm, [], fa, proposal, HMM, 20, N, seed) for seed in range(8)]

    flat = posts()
    assert len(drawn) > 8
    monkeypatch.setattr(proposals, "sparse_step", lambda step: None)
    for a, b in zip(flat, posts(), strict=True):
        assert a.token_ids == b.token_ids
        torch.testing.assert_close(a.log_weights, b.log_weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize("top", [0.0, -800.0, 700.0])
def test_drawing_among_few_tokens_never_gives_an_impossible_one(top):
    """Under random numbers at both ends, for probabilities of any size."""
    fa = tt.Automaton.from_edges([(0, [1, 3, 4, 7, 9], 1), (0, [0], 2), (1, [2, 5], 1)], 0, [1], 24)
    query = tt.gcd(fa, 3).start(3)
    query.advance_some(torch.tensor([1, 0, 3]), torch.tensor([True, False, True]))
    table = torch.full((3, 24), -torch.inf, dtype=torch.float64)
    table[0, 5], table[2, 2], table[1, [3, 7]] = (
        top,
        top - 900,
        torch.tensor([top - 1, top], dtype=torch.float64),
    )
    step = Step(table, query, torch.zeros(6, 0, dtype=torch.long), torch.tensor([0, 1, 2, 2, 1, 0]))
    assert (sparse_step(step).places % 24).tolist() == [2, 5, 1, 3, 4, 7, 9, 2, 5]
    for uniform in (0.0, 2**-53, 0.26, 0.27, 1 - 2**-53):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                torch,
                "rand",
                lambda *shape, value=uniform, **_: torch.full(shape, value, dtype=torch.float64),
            )
            tokens, weight = sampling.GCDProposal().draw(step, torch.Generator())
        middle = 3 if uniform <= 0.26 else 7
        assert tokens.tolist() == [5, middle, 2, 2, middle, 5]
        expected = [top, top + math.log(1 + math.exp(-1)), top - 900]
        assert weight.tolist() == pytest.approx([expected[i] for i in (0, 1, 2, 2, 1, 0)], abs=1e-6)


# Texts


def test_texts_that_grow_are_what_the_decoder_says(embedded):
    lm, vocab = embedded
    generator = torch.Generator().manual_seed(0)
    special = [i for i, b in enumerate(vocab.token_bytes) if b is None]
    odd = [i for i, b in enumerate(vocab.token_bytes) if b is not None and any(c > 127 for c in b)]
    for kind in range(3):
        calls = []
        texts = Texts(lambda ids, calls=calls: calls.append(len(ids)) or lm.decode(ids))
        ids = ()
        for _ in range(90):
            now = kind == 2 and torch.rand(1) < 0.2
            pool = odd if kind == 1 and odd else special if now else range(lm.vocab_size)
            ids = (*ids, pool[int(torch.randint(len(pool), (1,), generator=generator))])
            assert texts(ids) == lm.decode(ids), ids
        if kind == 0:
            assert sum(calls) < 90 * 3 * BLOCK  # 4,095 if all were decoded each time


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(["{", "}", "[", "]", '"', "\\", ",", ":", "a", "1", "-", "true", " ", "\n", "'", ";", "(",
                              ")", '"""', ". "]), max_size=20))  # fmt: skip
def test_boundaries_go_on_where_they_stopped(pieces):
    texts = Texts(lambda ids: "".join(pieces[i] for i in ids))
    for boundary in (every_line, every_clause, every_statement, every_json_value, at_end):
        for n in range(1, len(pieces) + 1):
            assert texts.cut(tuple(range(n)), boundary) == boundary("".join(pieces[:n]))


def test_what_one_prompt_needs_does_not_change_the_draws_of_another():
    """A potential that reads the HMM, beside a prompt whose proposal knows nothing of the budget."""
    fa = tt.Automaton.from_edges([(0, [0, 1], 0), (0, 2, 1), (1, 2, 1)], 0, [1], 3, eos_token_id=2)
    hmm = tt.HMM.random(2, 3, seed=0, dtype=torch.float64)
    lm = tt.CircuitLM(hmm, eos_token_id=2)
    proposal = MaskedAWRSProposal()
    settings = {"particles": 20, "max_new_tokens": 1, "ess_threshold": 0.0}
    alone = tt.smc(lm, [], fa, proposal, hmm, seed=0, potential=None, **settings)
    together = tt.smc(
        lm,
        prompts=[[], []],
        fa=fa,
        proposal=proposal,
        hmm=[hmm, hmm],
        potential=[None, sampling.LookaheadPotential(0.5)],
        seed=0,
        **settings,
    )[0]
    assert together.token_ids == alone.token_ids
    assert together.log_weights.tolist() == alone.log_weights.tolist()
    assert len(set(alone.token_ids)) > 1  # some particles outgrow the budget: the draws know nothing of it
