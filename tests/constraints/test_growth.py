"""What shares its parts stays small: nodes and work grow with what was written, not with what it unfolds to."""

import math

import pytest

import tractile as tt
from tractile.constraints import grammar, json_schema, literal
from tractile.constraints.automata.work import limited_to
from tractile.constraints.program.nodes import reachable
from tractile.errors import TooManyStates

NUMBER = {"type": "integer"}


def chained(count, kind):
    """A schema of ``count`` definitions, each made by ``kind`` of a reference to the next."""
    definitions = {f"d{i}": kind({"$ref": f"#/$defs/d{i + 1}"}) for i in range(count)}
    return {"$defs": definitions | {f"d{count}": NUMBER}, "$ref": "#/$defs/d0"}


def a_list(size):
    return lambda inner: {"type": "array", "items": [inner] * size, "minItems": size}


def an_object(inner):
    return {"type": "object", "properties": {"a": inner, "b": inner}, "required": ["a", "b"]}


def optional_parts(count):
    return grammar("root ::= " + "(" * count + '"a"' + ")? " * count, syntax="gbnf")


FAMILIES = {
    "lists of two": lambda n: json_schema(chained(n, a_list(2))),
    "lists of ten": lambda n: json_schema(chained(n, a_list(10))),
    "objects": lambda n: json_schema(chained(n, an_object)),
    "all of": lambda n: json_schema(chained(n, lambda inner: {"allOf": [inner, inner]})),
    "any of": lambda n: json_schema(chained(n, lambda inner: {"anyOf": [inner, inner, a_list(2)(inner)]})),
    "optional parts": optional_parts,
}


def cost(make, count):
    """The units of work of a constraint, and the parts of its nodes."""
    with limited_to(math.inf) as account:
        found = make(count)
    return account.spent, sum(1 + len(node.parts) for node in reachable(found.program))


@pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES)
def test_twice_as_deep_costs_twice_as_much(make):
    work, parts = zip(*(cost(make, count) for count in (10, 20)), strict=True)
    assert work[1] < 4 * work[0]
    assert parts[1] < 3 * parts[0]


def test_lists_that_unfold_to_millions_of_items_are_read():
    found = json_schema(chained(12, a_list(2)), on_narrowed="ignore")
    text = "1"
    for _ in range(12):
        text = f"[{text}, {text}]"
    assert found.accepts(text)
    assert not found.accepts(text.replace("1", '"1"', 1))
    assert not found.accepts(text[: len(text) // 2])
    vocab = tt.Vocabulary([None, *(bytes([byte]) for byte in range(256))], eos_token_id=0)
    assert json_schema(chained(40, a_list(10))).compile(vocab).lazy.start_state >= 0


def test_a_text_that_is_too_long_is_refused_before_it_is_read():
    with pytest.raises(TooManyStates):
        literal("a" * 1_000_000)
