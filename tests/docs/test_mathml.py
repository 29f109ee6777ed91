"""Formulas of the documentation as MathML."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="the documentation's requirements are not installed")
pytest.importorskip("latex2mathml", reason="the documentation's requirements are not installed")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))

import mathml
from docutils import nodes


@pytest.mark.parametrize(
    ("latex", "parts"),
    [
        (r"p(x_{\le t} \mid C)", ["<msub>", "<mi>C</mi>"]),
        (r"\mathbb R^n", ["ℝ", "<msup>"]),
        (r"\frac{1}{N}\sum_i w_i", ["<mfrac>", "&#x02211;"]),
        (r"\log Z", ['<mi>log</mi><mspace width="0.17em"/>']),
    ],
)
@pytest.mark.parametrize("display", ["inline", "block"])
def test_a_formula_is_an_element(latex, parts, display):
    found = mathml.mathml(nodes.math(latex, latex), display)
    assert found.startswith("<math")
    assert f'display="{display}"' in found
    assert "\\" not in found
    for part in parts:
        assert part in found.replace("&#x0211D;", "ℝ").replace("&#x211D;", "ℝ")


def test_a_formula_that_is_not_understood_is_shown_as_it_is_written(monkeypatch):
    warned = []
    monkeypatch.setattr(mathml.log, "warning", lambda *args, **_: warned.append(args[1]))
    assert mathml.mathml(nodes.math("", r"\unheardof<x"), "inline") == r"<code>\unheardof&lt;x</code>"
    assert warned == [r"\unheardof<x"]
