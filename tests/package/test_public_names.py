"""The names at the root, and the short names of those in the packages."""

import inspect

import pytest

import tractile as tt
import tractile.distill

PACKAGES = (tt.circuits, tt.inference, tt.inference.smc, tt.constraints, tt.lm, tt.decoding, tt.errors)


def test_the_root_has_what_it_lists():
    assert len(tt.__all__) == len(set(tt.__all__)) <= 41
    assert all(hasattr(tt, name) for name in tt.__all__)


def test_the_promised_names_are_at_the_root():
    """Those of the section "The public face" of the architecture; none is renamed."""
    promised = """Automaton CircuitLM ConstraintLogitsProcessor HMM NextToken TractileError TransformersLM Vocabulary
        conditional constraints count entropy gcd generate lcd load log_marginal mpe multiply partition pgcd sample save smc
        support"""
    assert set(promised.split()) <= set(tt.__all__)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_short_name_warns_with_the_full_one(package):
    short = set(package.__all__) - vars(tt).keys()
    assert short
    for name in short:
        with pytest.warns(DeprecationWarning, match=rf"^tractile\.{name} is tractile\.[\w.]+\.{name}$"):
            assert getattr(tt, name) is getattr(package, name)


@pytest.mark.parametrize("name", ["_private", "no_such_name"])
def test_what_no_package_makes_public_is_no_name(name):
    with pytest.raises(AttributeError, match=f"module 'tractile' has no attribute '{name}'"):
        getattr(tt, name)


@pytest.mark.parametrize("package", [tt, *PACKAGES], ids=lambda package: package.__name__)
def test_help_of_a_public_name_is_about_it(package):
    """Not that of ``dict``, ``tuple``, …; aliases of types have none."""
    for name in set(package.__all__) - {"__version__", "Boundary"}:
        value = getattr(package, name)
        said = inspect.getdoc(value)
        assert said, name
        assert isinstance(value, type) or said not in (
            inspect.getdoc(kind) for kind in (dict, list, tuple, set)
        ), name


ROOMS = (*PACKAGES, tt.circuits.builders, tt.layers, tractile.distill, tt.embedded)


@pytest.mark.parametrize("room", [tt, *ROOMS], ids=lambda room: room.__name__)
def test_every_public_method_is_described(room):
    """Methods of next-token queries are described by their protocol."""
    for name in room.__all__:
        value = getattr(room, name)
        for member, own in inspect.getmembers(value) if isinstance(value, type) else ():
            by = getattr(own, "__module__", None) or getattr(getattr(own, "fget", None), "__module__", "")
            if member[0] != "_" and (by or "").startswith("tractile") and not isinstance(own, type):
                assert inspect.getdoc(own) or hasattr(tt.inference.NextTokenQuery, member), f"{name}.{member}"
