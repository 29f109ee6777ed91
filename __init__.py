"""Tractile: probabilistic circuits, made so that language models can be conditioned, not just masked."""

from .circuits import HMM, Automaton, Chain, Circuit, multiply
from .errors import TractileError

__all__ = ["HMM", "Automaton", "Chain", "Circuit", "TractileError", "multiply"]
