"""STRIPS problems in PDDL (Fikes and Nilsson 1971; McDermott et al. 1998): parser and simulator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from tractile.errors import FormatError

Atom = tuple[str, ...]
"""A predicate and its arguments, as ``("on", "b1", "b2")``."""
State = frozenset[Atom]

TOKEN = re.compile(r";[^\n]*|([()]|[^\s();]+)")


@dataclass(frozen=True)
class Action:
    """An action: preconditions (``needs``, ``forbids``) and effects (``adds``, ``deletes``).

    In a domain its arguments are variables, ``?x``; :meth:`bound` replaces them by objects."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    """The parameters, each with its type."""
    needs: State
    forbids: State
    adds: State
    deletes: State

    def applies(self, state: State) -> bool:
        """Return whether the action is applicable in a state."""
        return self.needs <= state and not self.forbids & state

    def after(self, state: State) -> State:
        """Return the state after the action; an atom that it both deletes and adds holds."""
        return state - self.deletes | self.adds

    def bound(self, *arguments: str) -> Action:
        """Return the ground action, with objects in place of its variables."""
        values = dict(zip((name for name, _ in self.parameters), arguments, strict=True))

        def replaced(atoms: State) -> State:
            return frozenset((atom[0], *(values.get(one, one) for one in atom[1:])) for atom in atoms)

        filled = tuple((values[name], kind) for name, kind in self.parameters)
        parts = map(replaced, (self.needs, self.forbids, self.adds, self.deletes))
        return Action(self.name, filled, *parts)


@dataclass(frozen=True)
class Domain:
    """A planning domain: types, predicates and actions."""

    name: str
    parents: Mapping[str, str]
    """The supertype of each type."""
    predicates: Mapping[str, tuple[str, ...]]
    """The types of each predicate's arguments."""
    actions: tuple[Action, ...]

    def is_a(self, kind: str, other: str) -> bool:
        """Return whether the type ``kind`` is ``other`` or a subtype of it."""
        while kind not in (other, "object"):
            kind = self.parents.get(kind, "object")
        return other in (kind, "object")

    def actions_on(self, problem: Problem) -> Iterator[Action]:
        """Yield the ground actions of a problem whose static preconditions hold in the initial state.

        A static precondition has a predicate that no action adds or deletes."""
        changing = {atom[0] for action in self.actions for atom in action.adds | action.deletes}
        for action in self.actions:
            fitting = [
                [name for name, own in problem.objects.items() if self.is_a(own, kind)]
                for _, kind in action.parameters
            ]
            for arguments in product(*fitting):
                bound = action.bound(*arguments)
                if all(atom[0] in changing or atom in problem.init for atom in bound.needs):
                    yield bound


@dataclass(frozen=True)
class Problem:
    """A planning problem: its domain's name, the objects with their types, the initial state, and the atoms of the goal."""

    domain: str
    objects: Mapping[str, str]
    init: State
    goal: tuple[Atom, ...]


# ---------------------------------------------------------------- PDDL


def read_expressions(text: str) -> list[Any]:
    """Parse the S-expressions of a text, in lower case, to nested lists of words. Raises :class:`FormatError`."""
    stack: list[list[Any]] = [[]]
    for match in TOKEN.finditer(text.lower()):
        if match[1] == "(":
            stack.append([])
        elif match[1] == ")":
            if len(stack) == 1:
                raise FormatError(f"PDDL: a parenthesis is closed at {match.start()} that was never opened")
            inner = stack.pop()
            stack[-1].append(inner)
        elif match[1]:
            stack[-1].append(match[1])
    if len(stack) > 1:
        raise FormatError(f"PDDL: {len(stack) - 1} parentheses are not closed")
    return stack[0]


def read_domain(text: str) -> Domain:
    """Parse a domain with ``:strips``, ``:typing`` and ``:negative-preconditions``. Raises :class:`FormatError`."""
    name, sections = _definition(text, "domain")
    predicates = {
        one[0]: tuple(kind for _, kind in _typed(one[1:])) for one in sections.get(":predicates", [])
    }
    actions = []
    for action in sections.get(":action", []):
        fields = dict(zip(action[1::2], action[2::2], strict=False))
        needs, forbids = _literals(fields.get(":precondition", []), predicates)
        adds, deletes = _literals(fields.get(":effect", []), predicates)
        parameters = tuple(_typed(fields.get(":parameters", [])))
        actions.append(Action(action[0], parameters, needs, forbids, adds, deletes))
    return Domain(name, dict(_typed(sections.get(":types", []))), predicates, tuple(actions))


