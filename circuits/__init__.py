"""Circuits: graphs of layers; chains, hidden Markov models, automata and their products."""

from . import builders
from .automaton import Automaton
from .chain import Chain
from .circuit import Circuit
from .hmm import HMM
from .io.convert import from_hmmlearn, from_openfst, to_hmmlearn, to_openfst
from .io.draw import to_dot, to_svg
from .io.serialize import load, save
from .io.summary import summary
from .operations import condition, differentiate, marginalise, mixture, power, quotient
from .product import multiply
from .properties import (
    check_decomposable,
    check_deterministic,
    check_omni_compatible,
    check_smooth,
    check_structured_decomposable,
    is_compatible,
    is_decomposable,
    is_deterministic,
    is_omni_compatible,
    is_smooth,
    is_structured_decomposable,
)
from .weights import normalise, prune

__all__ = [
    "HMM",
    "Automaton",
    "Chain",
    "Circuit",
    "builders",
    "check_decomposable",
    "check_deterministic",
    "check_omni_compatible",
    "check_smooth",
    "check_structured_decomposable",
    "condition",
    "differentiate",
    "from_hmmlearn",
    "from_openfst",
    "is_compatible",
    "is_decomposable",
    "is_deterministic",
    "is_omni_compatible",
    "is_smooth",
    "is_structured_decomposable",
    "load",
    "marginalise",
    "mixture",
    "multiply",
    "normalise",
    "power",
    "prune",
    "quotient",
    "save",
    "summary",
    "to_dot",
    "to_hmmlearn",
    "to_openfst",
    "to_svg",
]
