"""Which rules of a grammar have texts deeper than its automaton goes.

    L(k) = F(L(k − 1)),  L(−1) = ∅        the texts of the rules that are called one level deeper, by depth

Where L(k) = L(k − 1), deeper calls than k add nothing: ``s: s s | "a"`` is ``a+`` from depth 1 on.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import TooManyStates
from .dfa import difference
from .grammar_rules import Compiler
from .narrowing import Narrowing
from .work import limited_to

MOST_STATES = 1_000
"""States of automata that are compared with those one level deeper; larger ones are taken to lack texts."""
MOST_WORK = 100_000
"""Units of work that the comparison of two automata may take."""


def too_deep(compiler: Compiler) -> tuple[Narrowing, ...]:
    """A narrowing for each rule that was called deeper than the automaton goes, where texts are missing. Rules that were made
    for repeats are named only where there is no other."""
    depth, found = compiler.max_depth, []
    for component in sorted({compiler.component[name] for name in compiler.ended}):
        ended = sorted(name for name in compiler.ended if compiler.component[name] == component)
        if not is_complete(compiler, ended, component):
            found += [name for name in ended if not name.startswith("__")] or ended
    given = f"itself at most {depth} {'level' if depth == 1 else 'levels'} deep"
    why = "no regular language nests without a bound; max_depth sets it"
    return tuple(Narrowing(name, "max_depth", "itself at any depth", given, why) for name in found)


def is_complete(compiler: Compiler, ended: Sequence[str], component: int) -> bool:
    """Whether deeper calls of the rules of a component add no text. Says no where that is much work to know."""
    depth = compiler.max_depth
    if depth > 1 and all(is_same(compiler, name, depth - 1) for name in ended):  # known already
        return True
    known = {name for name, _ in compiler.memo if compiler.component[name] == component}
    return all(is_same(compiler, name, depth + 1) for name in sorted(known))


def is_same(compiler: Compiler, name: str, depth: int) -> bool:
    """Whether a rule has the same texts at a depth as one level above it."""
    try:
        with limited_to(MOST_WORK):
            less = compiler.rule(name, depth - 1)
            if less.num_states > MOST_STATES:
                return False
            deeper = compiler.rule(name, depth)
            return deeper.num_states <= 4 * MOST_STATES and difference(deeper, less).is_empty
    except TooManyStates:
        return False
