"""Read what a request to a serving engine asks for: a constraint with its options, a budget, and the weight of the HMM."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from .. import constraints
from ..circuits.automaton import Automaton
from ..constraints import Constraint, Limits, Vocabulary
from ..constraints.cache import store
from ..constraints.narrowing import report
from ..errors import ConstructionStopped, TooManyStates, TractileError, UnsupportedConstraint
from .constrained_rows import check_weights

T = TypeVar("T")
ARGUMENT = "tractile"
KINDS: dict[str, Any] = {
    "regex": constraints.regex,
    "json_schema": constraints.json_schema,
    "keywords": constraints.keywords,
    "choice": lambda texts: constraints.any_of(*texts),
    "grammar": lambda text, **options: constraints.grammar(
        f"{text}\n", **{"syntax": "gbnf" if "::=" in text else "lark"} | options
    ),  # never the path of a file
    "tools": constraints.function_calls,
    "structural_tag": constraints.structural_tag,
}
TYPES: dict[str, type | tuple[type, ...]] = {
    "regex": str,
    "json_schema": (dict, bool),
    "keywords": list,
    "choice": list,
    "grammar": str,
    "tools": list,
    "structural_tag": (dict, str),
}


CUTS = {"max_depth": ("max_depth",), "max_length": ("maxLength", "maxItems")}
"""By option the keywords of what it cuts, which is asked for and no reason to warn."""


@dataclass(frozen=True)
class ConstraintRequest:
    """The validated constraint of a request.

    ``constraint``: JSON text ``[kind, description, options]``; ``budget``: tokens, end-of-sequence included; ``strength`` and
    ``mixture``: weights of the HMM as in :mod:`.constrained_rows`; ``hmm``: whether the HMM is used.
    """

    constraint: str
    budget: int
    strength: float
    mixture: float | None
    hmm: bool


def read_request(params: Any) -> ConstraintRequest | None:
    """Read the constraint in a request's sampling parameters (``extra_args["tractile"]``); None if there is none.

    Raises :class:`UnsupportedConstraint` for an invalid argument and for parameters that cannot be combined with a constraint,
    :class:`EvidenceError` for weights out of range.
    """
    given = (getattr(params, "extra_args", None) or {}).get(ARGUMENT)
    if given is None:
        return None
    try:
        asked = dict(json.loads(given) if isinstance(given, str) else given)
    except (TypeError, ValueError) as error:
        raise UnsupportedConstraint(f"{ARGUMENT} is not an object: {error}", path="extra_args") from None
    kinds = [kind for kind in KINDS if kind in asked]
    known = {*KINDS, "options", "max_new_tokens", "strength", "mixture", "hmm"}
    if len(kinds) != 1 or not asked.keys() <= known:
        raise UnsupportedConstraint(
            f"{ARGUMENT} should have one of {', '.join(KINDS)}, not {sorted(asked)}", path="extra_args"
        )
    for unlike in ("min_tokens", "structured_outputs", "guided_decoding"):
        if getattr(params, unlike, None):
            raise UnsupportedConstraint(f"{unlike} cannot go with {ARGUMENT}", path=unlike)
    limit, budget = getattr(params, "max_tokens", None), asked.get("max_new_tokens")
    budget = limit if budget is None else budget
    if not isinstance(budget, int) or budget < 1 or (limit is not None and budget > limit):
        raise UnsupportedConstraint(
            f"the budget must be a number of tokens, at most max_tokens = {limit}, not {budget}",
            path="max_new_tokens",
        )
    strength, mixture = asked.get("strength", 1.0), asked.get("mixture")
    if not isinstance(strength, int | float) or not isinstance(mixture, int | float | None):
        raise UnsupportedConstraint(
            f"strength and mixture are numbers, not {strength!r}, {mixture!r}", path="extra_args"
        )
    check_weights(strength, mixture)
    constraint = json.dumps([kinds[0], asked[kinds[0]], asked.get("options") or {}])
    return ConstraintRequest(constraint, budget, float(strength), mixture, bool(asked.get("hmm", True)))


def build_constraint(kind: str, description: Any, options: dict[str, Any]) -> Constraint:
    """Build a constraint of a kind; raises :class:`UnsupportedConstraint` for an invalid description or options."""
    if not isinstance(description, TYPES[kind]) or not isinstance(options, dict):
        raise UnsupportedConstraint(f"{description!r} with {options!r} describes no {kind}", path=kind)
    try:
        built: Constraint = KINDS[kind](description, **options)
        return built
    except TractileError:
        raise
    except TypeError as error:
        raise UnsupportedConstraint(str(error), path=kind) from None


def compile_request(constraint: str, vocab: Vocabulary, limits: Limits) -> Automaton:
    """Build and compile the constraint of a request, within the limits of the server; return its automaton.

    ``constraint`` is JSON text as in :class:`ConstraintRequest`. Raises what :func:`build_constraint` and ``compile`` raise, and
    :class:`UnsupportedConstraint` if the limits do not suffice: engines refuse a request that raises a ``ValueError``.
    """
    limits.check_size(constraint)
    return within(limits, lambda: _kept(constraint).compile(vocab, cache=True))


def _kept(constraint: str) -> Constraint:
    """Return the constraint of a request, from the disk cache if another process or request has made it."""
    kind, description, options = json.loads(constraint)
    if kind == "keywords" or "%import" in constraint:  # a dictionary and files may change meanwhile
        return build_constraint(kind, description, options)
    name = store.digest([store.code(), constraint.encode()])
    if (arrays := store.read("constraint", name)) is None:
        made = build_constraint(kind, description, options)
        store.write("constraint", name, {"constraint": np.frombuffer(made.to_bytes(), np.uint8)})
        return made
    found = Constraint.from_bytes(arrays["constraint"].tobytes())
    chosen = {keyword for option, keywords in CUTS.items() if option in options for keyword in keywords}
    report(found.narrowed, options.get("on_narrowed", "warn"), chosen)
    return found


def within(limits: Limits, make: Callable[[], T]) -> T:
    """Return what ``make`` returns within limits; raise :class:`UnsupportedConstraint` if they do not suffice."""
    try:
        return limits.run(make)
    except (TooManyStates, ConstructionStopped) as error:
        raise UnsupportedConstraint(str(error)) from error
