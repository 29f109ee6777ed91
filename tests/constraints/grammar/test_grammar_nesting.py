"""Grammars that nest to any depth, against enumeration and Python's own parsers."""

import itertools
import random
import re

import pytest
from grammars import ARITHMETIC

from tractile import constraints
from tractile.constraints.engine.bytes import Bytes
from tractile.constraints.grammar.bnf import read_bnf
from tractile.constraints.grammar.tree import Choice, Ref, Repeat, Series


def states_of(text, **options):
    found = constraints.grammar(text, **options)
    assert not any(cut.loses_values for cut in found.narrowed)
    return Bytes(found.program)


def walk(states, rng, steps):
    """A random beginning of a text, and the state after it."""
    state, text = states.start, b""
    for _ in range(steps):
        moves = states.moves(state)
        if not moves:
            break
        low, _, state = rng.choice(moves)
        text += bytes([low])
    return text, state


def completed(states, rng, steps):
    """A random text: every state on the way to it must have a completion that is accepted."""
    text, state = walk(states, rng, steps)
    rest = states.completion(state)
    assert states.accepts(text + rest), (text, rest)
    return (text + rest).decode()


# ---------------------------------------------------------------- depth


def test_arithmetic_at_any_depth():
    states, rng = states_of(ARITHMETIC), random.Random(0)
    for _ in range(150):
        text = completed(states, rng, rng.randrange(60))
        compile(re.sub(r"\b0+(?=\d)", "", text), "<text>", "eval")
    assert states.accepts(b"(" * 300 + b"1" + b")" * 300)
    assert not states.accepts(b"(" * 300 + b"1" + b")" * 299)


# ---------------------------------------------------------------- left recursion, empty rules, ambiguity


@pytest.mark.parametrize(
    "rules",
    [
        'root ::= root "a" | "b"', 'root ::= x "a" | "b"\nx ::= root | y\ny ::= root "b" | "a"',
        'root ::= e root "a" | "b"\ne ::= "" | "ab"', 'root ::= e e | root root\ne ::= e | "" | "a" e "b"',
        'root ::= x\nx ::= y x | "a"\ny ::= x? "b"?', 'root ::= (root | "a")* "b"', 'root ::= x{2,3}\nx ::= root? "a" | "b"',
        'root ::= "a" root root | ""', 'root ::= (root "b"){0,70} | "a"',
    ],
)  # fmt: skip
def test_recursion_of_all_kinds_against_derivation(rules):
    """Short texts against those that the rules derive, found as a least fixed point of sets of texts."""
    states = states_of(rules, syntax="gbnf")
    expected = derived(rules, 5)
    for n in range(6):
        for word in map("".join, itertools.product("ab", repeat=n)):
            assert states.accepts(word.encode()) == (word in expected), word


def derived(rules, most):
    """The texts of at most so many letters of the first rule."""
    grammar = read_bnf(rules, "gbnf", {}).rules
    texts = {name: set() for name in grammar}

    def of(e):
        if isinstance(e, Ref):
            return texts[e.rule]
        if isinstance(e, Choice):
            return set().union(*map(of, e.parts))
        if isinstance(e, Series):
            found = {""}
            for part in e.parts:
                found = joined(found, of(part))
            return found
        if isinstance(e, Repeat):
            once, found, result = of(e.part), {""}, {""} if e.low == 0 else set()
            for count in range(1, (e.high or e.low + most) + 1):
                longer = joined(found, once)
                result |= longer if count >= e.low else set()
                if longer == found:
                    break
                found = longer
            return result
        words = ("".join(w) for n in range(4) for w in itertools.product("ab", repeat=n))
        return {word for word in words if Bytes(e.node).accepts(word.encode())}

    def joined(left, right):
        return {a + b for a in left for b in right if len(a + b) <= most}

    while True:
        before = {name: len(found) for name, found in texts.items()}
        for name, e in grammar.items():
            texts[name] = texts[name] | of(e)
        if {name: len(found) for name, found in texts.items()} == before:
            return texts["root"]


def test_ways_that_multiply_share_their_stacks():
    """Each letter begins one of two rules, each of which waits for an end of its own: the ways are 2ⁿ."""
    rules = 'root ::= x | y\nx ::= "a" (x | y) "1" | "c"\ny ::= "a" (y | x) "2" | "c"'
    states = states_of(rules, syntax="gbnf")
    rng = random.Random(5)
    for n in (1, 8, 200):
        ends = "".join(rng.choice("12") for _ in range(n))
        assert states.accepts(b"a" * n + b"c" + ends.encode())
        assert not states.accepts(b"a" * n + b"c" + ends.encode() + b"1")
        at = states.start
        for _ in range(n):
            at = states.step(at, ord("a"))
        assert len(states.completion(at)) == n + 1


# ---------------------------------------------------------------- without recursion


@pytest.mark.parametrize(
    ("syntax", "text", "pattern"),
    [
        ("lark", 'start: (A | B "x"?)* C\nA: /a+?b|c/\nB: "b"i\nC: /d{2,3}/\n%ignore / +/',
         "(?: *(?:a+b|c|[bB](?: *x)?))* *d{2,3} *"),
        ("gbnf", 'root ::= [1-9] [0-9]* ". " m (" " m)?\nm ::= "O-O" | [NB]? [a-h] [1-8] [+#]?',
         r"[1-9][0-9]*\. (?:O-O|[NB]?[a-h][1-8][+#]?)(?: (?:O-O|[NB]?[a-h][1-8][+#]?))?"),
        ("ebnf", 'a = (b | c) - ("x", b) ;\nb = "x" | "y", [ b ] ;\nc = { "x" } ;', "(?!xx$)(?:y*x|y+|x*)"),
        ("ebnf", 'a = { "x" | "yz" } - (x, "x", x) ;\nx = { "x" | "y" | "z" } ;', "(?:yz)*"),
    ],
)  # fmt: skip
def test_without_recursion_it_is_a_regular_language(syntax, text, pattern):
    found, expected = constraints.grammar(text, syntax=syntax), constraints.regex(pattern)
    assert found.narrowed == ()
    differs = constraints.difference(found, expected)
    assert (differs.only_first, differs.only_second) == (None, None)
    assert len(found.shortest()) == len(expected.shortest())
