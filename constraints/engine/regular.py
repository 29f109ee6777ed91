"""The regular languages next to a program's: the largest known below it that fits, and a small one above it.

    bounded     at most the texts: depth, lengths and free orders are cut until the automaton fits, and each cut is said
    guiding     at least the texts: counts, members read and callers are forgotten until it fits

The first is what needs all states: ``&``, ``~``, counting, drawing. The second guides P-GCD.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from ...errors import TooManyStates, UnsupportedConstraint
from .. import limits
from ..automata import dfa, utf8
from ..automata.nfa import Nfa
from ..automata.work import attempt, limited
from ..limits import BOUNDS, GREATEST, LEAST, Bounds
from ..narrowing import Narrowing, merged
from ..program import nodes
from ..program.node import Kind, Node
from ..program.nodes import reachable
from ..program.prune import has_budgets, pruned
from ..program.rewrite import rebuilt, rewritten
from .expansion import expanded

MOST_PLACES = limits.STATES
"""States of the expansion within the narrowest bounds, before its automaton is made smaller."""
FORGOTTEN = ((3, 2), (3, 1), (1, 1), (1, 0))
"""What a guide keeps: the largest bound on a count, and the frames of callers."""
SMALLER = 10
"""How many times larger than asked for an expansion may be before it is made smaller."""

Cuts = dict[str, Narrowing]
Rules = dict[tuple[Node, int], Node]
WHOLE = (Kind.ITEM, Kind.LEX, Kind.COUNT, Kind.APART, Kind.RULE)
"""The kinds of nodes whose parts are not looked at where items are left out."""


@limited()
def bounded(
    program: Node, depth: int | None = None, length: int | None = None
) -> tuple[Nfa, tuple[Narrowing, ...]]:
    """Return a finite automaton of a program's texts, or of some if all are too many, and the narrowings where it lacks some.

    ``depth``, ``length``: bounds that were asked for (see :class:`Bounds`). Raises ``TooManyStates``, and
    ``UnsupportedConstraint`` if parts have budgets of tokens.
    """
    program = pruned(program)
    if has_budgets(program):
        raise UnsupportedConstraint(
            "a constraint with budgets of parts (tokens) has no finite automaton: `&`, `-`, `~`, counting and drawing "
            "need one; compose the parts first, and call tokens(…) on the result"
        )
    found, needed = None, _needed(program)
    with suppress(TooManyStates), attempt(limits.WORK / 4):
        found = _within(program, _least(GREATEST.wanted(depth, length), needed), limits.PART_STATES // 2)
    if found is not None:
        return found
    bounds, too_wide = LEAST, set[str]()
    found = _within(program, _least(bounds.wanted(depth, length), needed), MOST_PLACES)
    for name, value in BOUNDS:
        wider = bounds._replace(**{name: value})
        before, after = (_least(each.wanted(depth, length), needed) for each in (bounds, wider))
        if after == before:
            bounds = wider
        elif name not in too_wide:
            too_wide.add(name)
            with suppress(TooManyStates), attempt(limits.WORK / 4):
                found, bounds = _within(program, after, limits.PART_STATES), wider
                too_wide.remove(name)
    return found


def _needed(program: Node) -> Bounds:
    """Return bounds that cut nothing but rules within themselves."""
    found = list(reachable(program))
    longest = [node.high or 0 for node in found if node.kind is Kind.COUNT]
    most_items = [10 * (node.high or 0) for node in found if node.kind is Kind.REPEAT]
    rooms = [1 << node.members for node in found if node.kind is Kind.BAG]
    has_rules = any(node.kind is Kind.RULE for node in found)
    return Bounds(limits.DEPTH if has_rules else 0, max([0, *longest, *most_items]), max([0, *rooms]))


def _least(one: Bounds, other: Bounds) -> Bounds:
    return Bounds(*map(min, one, other))


def _within(program: Node, bounds: Bounds, most: int) -> tuple[Nfa, tuple[Narrowing, ...]]:
    """Return the finite automaton of a program's texts within ``bounds``, and a ``Narrowing`` for each kind of text cut."""
    cuts, rules = Cuts(), Rules()
    some = rewritten(program, partial(_bounded, bounds=bounds, cuts=cuts, rules=rules))
    _define(rules)
    some = pruned(some)
    try:
        return expanded(some, most).plain, merged(cuts.values())
    except TooManyStates:
        if all(node.kind is not Kind.RULE for node in reachable(some)):
            raise
    found = expanded(some, most, depth=bounds.depth).plain
    why = "a finite automaton follows what calls itself to a depth only"
    return found, merged([Narrowing("", "max_depth", "any depth", bounds.depth, why)], cuts.values())


def _bounded(node: Node, bounds: Bounds, cuts: Cuts, rules: Rules) -> Node:
    """Return a node of its texts within ``bounds``, and note in ``cuts`` what is left out."""
    why = "a finite automaton of all of them would be too large"
    match node.kind:
        case Kind.COUNT if node.high is not None and node.high > (most := max(node.low, bounds.length)):
            cuts["length"] = Narrowing("", "maxLength", node.high, most, why)
            return nodes.count(node.tables[0], node.low, most)
        case Kind.REPEAT if node.high is not None and node.high > (most := max(node.low, bounds.items)):
            cuts["items"] = Narrowing("", "maxItems", node.high, most, why)
            return nodes.repeat(node.parts[0], node.low, most, node.parts[1])
        case Kind.BAG if not node.ordered and 1 << node.members > max(2, bounds.room):
            cuts["order"] = Narrowing("", "order", "any", "declared", why)
            required = [label for label in range(node.members) if node.required >> label & 1]
            first, later = node.tables
            return nodes.bag(first, later, node.parts, node.members, required, node.low, node.high, True)
        case Kind.APART:
            cuts["apart"] = Narrowing("", "uniqueItems", "any items", "at most one", why)
            return _items(node.parts[0], 1, rules)
    return node


