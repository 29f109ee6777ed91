"""Circuits: graphs of layers; chains, hidden Markov models, automata and their products."""

from .automaton import Automaton
from .chain import Chain
from .circuit import Circuit
from .hmm import HMM
from .product import multiply
from .properties import (
    check_decomposable,
    check_smooth,
    is_compatible,
    is_decomposable,
    is_smooth,
    is_structured_decomposable,
)

__all__ = [
    "HMM",
    "Automaton",
    "Chain",
    "Circuit",
    "check_decomposable",
    "check_smooth",
    "is_compatible",
    "is_decomposable",
    "is_smooth",
    "is_structured_decomposable",
    "multiply",
]
