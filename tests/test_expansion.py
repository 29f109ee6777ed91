"""Finite automata of machines: the same language as their lazy automata where nothing is left out, else a part of it."""

import json
import random

import numpy as np
import pytest

import tractile as tt
from tractile.constraints.automata.dfa import difference
from tractile.constraints.automata.expansion import Expansion
from tractile.constraints.automata.graphs import Graph, explored, of_automaton, useful
from tractile.constraints.automata.lazy import Numbered, explore
from tractile.constraints.automata.stack import StackAutomaton
from tractile.constraints.json.document import read_schema
from tractile.constraints.json.lazy.objects import ObjectMachine
from tractile.constraints.json.lazy.schema import root_machine, schema_machines
from tractile.constraints.limits import Bounds

WIDE = Bounds(2, 50, 2_000)


def machines_of(schema, order="auto"):
    options = ("space", order, None, None, True, "assert", True, None)
    machines, _ = schema_machines(read_schema(schema), False, options)
    return machines, root_machine(machines)


def expanded(root, bounds=WIDE, entries=1):
    """The finite automaton of a machine."""
    return Expansion(root, lambda machine: machine.bounded(bounds), lambda _: entries, 10**6, {})


def same(a, b):
    return difference(a, b).is_empty and difference(b, a).is_empty


def closed(properties, **more):
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


ONE, TWO, WORD = {"const": 1}, {"enum": [1, "a"]}, {"type": "string", "maxLength": 2, "pattern": "^[ab]*$"}
FINITE = [
    {"type": "array", "items": TWO, "maxItems": 3}, {"type": "array", "prefixItems": [ONE, WORD], "items": False, "minItems": 1},
    closed({"a": ONE, "ab": TWO, "b": WORD}, required=["ab"]), closed({"a": closed({"b": TWO}), "c": {"type": "null"}}),
    {"type": "object", "properties": {"a": ONE}, "additionalProperties": TWO},
    {"type": "object", "properties": {"x1": ONE, "é": ONE}, "patternProperties": {"^x": TWO}, "additionalProperties": False},
    closed({"a": ONE, "b": ONE, "c": ONE}, minProperties=1, maxProperties=2),
    {"anyOf": [closed({"a": ONE, "b": TWO}), closed({"b": ONE, "c": TWO}, required=["c"])]},
    {"type": "array", "items": TWO, "contains": ONE, "maxContains": 1},
    {"type": "array", "items": {"enum": [1, 2, "x"]}, "uniqueItems": True},
    {"anyOf": [{"type": "array", "items": ONE}, {"type": "array", "items": TWO, "maxItems": 2}, WORD]},
]  # fmt: skip


@pytest.mark.parametrize("order", ["auto", "declared"])
@pytest.mark.parametrize("schema", FINITE, ids=lambda schema: json.dumps(schema)[:60])
def test_where_nothing_is_left_out_it_is_the_lazy_automaton(schema, order):
    _, root = machines_of(schema, order)
    found = expanded(root)
    assert not found.left_out
    assert same(found.automaton(), explore(StackAutomaton(root), 50_000))
    assert found.size >= found.automaton().num_states


@pytest.mark.parametrize("order", ["auto", "declared"])
@pytest.mark.parametrize("schema", [FINITE[2], *FINITE[4:8]], ids=lambda schema: json.dumps(schema)[:60])
def test_graphs_of_objects_are_those_that_are_explored(schema, order):
    """The states of names that are shared accept what each local state does."""
    machines, root = machines_of(schema, order)
    whole = machines.objects(machines.keywords.root())
    assert whole is root
    for bounds in (WIDE, Bounds(2, 50, 60), Bounds(2, 50, 0)):
        machine = whole.bounded(bounds)
        assert isinstance(machine, ObjectMachine)
        shared, plain = machine.graph(10**5), explored(machine, 10**5)
        assert shared.size <= plain.size
        numbers = {}

        def automaton(graph, numbers=numbers):
            """Calls read one byte, by the machine, instead of its text."""
            calls = [(s, 200 + numbers.setdefault(m, len(numbers)), after) for s, m, after in graph.calls]
            rows = [*graph.edges.tolist(), *((s, byte, byte, after) for s, byte, after in calls)]
            return of_rows(graph, rows)

        one, other = automaton(shared), automaton(plain)
        assert same(one, other)
        assert same(automaton(useful(shared)), one)


def of_rows(graph, rows):
    import numpy as np

    from tractile.constraints.automata.nfa import Nfa

    edges = np.array(rows, np.int64).reshape(-1, 4)
    epsilons = np.empty((0, 2), np.int64)
    return Nfa(graph.size, edges, epsilons, np.array([graph.start]), np.array(graph.ends, np.int64))


TREES = [
    closed({"v": ONE, "below": {"type": "array", "items": {"$ref": "#"}}}),
    {"anyOf": [{"type": "null"}, closed({"a": {"$ref": "#"}, "b": {"$ref": "#/$defs/x"}})],
     "$defs": {"x": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2}}},
]  # fmt: skip


@pytest.mark.parametrize("schema", TREES, ids=["tree", "mutual"])
def test_schemas_within_themselves_are_followed_to_a_depth(schema):
    """Each text of a greater depth is one of the lazy automaton, and the texts grow with the depth."""
    _, root = machines_of(schema)
    lazy = Numbered(StackAutomaton(root))
    smaller = None
    for entries in (1, 2, 3):
        found = expanded(root, entries=entries)
        assert found.left_out
        automaton = found.automaton()
        for text in texts_of(automaton, random.Random(entries)):
            assert lazy.accepts(text), text
        assert smaller is None or difference(smaller, automaton).is_empty
        assert smaller is None or not difference(automaton, smaller).is_empty
        smaller = automaton


def texts_of(automaton, rng, count=50):
    """Texts of an automaton, drawn at random and ended on the shortest way."""
    machine = tt.constraints.automata.machines.DfaMachine(automaton)
    for _ in range(count):
        state, text = machine.start(), b""
        for _ in range(rng.randint(0, 60)):
            moves = machine.moves(state)
            if not moves:
                break
            low, high, state = rng.choice(moves)
            text += bytes([rng.randint(low, high)])
        yield text + machine.completion(state)


def test_too_many_states_are_refused_before_anything_is_copied():
    schema = closed(
        {f"a{i}": {"type": "array", "items": {"type": "string", "maxLength": 50}} for i in range(5)}
    )
    _, root = machines_of(schema)
    with pytest.raises(tt.errors.TooManyStates):
        Expansion(root, lambda machine: machine.bounded(WIDE), lambda _: 1, 2_000, {})
    assert of_automaton(expanded(root).automaton()).size > 2_000


def test_states_that_no_text_visits_are_left_out():
    """Of 0 … 5: 2 leads nowhere, 4 and 5 are not reached; calls from or to them go too, and the rest keeps its order."""
    edges = np.array(
        [[0, 97, 98, 1], [0, 99, 99, 2], [1, 97, 97, 3], [4, 97, 97, 3], [5, 98, 98, 4], [3, 97, 97, 1]]
    )
    part = of_automaton(tt.constraints.regex("a").bytes_automaton)
    graph = Graph(6, 0, edges, ((1, part, 3), (0, part, 2), (4, part, 1)), (3, 5))
    small = useful(graph)
    assert small.edges.tolist() == [[0, 97, 98, 1], [1, 97, 97, 2], [2, 97, 97, 1]]
    assert small._replace(edges=None) == (3, 0, None, ((1, part, 2),), (2,))
    assert useful(small) is small
