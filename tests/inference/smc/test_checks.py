"""Proposals that ask a black box: the order of their questions, and samplers that use them, against enumeration."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch
from kernel_reference import no_double, whole
from scripted_draws import ScriptedRow
from smc_reference import CASES, Letters, N, as_automaton

import tractile as tt
from tractile.inference.smc import AWRSProposal, CharacterProposal, GCDProposal
from tractile.inference.smc.awrs import Row, first_accepted, recursive


def by_recursion(row, accepts):
    """What AWRS draws if ``accepts`` answers."""
    asking, answer = recursive(row), None
    try:
        while True:
            answer = accepts(asking.send(answer))
    except StopIteration as stop:
        return stop.value


def test_awrs_in_the_order_of_times_is_awrs():
    """Each row as the proposal that asks would draw it, if what it picks were what comes first."""
    rng = np.random.default_rng(0)
    for trial in range(300):
        q = rng.dirichlet(np.full(6, 0.5)) * (rng.random(6) < 0.8)
        if not q.sum():
            continue
        q, allowed = q / q.sum(), rng.random(6) < [0.0, 0.2, 0.5, 1.0][trial % 4]
        times = np.where(q > 0, rng.exponential(size=6) / np.where(q > 0, q, 1), np.inf)

        def pick(weights, times=times):
            return int(np.where(weights > 0, times, np.inf).argmin())

        expected = by_recursion(ScriptedRow(q, (), pick), lambda token, allowed=allowed: bool(allowed[token]))
        token, weight = first_accepted(*(torch.tensor(x)[None] for x in (times, q, allowed)))
        assert float(weight) == pytest.approx(expected[1], rel=1e-9, abs=1e-12)
        assert expected[1] == 0 or int(token) == expected[0]


@pytest.mark.parametrize("first", [0.1, 0.5, 0.9995, 1 - 1e-9])
def test_draws_without_replacement(first):
    """By rejection from all, and directly where little is left: the same distribution of the first three tokens."""
    q = np.array([first, 0.0, *((1 - first) * np.array([0.5, 0.3, 0.0, 0.2]))])
    generator, runs = torch.Generator().manual_seed(0), 4000
    found, expected = Counter(), Counter()
    for _ in range(runs):
        left, drawn = Row(q, (), generator), []
        for _ in range(3):
            assert left.mass == pytest.approx(q.sum() - q[drawn].sum(), rel=1e-9)
            drawn.append(left.draw())
            left.remove(drawn[-1])
        assert not left.empty
        for token in set(np.flatnonzero(q).tolist()) - set(drawn):
            left.remove(token)
        assert left.empty
        found[tuple(drawn)] += 1
    for order in itertools.permutations(np.flatnonzero(q).tolist(), 3):
        gone = np.cumsum([0.0, *q[list(order)]])[:3]
        total = [
            q.sum() - g if g < 0.5 else q[[t for t in range(len(q)) if t not in order[:i]]].sum()
            for i, g in enumerate(gone)
        ]
        expected[order] = math.prod(q[t] / m for t, m in zip(order, total, strict=True))
    assert sum(expected.values()) == pytest.approx(1.0)
    for order, p in expected.items():
        assert abs(found[order] / runs - p) <= 4.9 * math.sqrt(p * (1 - p) / runs) + 1e-9


# As samplers, with everything else around them


def test_without_an_automaton():
    """A black box is the whole constraint."""
    lm, _ = CASES["ended"]
    post = tt.smc(lm, [], None, AWRSProposal(no_double, whole), particles=50, max_new_tokens=N, seed=0)
    assert post.accepted
    assert all(whole(p.text) for p in post.accepted)


def test_awrs_asks_about_few_tokens():
    asked = []
    lm = tt.lm.TableLM({(): torch.full((2000,), 1 / 2000, dtype=torch.float64).log()})
    check = AWRSProposal(lambda tokens: asked.append(tokens) or tokens[-1] % 2 == 0, tokens=True)
    post = tt.smc(lm, [], None, check, particles=8, max_new_tokens=4)
    assert not post.failed
    assert len(asked) < 8 * 4 * 10


def test_failures_and_bad_settings():
    lm, fsa = CASES["exact"]

    def run(proposal):
        return tt.smc(lm, [], as_automaton(fsa), proposal, particles=2, max_new_tokens=N)

    with pytest.raises(tt.errors.PotentialError, match="'<lambda>' raised ZeroDivisionError"):
        run(AWRSProposal(lambda text: 1 / 0))
    with pytest.raises(tt.errors.PotentialError, match="'<lambda>' raised ZeroDivisionError"):
        run(AWRSProposal(lambda texts: [1 / 0], batched=True))
    with pytest.raises(tt.errors.PotentialError, match=r"returned \d values for"):
        run(AWRSProposal(lambda texts: [1] * (len(texts) + 1), batched=True))
    with pytest.raises(tt.errors.PotentialError, match="not between 0 and 1"):
        run(AWRSProposal(lambda text: 2))
    with pytest.raises(tt.errors.EvidenceError, match="yes or no"):
        run(AWRSProposal(lambda text: 0.5))
    with pytest.raises(tt.errors.EvidenceError, match="257"):
        run(CharacterProposal(Letters(), lambda text: [1.0]))
    for bad in (lambda: AWRSProposal(whole, max_rejects=0), lambda: GCDProposal(temperature=0)):
        with pytest.raises(tt.errors.EvidenceError):
            bad()
