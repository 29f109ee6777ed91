"""Tractile: probabilistic circuits, made so that language models can be conditioned, not just masked."""

from __future__ import annotations

import warnings
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from . import circuits, constraints, decoding, embedded, errors, inference, layers, lm
from .circuits import HMM, Automaton, Chain, Circuit, load, multiply, save
from .constraints import Constraint, Limits, Vocabulary, difference, function_calls, sections
from .constraints.grammar.constraint import grammar
from .constraints.sql.constraint import sql
from .decoding import ConstraintLogitsProcessor, beam_search, generate, speculative
from .errors import (
    BudgetTooSmall,
    EmptyLanguage,
    TooManyStates,
    TractileError,
    UnsupportedConstraint,
    VocabularyMismatch,
)
from .inference import (
    NextToken,
    conditional,
    count,
    em,
    entropy,
    gcd,
    lcd,
    log_marginal,
    marginals,
    mpe,
    partition,
    pgcd,
    sample,
    support,
)
from .inference.smc import Posterior, smc
from .lm import CircuitLM, LanguageModel, TableLM, TransformersLM

try:
    __version__ = version("tractile")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0"

__all__ = [
    "Automaton",
    "BudgetTooSmall",
    "Chain",
    "Circuit",
    "CircuitLM",
    "Constraint",
    "ConstraintLogitsProcessor",
    "EmptyLanguage",
    "HMM",
    "LanguageModel",
    "Limits",
    "NextToken",
    "Posterior",
    "TableLM",
    "TooManyStates",
    "TractileError",
    "TransformersLM",
    "UnsupportedConstraint",
    "Vocabulary",
    "VocabularyMismatch",
    "__version__",
    "beam_search",
    "circuits",
    "conditional",
    "constraints",
    "count",
    "decoding",
    "difference",
    "em",
    "embedded",
    "entropy",
    "errors",
    "function_calls",
    "gcd",
    "generate",
    "grammar",
    "inference",
    "layers",
    "lcd",
    "lm",
    "load",
    "log_marginal",
    "marginals",
    "mpe",
    "multiply",
    "partition",
    "pgcd",
    "sample",
    "save",
    "sections",
    "smc",
    "speculative",
    "sql",
    "support",
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
