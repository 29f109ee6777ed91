"""The named methods: the targets of those that weigh, by enumeration (error probability 1e-5); the weights of the others."""

import math
from pathlib import Path

import pytest
from smc_reference import (
    CASES,
    EOS,
    LIMIT,
    N,
    against_enumeration,
    as_automaton,
    enumerate_target,
    padded,
    spelled,
)

import tractile as tt
from tractile.inference.smc import FunctionPotential, every_line
from tractile_bench.presets import PRESETS


def phi(text):
    return 0.5 + (2.7 * len(text)) % 2.3


LM, FSA = CASES["exact"]
FA, POTENTIAL = as_automaton(FSA), FunctionPotential(phi)
TRUTH = enumerate_target(LM, FSA, N)
GIVEN = {"particles": 8, "max_new_tokens": N}
WEIGHED = [name for name, preset in PRESETS.items() if preset.corrected]


@pytest.mark.parametrize("name", WEIGHED)
def test_each_that_weighs_has_its_target(name):
    preset = PRESETS[name]
    target = {x: p * phi(spelled(x, "exact")) if preset.potential else p for x, p in TRUTH.items()}
    z = against_enumeration(lambda seed: preset.run(LM, [], FA, POTENTIAL, seed=seed, **GIVEN), target)
    assert bool((z.abs() < LIMIT).all()), z


@pytest.mark.parametrize("name", sorted(PRESETS.keys() - WEIGHED))
def test_the_others_weigh_by_the_potential_alone_if_at_all(name):
    preset = PRESETS[name]
    found = preset.run(LM, [], FA, POTENTIAL, particles=40, max_new_tokens=N).accepted
    for particle in found:
        assert particle.log_weight == pytest.approx(math.log(phi(particle.text)) if preset.potential else 0.0)
    assert all(FSA.accepts(particle.token_ids) for particle in found) == preset.constrained


def test_steering_keeps_different_prefixes_and_ends_with_at_least_its_number():
    lm, fsa = CASES["ended"]
    post = PRESETS["smc-steering"].run(lm, [], as_automaton(fsa), POTENTIAL, None, 5, N, 0)
    assert len(post.particles) >= 5
    assert all(fsa.accepts(padded(p.token_ids, N, EOS)) for p in post.accepted)
    assert post.resampled


@pytest.mark.parametrize("name", ["sample-rerank", "full-is"])
def test_without_resampling_the_potential_is_asked_at_the_end_only(name):
    calls = []
    potential = FunctionPotential(lambda text: calls.append(text) or 1.0)
    post = PRESETS[name].run(LM, [], FA, potential, **GIVEN)
    assert set(calls) == {p.text for p in post.accepted}


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if preset.potential])
def test_those_that_weigh_by_a_potential_want_one(name):
    with pytest.raises(tt.errors.EvidenceError, match="weighs sequences by a potential: give potential="):
        PRESETS[name].run(LM, [], FA, **GIVEN)


def test_the_documented_table_is_the_presets():
    page = (Path(__file__).resolve().parents[2] / "bench/docs/running.md").read_text(encoding="utf-8")
    lines = [line for line in page.partition("| preset |")[2].splitlines() if line]
    header, _, *rows = lines[: 2 + len(PRESETS)]
    fields = [name.strip() for name in header.strip("| ").split("|")]
    for line, (name, preset) in zip(rows, PRESETS.items(), strict=True):
        values = [getattr(preset, field) for field in fields]
        shown = [{True: "yes", False: "no"}[v] if isinstance(v, bool) else str(v) for v in values]
        assert [cell.strip() for cell in line.strip("| ").split("|")] == [name, *shown]


def test_particles_wait_where_they_are_resampled():
    given = {"seed": 3, **GIVEN}
    psi = FunctionPotential(phi, every_line)
    settings = {"resampling": "multinomial", "ess_threshold": 0.9}
    waits = PRESETS["full-smc"].run(LM, [], FA, psi, align=every_line, **given)
    expected = tt.smc(LM, [], FA, "lcd", potential=psi, align=every_line, **settings, **given)
    assert waits.to_dict() == expected.to_dict()
    for name in ("full-is", "smc-steering"):  # never resampled; split
        alone, asked = (
            PRESETS[name].run(LM, [], FA, psi, align=each, **given) for each in (None, every_line)
        )
        assert alone.to_dict() == asked.to_dict()
