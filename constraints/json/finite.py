"""The finite automaton of a schema: its machines expanded within bounds.

The greatest bounds on depth, length and order are tried first. If their automaton is too large, the least are taken and raised
step by step, as far as the automaton stays small enough. What the bounds leave out is reported, with its place in the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from ...errors import TooManyStates
from ..automata.expansion import Expansion
from ..automata.graphs import Graph
from ..automata.nfa import Nfa
from ..automata.region import Machine
from ..automata.work import attempt
from ..constraint import Constraint
from ..limits import BOUNDS, GREATEST, LEAST, PART_STATES, STATES, WORK, Bounds
from ..narrowing import Cut, Narrowing, merged
from . import strings
from .lazy.members import Form, bits
from .lazy.objects import ObjectMachine
from .lazy.texts import shortened, strings_of
from .lazy.values import Machines
from .schema_paths import bound, place, said
from .shapes import ANY, Need
from .vocabulary import pointer

MOST_PLACES = 100
"""The most schemas of equal content that are reported for one narrowing."""
Asked = tuple[int | None, int | None]
"""The depth and the length that the user chose; ``None``: as much as fits."""
ANY_VALUE = "any value"
LENGTH = "an automaton of all of it would be large; max_length sets the bound"
DEPTH = "no regular language nests without a bound; max_depth sets it"


def finite_automaton(
    documents: Sequence[Machines], root: Machine, asked: Asked
) -> tuple[Nfa, list[tuple[Narrowing, ...]]]:
    """Expand a machine to a finite automaton; return it with its narrowings by document.

    Parameters
    ----------
    documents
        The machines of the schemas that the root calls.
    root
        The machine.
    asked
        The depth and the length that the user chose.

    Raises ``TooManyStates``.
    """
    graphs: dict[Machine, Graph] = {}
    free = frozenset(machine for machines in documents for machine in free_machines(machines))

    def expansion(bounds: Bounds, most: int) -> Expansion:
        return Expansion(
            root,
            bounded=lambda machine: machine.bounded(bounds),
            entries=lambda machine: bounds.depth + (machine not in free),
            limit=most,
            graphs=graphs,
        )

    bounds, found = chosen(expansion, lambda bounds: bounds.wanted(*asked))
    return found.automaton(), [Lacking(machines, found, bounds).narrowings() for machines in documents]


def of_automaton(automaton: Nfa, narrowed: tuple[Narrowing, ...]) -> Constraint:
    """Return the constraint of an automaton.
    A deterministic one is not minimized, which would take most of the time."""
    found = Constraint(automaton, narrowed)
    if automaton.is_deterministic:
        vars(found)["bytes_automaton"] = automaton
    return found


def chosen(
    expansion: Callable[[Bounds, int], Expansion], wanted: Callable[[Bounds], Bounds]
) -> tuple[Bounds, Expansion]:
    """Choose the bounds; return them with their expansion.
    They are the greatest if those fit, else the least, each raised as far as there is room. Raises ``TooManyStates``."""
    bounds = wanted(GREATEST)
    with suppress(TooManyStates), attempt(WORK / 3):
        return bounds, expansion(bounds, PART_STATES)
    bounds = wanted(LEAST)
    found = expansion(bounds, STATES)
    for name, value in BOUNDS:
        new = wanted(bounds._replace(**{name: value}))
        most = PART_STATES if new.depth > 3 else 2 * PART_STATES
        if new != bounds and found.size <= most:
            with suppress(TooManyStates), attempt(WORK / 3):
                bounds, found = new, expansion(new, most)
    return bounds, found


def free_machines(machines: Machines) -> set[Machine]:
    """Return the machines of values that no schema restricts."""
    objects = machines.objects(ANY)
    return {machines.machine(ANY), *machines.arrays(ANY), *([] if objects is None else [objects])}


class Lacking:
    """The narrowings of a finite automaton: what the schema of its document allows beyond it."""

    def __init__(self, machines: Machines, expansion: Expansion, bounds: Bounds) -> None:
        self.machines, self.bounds, self.expansion = machines, bounds, expansion
        self.reached, self.not_entered = set(expansion.machines), {head for _, head in expansion.left_out}
        self.is_free_cut = not self.not_entered.isdisjoint(free_machines(machines))

    def narrowings(self) -> tuple[Narrowing, ...]:
        """Return the narrowings with their paths; those of values without a schema come last."""
        every = merged(*map(self.of_need, self.machines.made))
        if self.is_free_cut and self.machines.keywords.root() == ANY:
            every = (self.free_value(""),)
        cuts = sorted(every, key=lambda each: each.asked == ANY_VALUE)
        places = self.machines.document.places
        return merged(each._replace(path=path) for each in cuts for path in places(each.path, MOST_PLACES))

    def of_need(self, need: Need) -> Iterator[Narrowing]:
        """Yield the narrowings of the values of one need."""
        machines, reached = self.machines, self.reached
        for string in machines.value(need).string:
            if strings.empty(string):
                continue
            cut = shortened(string, self.bounds.length)
            written = not reached.isdisjoint(strings_of(string, machines.style))
            if cut != string and written:
                path, keyword = bound(machines, need, "Length", string.most)
                yield Narrowing(path, keyword, string.most, cut.most, LENGTH)
        objects = machines.objects(need)
        for machine in (*machines.arrays(need), *([] if objects is None else [objects])):
            if machine not in reached:
                continue
            bounded = machine.bounded(self.bounds)
            for cut in getattr(bounded, "cuts", ()):
                path, keyword = self.place(need, cut)
                yield Narrowing(path, keyword, *cut[1:])
            if need and not self.not_entered.isdisjoint([machine, *getattr(bounded, "options", ())]):
                yield self.too_deep(need)
            if need and self.is_free_cut:
                yield from self.free_values(need, machine)

    def place(self, need: Need, cut: Cut) -> tuple[str, str]:
        """Return the path and the keyword of what a machine of a need lacks."""
        if cut.keyword == "maxItems":
            return bound(self.machines, need, "Items", cut.asked)
        if cut.keyword == "uniqueItems":
            return place(self.machines, need, "uniqueItems", True), cut.keyword
        return self.machines.where(need), cut.keyword

    # ------------------------------------------------------------ depth

    def too_deep(self, need: Need) -> Narrowing:
        """Return the narrowing of a schema within itself: at most ``depth`` levels are entered."""
        depth = self.bounds.depth
        given = f"itself at most {depth} {'level' if depth == 1 else 'levels'} deep"
        return Narrowing(self.machines.where(need), "max_depth", "itself at any depth", given, DEPTH)

    def free_value(self, path: str) -> Narrowing:
        """Return the narrowing of a value without a schema: its nesting is bounded."""
        given = f"values whose arrays and objects nest at most {self.bounds.depth} deep"
        return Narrowing(path, "max_depth", ANY_VALUE, given, DEPTH)

    def free_values(self, need: Need, machine: Machine) -> Iterator[Narrowing]:
        """Yield the narrowings of items or members without a schema, in the values of a need."""
        if isinstance(machine, ObjectMachine):
            paths = {path for form in machine.forms for path in self.free_members(need, form)}
            yield from map(self.free_value, sorted(paths))
            return
        plain: Any = getattr(machine, "plain", machine)
        shape, where = plain.shape, self.machines.where(need)
        for i, item in enumerate(shape.prefix):
            if item == ANY:
                yield self.free_value(f"{where}/prefixItems/{i}")
        if shape.rest == ANY and (shape.most is None or shape.most > len(shape.prefix)):
            yield self.free_value(f"{where}/items")

    def free_members(self, need: Need, form: Form) -> Iterator[str]:
        """Yield the paths of the members of a form that have no schema."""
        machines, where = self.machines, self.machines.where(need)
        for i in bits(form.live):
            if form.needs[i] == ANY:
                owner = said(machines, need, "properties", form.names[i])
                yield (
                    f"{where}/additionalProperties"
                    if owner is None
                    else f"{owner}/properties/{pointer(form.names[i])}"
                )
        for each in form.possible:
            if each.need == ANY:
                owners = {p: said(machines, need, "patternProperties", p) for p in each.patterns}
                places = (
                    f"{at}/patternProperties/{pointer(p)}" for p, at in owners.items() if at is not None
                )
                yield next(places, f"{where}/additionalProperties")