def _items(root: Node, most: int, rules: Rules) -> Node:
    """Return the node of the texts in which at most ``most`` items (0 or 1) are read.

    ``rules``: the rules that stand for others, by rule and ``most``; they are defined when those are (:func:`_define`).
    """
    found: dict[tuple[Node, int], Node] = {}
    todo = [(root, False)]
    while todo:
        node, is_left = todo.pop()
        if is_left or node.kind in WHOLE:
            for n in (0, 1):
                found[node, n] = _of_items(node, n, found, rules)
        elif (node, most) not in found:
            todo.append((node, True))
            todo += [(part, False) for part in node.parts]
    return found[root, most]


def _of_items(node: Node, most: int, found: Rules, rules: Rules) -> Node:
    """Return :func:`_items` of a node from what was found of its parts."""
    without = tuple(found[part, 0] for part in node.parts) if node.kind not in WHOLE else ()
    match node.kind:
        case Kind.ITEM:
            return node.parts[0] if most else nodes.NOTHING
        case Kind.LEX | Kind.COUNT | Kind.APART:
            return node
        case Kind.RULE:
            return rules.setdefault((node, most), nodes.rule())
        case Kind.ALT if most:
            return nodes.alt(*(found[part, 1] for part in node.parts))
        case Kind.SEQ if most:
            options = [(*without[:i], found[part, 1], *without[i + 1 :]) for i, part in enumerate(node.parts)]
            return nodes.alt(*(nodes.seq(*option) for option in options)) if options else node
        case Kind.BAG if most and node.low <= 1:
            required = [label for label in range(node.members) if node.required >> label & 1]
            some, (first, later) = [found[part, 1] for part in node.parts], node.tables
            high = 1 if node.high is None else min(1, node.high)
            return nodes.bag(first, later, some, node.members, required, node.low, high, node.ordered)
        case Kind.REPEAT if most and node.low <= 1:
            return nodes.alt(rebuilt(node, without), found[node.parts[0], 1])
    return rebuilt(node, without)


def _define(rules: Rules) -> None:
    """Define the rules of :func:`_items`, which may ask for more; one for a rule without items reads the same."""
    todo, made = list(rules), set[Node]()
    for node, most in todo:
        known = len(rules)
        made.update(rules.values())
        body = _items(node.parts[0], most, rules) if _has_items(node, made) else node
        nodes.define(rules[node, most], body)
        todo += list(rules)[known:]


def _has_items(root: Node, made: set[Node]) -> bool:
    """Return whether an ``ITEM`` of this node's own ``APART`` is reached: those of an ``APART`` inside do not count.

    ``made``: rules that stand for others without their items; nothing is sought in them.
    """
    seen, todo = {root}, [root]
    for node in todo:
        if node.kind is Kind.ITEM:
            return True
        if node.kind is Kind.APART or node in made:
            continue
        for part in node.parts:
            if part not in seen:
                seen.add(part)
                todo.append(part)
    return False


def guiding(program: Node, most_states: int) -> Nfa:
    """Return an automaton that accepts at least a program's texts, of at most about ``most_states`` states.

    It accepts exactly these if that suffices, but for what counts tokens or compares items. All texts if nothing fits.
    """
    whole = pruned(rewritten(program, _unobserved))
    attempts: list[Callable[[], Nfa]] = [partial(expanded, whole, SMALLER * most_states)]
    for cap, kept in FORGOTTEN:
        attempts.append(partial(_forgetting, whole, cap, kept, SMALLER * most_states))
    for each in attempts:
        with suppress(TooManyStates), attempt(limits.WORK / 8):
            found = dfa.simplify(each().plain)
            if found.num_states <= most_states:
                return found
    return utf8.any_text().plain


def _forgetting(program: Node, cap: int, kept: int, most_states: int) -> Nfa:
    """Return an automaton of at least the texts: bounds are known up to ``cap``, ``kept`` frames of callers are told apart."""
    return expanded(rewritten(program, partial(_capped, cap=cap)), most_states, kept=kept)


def _unobserved(node: Node) -> Node:
    """Return a node that counts no tokens and compares no items."""
    return node.parts[0] if node.kind in (Kind.TOKENS, Kind.APART, Kind.ITEM) else node


def _capped(node: Node, cap: int) -> Node:
    """Return a node with at least the texts of ``node``: bounds are known up to ``cap``, members read are forgotten."""
    low, high = min(node.low, cap), node.high if node.high is None or node.high <= cap else None
    match node.kind:
        case Kind.COUNT:
            return nodes.count(node.tables[0], low, high)
        case Kind.REPEAT:
            return nodes.repeat(node.parts[0], low, high, node.parts[1])
        case Kind.BAG:
            first, later = node.tables
            return nodes.bag(first, later, node.parts, 0, (), low, high)
    return node
