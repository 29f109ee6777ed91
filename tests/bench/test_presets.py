"""The named methods: the targets of those that weigh, by enumeration (error probability 1e-5); the weights of the others."""

from pathlib import Path

import pytest
from smc_reference import (
    CASES,
    N,
    as_automaton,
)

import tractile as tt
from tractile.inference.smc import FunctionPotential, every_line
from tractile_bench.presets import PRESETS


def phi(text):
    return 0.5 + (2.7 * len(text)) % 2.3


LM, FSA = CASES["exact"]
FA = as_automaton(FSA)
GIVEN = {"particles": 8, "max_new_tokens": N}


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
