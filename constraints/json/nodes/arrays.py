"""Arrays as nodes: their items one after another, with a rule for each state where some are counted or told apart.

    []  [x]  [x, y]          lists
    ()  (x,) (x, y)          tuples, where a syntax has them

Items that must differ and are listed are a bag of their texts; others are compared as they are read (``Apart``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, TypeVar

from ....errors import TooManyStates, UnsupportedConstraint
from ... import limits
from ...automata.nfa import Nfa, concat, literal, union
from ...automata.work import spend
from ...program import nodes
from ...program.labelled import labelled
from ...program.node import Node
from ...program.nodes import EMPTY, NOTHING
from ...program.tables import Table
from .. import numbers, strings
from ..items import Counts, may_end, settled, ways
from ..shapes import NEVER, Arrays, Need, Numbers, both
from ..text import Style
from .leaves import blanks_nfa, enclosed, lex

if TYPE_CHECKING:
    from .values import ValueWriter

MOST_LISTED = 200
"""The widest range of integers whose values are listed."""
MOST_APART = 4
"""The most positions that are compared to see that their items differ anyway."""
Inner = Callable[[Need], Node]
S = TypeVar("S", bound=Hashable)


def arrays(writer: ValueWriter, need: Need) -> list[Node]:
    """Return the nodes of the arrays of a need. Raises ``UnsupportedConstraint`` and ``TooManyStates``."""
    found = []
    for shape in map(settled, writer.value(need).array):
        if shape.most is not None and shape.least > shape.most:
            continue
        if shape.least > limits.LENGTH:
            raise TooManyStates(f"arrays of at least {shape.least} items are too long", limit=limits.LENGTH)
        kinds = ("list", "tuple") if writer.style.tuples and shape.kind is None else (shape.kind,)
        found += [array(writer, need, replace(shape, kind=kind)) for kind in kinds]
    return found


def array(writer: ValueWriter, need: Need, shape: Arrays) -> Node:
    """Return the node of a shape of arrays of one kind."""
    inner = writer.below.node
    if shape.unique is None or (shape.unique and are_apart(shape, inner)):
        return items(writer, shape, inner)
    place = f"{writer.needs.where(need)}/uniqueItems"
    if shape.kind == "tuple":
        raise UnsupportedConstraint("uniqueItems of tuples is not supported", path=place)
    size = len(shape.prefix) + 1 if shape.most is None else min(len(shape.prefix) + 1, shape.most)
    values = [None if shape.contains else listed_values(writer, shape.at(n)) for n in range(size)]
    known = [each for each in values if each is not None]
    if known and len(known) == size:
        if not shape.unique:
            return repeating(writer, shape, known)
        if all(each.keys() == known[0].keys() for each in known):
            return distinct(writer, shape, [*known[0].values()])
    if not shape.unique or writer.style.tuples:
        what = "uniqueItems" + " that must not hold" * (not shape.unique) + " of items that are not listed"
        raise UnsupportedConstraint(what + " in Python syntax" * writer.style.tuples, path=place)
    sizes = [most_values(writer, shape, c.need) for c in shape.contains]
    if any(size is not None and size < c.least for size, c in zip(sizes, shape.contains, strict=True)):
        return NOTHING
    if None in sizes:  # many values: none is lacking where an item that may be counted is not
        shape = replace(shape, unique=None)
    return nodes.apart(items(writer, shape, lambda each: nodes.item(inner(each), json=True)))


def most_values(writer: ValueWriter, shape: Arrays, need: Need) -> int | None:
    """Return a bound on the distinct items that satisfy a need; None if they are not listed."""
    found = [listed_values(writer, both(shape.at(n), need)) for n in range(len(shape.prefix) + 1)]
    if None not in found:
        return len({value for each in found for value in each or ()})
    schemas = [writer.needs.document.nodes[number].schema for number, sign in need if sign]
    return min((len(s.get("enum", "1")) for s in schemas if {"enum", "const"} & s.keys()), default=None)


def are_apart(shape: Arrays, inner: Inner) -> bool:
    """Return whether no two of a few positions have a value in common."""
    if shape.most is None or shape.most > MOST_APART:
        return False
    needs = [shape.at(i) for i in range(shape.most)]
    return all(inner(both(a, b)) is NOTHING for a, b in combinations(needs, 2))


# ---------------------------------------------------------------- items one after another


def items(writer: ValueWriter, shape: Arrays, inner: Inner) -> Node:
    """Return the node of the arrays of a shape, whether or not their items differ."""

    def some(least: int) -> Node:
        return sequence(writer, shape if least == shape.least else replace(shape, least=least), inner)

    if shape.kind != "tuple":
        return in_brackets(writer, shape.least, some)
    options = []
    if shape.least <= 1 and shape.most != 0:  # a comma after the only item
        one = sequence(writer, replace(shape, least=1, most=1), inner)
        options.append(nodes.seq(one, nodes.text(writer.style.comma[:1]), writer.blank))
    if shape.least == 0:
        options.append(sequence(writer, replace(shape, most=0), inner))
    options.append(some(max(shape.least, 2)))
    return nodes.seq(nodes.text(b"("), writer.blank, nodes.alt(*options), nodes.text(b")"))


def in_brackets(writer: ValueWriter, least: int, some: Callable[[int], Node]) -> Node:
    """Return the node of an array. ``some(n)``: the node of n items or more, with commas between them."""
    return enclosed((b"[", b"]"), some, least, writer.style, writer.style.lead)


def sequence(writer: ValueWriter, shape: Arrays, inner: Inner) -> Node:
    """Return the node of the items of a shape with what is between them."""
    least, most = shape.least, shape.most
    if most is not None and least > most:
        return NOTHING
    if shape.contains:
        start: tuple[int, Counts] = (0, (0,) * len(shape.contains))
        return states(
            writer,
            start,
            lambda state: [(inner(need), after) for need, after in ways(shape, *state)],
            lambda state: may_end(shape, *state),
        )
    size = len(shape.prefix)
    if size > limits.ALTERNATIVES:
        raise TooManyStates(f"{size} positions of an array are too many", limit=limits.ALTERNATIVES)
    if not size:
        return nodes.repeat(nodes.seq(inner(shape.rest), writer.blank), least, most, writer.comma)
    # the first positions one by one, the rest as many
    rest = nodes.seq(writer.comma, inner(shape.rest), writer.blank)
    tail = nodes.repeat(rest, max(0, least - size), None if most is None else max(0, most - size))
    for n in range(size - 1, -1, -1):
        before = EMPTY if n == 0 else writer.comma
        fits = most is None or n < most
        one = nodes.seq(before, inner(shape.prefix[n]), writer.blank, tail) if fits else NOTHING
        tail = nodes.alt(*([EMPTY] if n >= least else []), one)
    return tail


def states(
    writer: ValueWriter, start: S, ways: Callable[[S], Iterable[tuple[Node, S]]], done: Callable[[S], bool]
) -> Node:
    """Return the node of items with counts: one rule for each state that is reached (the counts so far).

    ``ways``: the items that may come next, each with the state after it. ``done``: whether there need not be another item.
    """
    onward = dict[S, list[tuple[Node, S]]]()
    todo = [start]
    for state in todo:
        if state not in onward:
            onward[state] = [(item, after) for item, after in ways(state) if item is not NOTHING]
            todo += [after for _, after in onward[state]]
            spend(20 * len(onward[state]))
        if len(onward) > limits.ALTERNATIVES:
            raise TooManyStates("an array counts items in too many ways", limit=limits.ALTERNATIVES)
    live = {state for state in onward if done(state)}
    size = 0
    while size != (size := len(live)):
        live |= {state for state, some in onward.items() if any(after in live for _, after in some)}
    rules = {state: nodes.rule() for state in onward if state in live}

    def options(state: S, before: Node) -> Node:
        end = [EMPTY] if done(state) else []
        some = [(item, after) for item, after in onward[state] if after in live]
        return nodes.alt(*end, *(nodes.seq(before, item, writer.blank, rules[after]) for item, after in some))

    for state, rule in rules.items():
        nodes.define(rule, options(state, writer.comma))
    return options(start, EMPTY)


# ---------------------------------------------------------------- items that are listed


def listed_values(writer: ValueWriter, need: Need) -> dict[Hashable, Nfa] | None:
    """Return the values of a need, each with the automaton of its texts; None if the need does not list them."""
    if need == NEVER:
        return {}
    value = writer.value(need)
    if value.array or value.object:
        return None
    found: dict[Hashable, Nfa] = {text: literal(text) for text in writer.words(value)}
    for number in value.number:
        each = numbers.listed_numbers(number, MOST_LISTED)
        if each is None:
            return None
        found |= {v: numbers.number_dfa(Numbers(among=frozenset([v])), writer.notation) for v in each}
    for string in value.string:
        if string.among is None:
            return None
        for v in sorted(string.among):
            if strings.has(v, string.atoms):
                found[v] = union(
                    concat([literal(each.opening), strings.words([v], each), literal(bytes([each.closing]))])
                    for each in writer.style.spellings
                )
    return {value: text for value, text in found.items() if not text.is_empty}


def text_table(values: Sequence[Nfa], before: bytes, style: Style) -> Table:
    """Return the table of the texts of some values behind a text, by their number.

    A state in which a value ends has no moves: where a longer text goes on, the last byte leads to two states.
    """
    head = [literal(before), blanks_nfa(style.blank)] if before else []
    found = labelled([concat([*head, value]) for value in values])
    assert found is not None
    return found


def distinct(writer: ValueWriter, shape: Arrays, values: list[Nfa]) -> Node:
    """Return the node of arrays of distinct items among some values: a bag of their texts."""
    if not values:
        return items(writer, shape, lambda need: NOTHING)
    first, later = text_table(values, b"", writer.style), text_table(values, writer.style.comma, writer.style)

    def some(least: int) -> Node:
        return nodes.bag(first, later, [writer.blank] * len(values), len(values), (), least, shape.most)

    return in_brackets(writer, shape.least, some)


def repeating(writer: ValueWriter, shape: Arrays, known: list[dict[Hashable, Nfa]]) -> Node:
    """Return the node of arrays in which two items are equal, where items have finitely many values.
    ``known``: by position, these values with the texts that spell each; the last entry holds for all later positions too."""
    steady = max(shape.least, len(known) - 1)

    def twice(value: Hashable) -> Node:
        def ways(state: tuple[int, int]) -> Iterable[tuple[Node, tuple[int, int]]]:
            n, count = state
            if shape.most is not None and n >= shape.most:
                return
            after = n + 1 if shape.most is not None else min(n + 1, steady)
            here = known[min(n, len(known) - 1)]
            yield writer.below.node(shape.at(n)), (after, count)
            if count < 2 and value in here:
                yield lex(here[value]), (after, count + 1)

        start: tuple[int, int] = (0, 0)
        found = states(writer, start, ways, lambda state: state[0] >= shape.least and state[1] == 2)
        return in_brackets(writer, 2, lambda least: found)

    return nodes.alt(*map(twice, dict.fromkeys(value for each in known for value in each)))
