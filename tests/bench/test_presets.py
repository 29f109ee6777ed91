"""The named methods: each has the target that it is said to have, by enumeration (two-sided error probability 1e-5)."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from smc_reference import (
    CASES,
    EOS,
    HMM,
    LIMIT,
    N,
    V,
    against_enumeration,
    as_automaton,
    enumerate_target,
    padded,
    sequence_log_prob,
)

import tractile as tt
from tractile.inference.smc import FunctionPotential
from tractile_bench.presets import PRESETS


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
        "base-lm": everything, "lcd": local, "grammar-only-is": TRUTH, "grammar-only-smc": TRUTH,
        "sample-rerank": {x: p * psi(x) for x, p in local.items()}, "full-is": {x: p * psi(x) for x, p in TRUTH.items()},
        "full-smc": {x: p * psi(x) for x, p in TRUTH.items()}, "rejection": TRUTH,
        "smc-steering": {x: p * psi(x) for x, p in TRUTH.items()},
    }  # fmt: skip


@pytest.mark.parametrize("name", PRESETS)
def test_each_has_its_target(name):
    fa, potential = as_automaton(FSA), FunctionPotential(phi)
    preset = PRESETS[name]

    def run(seed):
        return preset.run(LM, [], fa, potential, particles=8, max_new_tokens=N, seed=seed)

    z = against_enumeration(run, targets()[name])
    assert bool((z.abs() < LIMIT).all()), z


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


def test_the_documented_table_is_the_presets():
    page = (Path(__file__).resolve().parents[2] / "bench/docs/running.md").read_text(encoding="utf-8")
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


@pytest.mark.parametrize("name", PRESETS)
def test_those_that_weigh_by_a_potential_want_one(name):
    preset = PRESETS[name]
    if preset.potential:
        with pytest.raises(tt.errors.EvidenceError, match="weighs sequences by a potential: give potential="):
            preset.run(LM, [], as_automaton(FSA), particles=4, max_new_tokens=N)
    else:
        assert len(preset.run(LM, [], as_automaton(FSA), particles=4, max_new_tokens=N).texts) == 4
