"""Programs as finite automata over bytes: exactly, or texts whose rules nest no deeper than a bound."""

from __future__ import annotations

import numpy as np

from ...errors import TooManyStates, UnsupportedConstraint
from ..automata.epsilon import NO_EPSILONS
from ..automata.nfa import Nfa
from ..program.node import Node
from .steps import Configuration, Steps


def finite(node: Node, most_states: int) -> Nfa:
    """Return the deterministic automaton of a program's texts.

    Raises ``TooManyStates`` beyond ``most_states`` states, ``UnsupportedConstraint`` if parts have budgets of tokens.
    """
    steps = Steps(node)
    if steps.has_budgets:
        raise UnsupportedConstraint("a part with a budget of tokens has no texts without a vocabulary")
    return _explored(steps, most_states, None)


def bounded(node: Node, most_states: int, depth: int) -> Nfa:
    """Return an automaton of those texts of a program that can be read with at most ``depth`` frames on a stack.

    Raises as :func:`finite`.
    """
    steps = Steps(node)
    if steps.has_budgets:
        raise UnsupportedConstraint("a part with a budget of tokens has no texts without a vocabulary")
    return _explored(steps, most_states, depth).plain


def _explored(steps: Steps, most_states: int, depth: int | None) -> Nfa:
    """Write out configurations, those whose stacks are all deeper than ``depth`` left out."""
    edges: list[tuple[int, int, int, int]] = []
    place = {steps.start: 0} if steps.start >= 0 else {}
    order = list(place)
    for state in order:
        for low, high, target in steps.moves(state):
            if depth is not None and _depth(steps.configurations[target]) > depth:
                continue
            if target not in place:
                if len(order) == most_states:
                    raise TooManyStates(f"the program has more than {most_states} states", limit=most_states)
                place[target] = len(order)
                order.append(target)
            edges.append((place[state], low, high, place[target]))
    return Nfa(
        max(len(order), 1),
        np.array(edges, np.int64).reshape(-1, 4),
        NO_EPSILONS,
        np.arange(min(len(order), 1)),
        np.array([place[state] for state in order if steps.accepting(state)], np.int64),
    )


def _depth(configuration: Configuration) -> int:
    """Return the frames of the smallest stack."""
    found: list[int] = []
    for stack, _ in configuration:
        frames = 0
        while stack is not None:
            frames, stack = frames + 1, stack.below
        found.append(frames)
    return min(found)
