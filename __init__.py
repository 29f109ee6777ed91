"""Tractile: probabilistic circuits, made so that language models can be conditioned, not just masked."""

from __future__ import annotations

import warnings
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from . import circuits, constraints, decoding, embedded, errors, inference, layers, lm
from .circuits import HMM, Automaton, Circuit, load, multiply, save
from .constraints import Vocabulary, explain
from .decoding import ConstraintLogitsProcessor, Engine, canvas, generate, mode
from .errors import TractileError
from .inference import (
    NextToken,
    conditional,
    count,
    entropy,
    filter,
    gcd,
    lcd,
    log_marginal,
    mpe,
    partition,
    pgcd,
    sample,
    smooth,
    support,
    viterbi,
)
from .inference.smc import smc
from .lm import CircuitLM, TransformersLM

try:
    __version__ = version("tractile")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0"

__all__ = [
    "Automaton",
    "Circuit",
    "CircuitLM",
    "ConstraintLogitsProcessor",
    "Engine",
    "HMM",
    "NextToken",
    "TractileError",
    "TransformersLM",
    "Vocabulary",
    "canvas",
    "circuits",
    "conditional",
    "constraints",
    "count",
    "decoding",
    "embedded",
    "entropy",
    "errors",
    "explain",
    "filter",
    "gcd",
    "generate",
    "inference",
    "layers",
    "lcd",
    "lm",
    "load",
    "log_marginal",
    "mode",
    "mpe",
    "multiply",
    "partition",
    "pgcd",
    "sample",
    "save",
    "smc",
    "smooth",
    "support",
    "viterbi",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Return a public name of a subpackage, and warn with its full name (``tractile.x`` is ``tractile.lm.x``)."""
        for package in (circuits, inference, inference.smc, constraints, lm, decoding, errors):
            if name[0] != "_" and name in package.__all__:
                warnings.warn(
                    f"tractile.{name} is {package.__name__}.{name}", DeprecationWarning, stacklevel=2
                )
                return getattr(package, name)
        raise AttributeError(f"module 'tractile' has no attribute {name!r}")