def read_problem(text: str) -> Problem:
    """Parse a problem whose goal is an atom or a conjunction of atoms. Raises :class:`FormatError`."""
    _, sections = _definition(text, "problem")
    domain, goal = sections.get(":domain", []), sections.get(":goal", [])
    if len(domain) != 1 or len(goal) != 1:
        raise FormatError("PDDL: a problem has one (:domain …) and one (:goal …)")
    init = frozenset(_atom(one) for one in sections.get(":init", []))
    return Problem(domain[0], dict(_typed(sections.get(":objects", []))), init, _conjunction(goal[0]))


def read_goal(text: str) -> tuple[Atom, ...]:
    """Parse a goal such as ``(and (on b1 b2) (clear b1))``, or a single atom, to atoms. Raises :class:`FormatError`."""
    found = read_expressions(text)
    if len(found) != 1:
        raise FormatError(f"PDDL: a goal is one expression, not {len(found)}")
    return _conjunction(found[0])


def written(atoms: Iterable[Atom]) -> str:
    """Write a conjunction of atoms in PDDL, on one line."""
    return " ".join(["(and", *(f"({' '.join(atom)})" for atom in atoms)]) + ")"


def _definition(text: str, kind: str) -> tuple[str, dict[str, list[Any]]]:
    """Parse a definition to its name and the content of its sections; ":action" has a list for each action."""
    match read_expressions(text):
        case [["define", [found, str(name)], *sections]] if found == kind:
            pass
        case _:
            raise FormatError(f"PDDL: expected (define ({kind} NAME) …)")
    read: dict[str, list[Any]] = {}
    for section in sections:
        if not isinstance(section, list) or not section or not isinstance(section[0], str):
            raise FormatError(f"PDDL: {section!r} is no section of a {kind}")
        if section[0] in (":functions", ":derived", ":constraints", ":durative-action", ":constants"):
            raise FormatError(f"PDDL: {section[0]} is beyond STRIPS")
        own = read.setdefault(section[0], [])
        own += [section[1:]] if section[0] == ":action" else section[1:]
    return name, read


def _typed(words: list[Any]) -> list[tuple[str, str]]:
    """Parse names with types, such as ``a b - kind c``; the default type is "object"."""
    found: list[tuple[str, str]] = []
    waiting: list[str] = []
    rest = iter(words)
    for word in rest:
        kind = next(rest, None) if word == "-" else word
        if not isinstance(kind, str):
            raise FormatError(f"PDDL: {words!r} is no list of names with types")
        if word == "-":
            found += [(name, kind) for name in waiting]
            waiting = []
        else:
            waiting.append(word)
    return found + [(name, "object") for name in waiting]


def _atom(expression: Any) -> Atom:
    if not isinstance(expression, list) or not expression or not all(isinstance(e, str) for e in expression):
        raise FormatError(f"PDDL: {expression!r} is no atom")
    return tuple(expression)


def _conjunction(expression: Any) -> tuple[Atom, ...]:
    if isinstance(expression, list) and expression[:1] == ["and"]:
        return tuple(map(_atom, expression[1:]))
    return (_atom(expression),)


def _literals(expression: Any, predicates: Mapping[str, tuple[str, ...]]) -> tuple[State, State]:
    """Split a conjunction of literals into (positive atoms, negated atoms)."""
    parts = expression[1:] if expression[:1] == ["and"] else [expression] if expression else []
    signs: tuple[list[Atom], list[Atom]] = ([], [])
    for part in parts:
        negated = isinstance(part, list) and part[:1] == ["not"]
        if negated and len(part) != 2:
            raise FormatError(f"PDDL: {part!r} negates no atom")
        atom = _atom(part[1] if negated else part)
        if atom[0] not in predicates or len(predicates[atom[0]]) != len(atom) - 1:
            raise FormatError(f"PDDL: {' '.join(atom)} is not of the domain's predicates")
        signs[negated].append(atom)
    return frozenset(signs[0]), frozenset(signs[1])
