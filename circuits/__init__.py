"""Circuits: graphs of layers; chains, hidden Markov models, automata and their products."""

from . import builders
from .automaton import Automaton
from .chain import Chain
from .circuit import Circuit
from .hmm import HMM
from .intersection import intersect
from .io.draw import to_dot, to_svg
from .io.hmmlearn import from_hmmlearn, to_hmmlearn
from .io.serialize import load, save
from .operations import is_compatible, marginalise, mixture, multiply
from .properties import (
    is_decomposable,
    is_omni_compatible,
    is_smooth,
    is_structured_decomposable,
)

__all__ = [
    "HMM",
    "Automaton",
    "Chain",
    "Circuit",
    "builders",
    "from_hmmlearn",
    "intersect",
    "is_compatible",
    "is_decomposable",
    "is_omni_compatible",
    "is_smooth",
    "is_structured_decomposable",
    "load",
    "marginalise",
    "mixture",
    "multiply",
    "save",
    "to_dot",
    "to_hmmlearn",
    "to_svg",
]
