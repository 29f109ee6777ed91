"""The named methods: each has the target that it is said to have, by enumeration (two-sided error probability 1e-5)."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from smc_reference import (
    CASES,
    ENDED,
    EOS,
    EXACT,
    HMM,
    LIMIT,
    Fsa,
    N,
    V,
    against_enumeration,
    as_automaton,
    enumerate_target,
    hmm_next,
    padded,
    sequence_log_prob,
)

import tractile as tt
from tractile.inference.smc import PRESETS, FunctionPotential
from tractile.inference.smc.query_cache import guided


def phi(text):
    return 0.5 + (2.7 * len(text)) % 2.3


def psi(x):
    return phi("".join(("a, ", "b\n", "c")[t] for t in x))


LM, FSA = CASES["exact"]
TRUTH = enumerate_target(LM, FSA, N)


def local_product():
    """{x: ℓ(x)}: the locally constrained distribution, where no path dies but by the budget."""
    found = {}
    for x in itertools.product(range(V), repeat=N):
        p = 1.0
        for t in range(N):
            LM.start([list(x[:t])])
            q = LM.log_probs()[0].exp()
            allowed = torch.tensor([FSA.survives(FSA.states((*x[:t], v))) for v in range(V)])
            p *= float(q[x[t]] * allowed[x[t]] / (q * allowed).sum())
        if FSA.accepts(x):
            found[x] = p
    return found


def targets():
    everything = {x: math.exp(sequence_log_prob(LM, x)) for x in itertools.product(range(V), repeat=N)}
    local = local_product()
    return {
        "base-lm": everything,
        "lcd": local,
        "grammar-only-is": TRUTH,
        "grammar-only-smc": TRUTH,
        "sample-rerank": {x: p * psi(x) for x, p in local.items()},
        "full-is": {x: p * psi(x) for x, p in TRUTH.items()},
        "full-smc": {x: p * psi(x) for x, p in TRUTH.items()},
        "rejection": TRUTH,
        "smc-steering": {x: p * psi(x) for x, p in TRUTH.items()},
    }


@pytest.mark.parametrize("name", PRESETS)
def test_each_has_its_target(name):
    fa, potential = as_automaton(FSA), FunctionPotential(phi)
    preset = PRESETS[name]

    def run(seed):
        return preset.run(LM, [], fa, potential, particles=8, max_new_tokens=N, seed=seed)

    z = against_enumeration(run, targets()[name])
    assert bool((z.abs() < LIMIT).all()), z


def test_the_local_product_is_not_the_target():
    """The bias that weights undo is large enough for the test to see."""
    fa = as_automaton(FSA)

    def run(seed):
        return PRESETS["lcd"].run(LM, [], fa, particles=8, max_new_tokens=N, seed=seed)

    assert float(against_enumeration(run, TRUTH).abs().max()) > LIMIT


def test_settings_can_be_changed():
    fa, potential = as_automaton(FSA), FunctionPotential(phi)
    preset = replace(PRESETS["full-smc"], proposal="pgcd", resampling="residual")

    def run(seed):
        return preset.run(LM, [], fa, potential, HMM, 8, N, seed)

    z = against_enumeration(run, {x: p * psi(x) for x, p in TRUTH.items()})
    assert bool((z.abs() < LIMIT).all()), z


def test_steering_keeps_different_prefixes_and_ends_with_at_least_its_number():
    lm, fsa = CASES["ended"]
    post = PRESETS["smc-steering"].run(lm, [], as_automaton(fsa), FunctionPotential(phi), None, 5, N, 0)
    assert len(post.particles) >= 5
    assert all(fsa.accepts(padded(p.token_ids, N, EOS)) for p in post.accepted)
    assert post.resampled


def test_rerank_and_is_ask_the_potential_at_the_end_only():
    for name in ("sample-rerank", "full-is"):
        calls = []
        potential = FunctionPotential(lambda text, calls=calls: calls.append(text) or 1.0)
        post = PRESETS[name].run(LM, [], as_automaton(FSA), potential, particles=8, max_new_tokens=N)
        assert set(calls) == {p.text for p in post.accepted}


def test_a_missing_potential_is_an_error():
    with pytest.raises(tt.errors.EvidenceError, match="potential"):
        PRESETS["full-is"].run(LM, [], as_automaton(FSA), max_new_tokens=N)


def test_uncorrected_weights_are_zero_or_one():
    post = PRESETS["lcd"].run(LM, [], as_automaton(FSA), particles=40, max_new_tokens=N)
    assert set(post.log_weights.exp().tolist()) <= {0.0, 1.0}
    with pytest.raises(tt.errors.EvidenceError, match="unknown proposal"):
        replace(PRESETS["lcd"], proposal="best").run(LM, [], as_automaton(FSA), max_new_tokens=N)


def test_no_constraint_is_the_language_model():
    lm, _ = CASES["ended"]
    post = tt.smc(lm, [], None, "lm", particles=300, max_new_tokens=N, seed=1)
    assert torch.equal(post.log_weights, torch.zeros(300, dtype=torch.float64))
    first = sum(ids[0] == EOS for ids in post.token_ids) / 300
    p = math.exp(sequence_log_prob(lm, (EOS,)))
    assert first == pytest.approx(p, abs=4.42 * math.sqrt(p * (1 - p) / 300))


# The sweep behind pgcd is made once


def test_the_guiding_query_is_kept_with_its_automaton():
    fa = as_automaton(ENDED)
    first = guided(HMM, fa, N).start(2)
    again = guided(HMM, fa, N).start(1)
    assert first.guide._tables is again.guide._tables
    first.advance(torch.tensor([0, 1]))
    again.advance(torch.tensor([1]))
    assert first.lookahead().shape == (2, V)  # their rows are their own
    torch.testing.assert_close(first.lookahead()[1], again.lookahead()[0])
    assert guided(HMM, fa, N + 1).guide._tables is not first.guide._tables
    assert guided(HMM, as_automaton(EXACT), N).guide._tables is not first.guide._tables


def test_a_changed_hmm_is_not_taken_for_the_one_before():
    hmm = tt.HMM.random(3, V, seed=1, dtype=torch.float64)
    fa = as_automaton(Fsa([(0, [0, 2], 0), (0, 1, 1), (1, [0, 1, 2], 1)], 0, [1], V))
    before = guided(hmm, fa, 2).start(1).lookahead()[0, 0]
    hmm.emission_probs.copy_(tt.HMM.random(3, V, seed=2, dtype=torch.float64).emission_probs)
    after = guided(hmm, fa, 2).start(1).lookahead()[0, 0]
    assert float(after.exp()) == pytest.approx(hmm_next(hmm, (0,))[1])
    assert abs(float(after - before)) > 1e-3


def test_the_documented_table_is_the_presets():
    page = (Path(__file__).resolve().parent.parent / "docs/howto/smc.md").read_text(encoding="utf-8")
    header, _, *rows = [line for line in page.partition("| preset |")[2].splitlines() if line][
        : 2 + len(PRESETS)
    ]
    fields = [name.strip() for name in header.strip("| ").split("|")]
    for line, (name, preset) in zip(rows, PRESETS.items(), strict=True):
        shown = [{True: "yes", False: "no"}.get(v, str(v)) if isinstance(v, bool) else str(v) for v in
                 (getattr(preset, field) for field in fields)]  # fmt: skip
        assert [cell.strip() for cell in line.strip("| ").split("|")] == [name, *shown]


def test_particles_wait_where_they_are_resampled():
    fa, psi = as_automaton(FSA), FunctionPotential(phi, tt.inference.smc.every_line)
    given = {"particles": 8, "max_new_tokens": N, "seed": 3}
    waits = PRESETS["full-smc"].run(LM, [], fa, psi, align=tt.inference.smc.every_line, **given)
    expected = tt.smc(
        LM,
        [],
        fa,
        "lcd",
        potential=psi,
        align=tt.inference.smc.every_line,
        resampling="multinomial",
        ess_threshold=0.9,
        **given,
    )
    assert waits.to_dict() == expected.to_dict()
    for name in ("full-is", "smc-steering"):  # never resampled; split
        alone, asked = (
            PRESETS[name].run(LM, [], fa, psi, align=align, **given)
            for align in (None, tt.inference.smc.every_line)
        )
        assert alone.to_dict() == asked.to_dict()
