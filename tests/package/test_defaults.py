"""Defaults that people rely on: one name means one thing in every function, and a result does not change between versions."""

import inspect

import pytest

import tractile as tt
from tractile import circuits, constraints, decoding, inference, layers
from tractile.inference import smc

MODULES = (tt, inference, smc, layers, circuits, circuits.builders, constraints, decoding)
SAME = {
    "seed": 0, "particles": 16, "moves": 1, "temperature": 1.0, "strength": 1.0, "samples": 100,
    "chains": 4, "step": 1.0, "pseudocount": 0.0, "progress": False, "trace": False, "batched": False,
    "on_narrowed": "warn", "whitespace": "space", "ignore_case": False, "word_boundaries": True,
    "beams": 8, "beam_factor": 1, "burn_in": 20, "draft": 4, "thin": 1,
    "num_samples": 1, "processes": 0, "w": 0.5, "variable": 0,
    "paths": False, "joint": False, "zero_on_error": False, "twist": False, "log": False,
    "min_variance": 1e-6, "sharpness": 1.5, "epochs": 50, "budgeted": False,
}  # fmt: skip
DIFFERENT = {
    "tokens": {None: False}, "max_new_tokens": {None: 64}, "proposal": {"speculative": "gcd", None: "pgcd"},
    "ess_threshold": {None: 0.5}, "resampling": {None: "systematic"}, "tolerance": {"em": 1e-6, None: 0.0},
    "particles": {"denoise": 1, None: 16},
}  # fmt: skip


def defaults(name):
    """The functions and classes that have a parameter of some name with a plain value for its default."""
    found = {}
    for module in MODULES:
        for what in getattr(module, "__all__", ()):
            one = getattr(module, what)
            if callable(one) and not what.startswith("_"):
                try:
                    parameter = inspect.signature(one).parameters.get(name)
                except ValueError:
                    continue
                if parameter is not None and isinstance(parameter.default, int | float | str):
                    found[what] = parameter.default
    return found


@pytest.mark.parametrize("name", [*SAME, *DIFFERENT])
def test_a_parameter_has_one_default_wherever_it_is(name):
    found, expected = defaults(name), DIFFERENT.get(name, {None: SAME.get(name)})
    assert found
    for what, value in found.items():
        assert value == expected.get(what, expected[None]), what
        assert type(value) is type(expected.get(what, expected[None]))
