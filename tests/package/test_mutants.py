"""The mutants of .ci/mutants.py: what is changed, what is left alone, and that forks run the changed code."""

import ast
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".ci"))
from mutants import wilson
from mutations import KINDS, mutants, mutated

SOURCE = '''
"""A docstring."""
from typing import TYPE_CHECKING, cast

__all__ = ["area"]
if TYPE_CHECKING:
    WIDTH = 3


def area(width: int, height: int = 2, *, name: str = "box") -> int:
    """A docstring."""
    if width < 0 or not height:
        raise ValueError("negative")
    sides = dict(zip("ab", [width, -height], strict=True))
    sides["c"] = cast("int", round(1.5, ndigits=width))
    return width * height
'''


def kinds(source):
    return [(m.kind, m.before, m.after) for m in mutants("f.py", source)]


def test_every_kind_of_change_is_made_once():
    """Docstrings, annotations, texts of errors, `__all__`, types and zip's `strict=` are left alone."""
    assert kinds(SOURCE) == [
        ("constant", "2", "3"), ("constant", "'box'", "'boxXX'"),
        ("boolean", "width < 0 or not height", "width < 0 and (not height)"), ("comparison", "width < 0", "width <= 0"),
        ("constant", "0", "1"), ("boolean", "not height", "not not height"),
        ("statement", "raise ValueError('negative')", ""),
        ("argument", "zip('ab', [width, -height], strict=True)", "zip('ab', strict=True)"), ("constant", "'ab'", "'abXX'"),
        ("arithmetic", "-height", "+height"), ("statement", "sides['c'] = cast('int', round(1.5, ndigits=width))", ""),
        ("constant", "'c'", "'cXX'"), ("argument", "round(1.5, ndigits=width)", "round(1.5)"), ("constant", "1.5", "2.5"),
        ("return", "return width * height", "return None"), ("arithmetic", "width * height", "width / height"),
    ]  # fmt: skip
    assert {kind for kind, *_ in kinds(SOURCE)} == set(KINDS)


def test_a_mutant_is_the_file_with_its_one_change():
    original = ast.unparse(ast.parse(SOURCE)).splitlines()
    for mutant in mutants("f.py", SOURCE):
        changed = ast.unparse(mutated(SOURCE, mutant.number)).splitlines()
        differing = [(a, b) for a, b in zip(original, changed, strict=True) if a != b]
        assert len(differing) == 1, mutant


def test_operators_are_exchanged():
    changed = {
        before: after for _, before, after in kinds("x = a + b, a // b, a is b, a in b, a >= b, a | b, a @ b")
    }
    assert changed == {
        "a + b": "a - b", "a // b": "a / b", "a is b": "a is not b", "a in b": "a not in b", "a >= b": "a > b",
        "a | b": "a & b", "a @ b": "a * b",
    }  # fmt: skip


def test_code_outside_functions_is_told_apart():
    """It runs when a module is imported, so a function's new byte code does not reach it."""
    inside = {
        m.before: m.inside for m in mutants("f.py", "A = 1\nclass B:\n    c = 2\n    def d(self): return 3\n")
    }
    assert inside == {"1": False, "2": False, "return 3": True, "3": True}


@pytest.mark.parametrize(
    ("hits", "tries", "low", "high"), [(50, 100, 0.4038, 0.5962), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0)]
)
def test_the_interval_is_wilsons(hits, tries, low, high):
    """From Brown, Cai and DasGupta, Interval estimation for a binomial proportion, 2001, formula 4."""
    assert wilson(hits, tries) == pytest.approx((low, high), abs=1e-4)
