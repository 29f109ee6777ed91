"""Grammars as programs: their masks are those of the machines, whatever the text; programs of several constraints."""

import random

import numpy as np
import pytest
from test_grammar_readings import JAVA, MOLECULES
from test_lazy_grammar import ARITHMETIC, JSON, STATEMENTS

from tractile import constraints
from tractile.constraints import Vocabulary
from tractile.constraints.engine import native
from tractile.constraints.masks.recording_tokens import RecordingTokens

needs_core = pytest.mark.skipif(native.Core is None, reason="the core is not built")
GRAMMARS = {
    "arithmetic": ("lark", ARITHMETIC),
    "json": ("lark", JSON),
    "java": ("lark", JAVA),
    "molecules": ("lark", MOLECULES),
    "statements": ("gbnf", STATEMENTS),
    "exponentially many readings": ("gbnf", 'root ::= (root | "a")* "b" | root root'),
    "empty rules before left recursion": ("gbnf", 'root ::= x root "c" | y | "d"\nx ::= "a"*\ny ::= root "b" | x'),
    "left recursion in a circle": ("ebnf", 'a = b, "x" | "a" ; b = c, "y" | "b" ; c = a, "z" | [ b ], "c" | "(", a, ")" ;'),
    "a difference": ("ebnf", 'a = "(", a, ")" | b - "yy" ; b = "x" | "y", b | "z" ;'),
    "counted": ("gbnf", 'root ::= x{2,40}\nx ::= "a" | "(" root ")"'),
    "ignored": ("lark", 'start: "[" start* "]" | N\nN: /[0-9]+/\n%ignore " "\n%ignore /#[^\\n]*\\n/'),
    "a grammar within": ("lark", 'start: "k" start | %lark { start: "(" start ")" | "l" }'),
}  # fmt: skip


def vocabulary(automaton, rng):
    """All bytes, and pieces of random texts of the language."""
    words = set[bytes]()
    for _ in range(12):
        state, text = automaton.start(), b""
        for _ in range(rng.randrange(25)):
            moves = list(automaton.moves(state))
            if not moves:
                break
            low, high, state = rng.choice(moves)
            text += bytes([rng.randint(low, high)])
        text += automaton.completion(state)
        for _ in range(6 if len(text) > 1 else 0):
            at = rng.randrange(len(text))
            words.add(text[at : at + rng.randint(2, 4)])
    singles = [bytes([byte]) for byte in range(256)]
    return Vocabulary([None, *dict.fromkeys([*singles, *sorted(words)])], eos_token_id=0)


def tokens_of(words):
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist()


def check_walks(constraint, walks, length):
    """The masks of a constraint's program are those of its machines along random texts."""
    node, rng = constraint.program(), random.Random(0)
    assert node is not None
    vocab = vocabulary(constraint.automaton, rng)
    old, new = RecordingTokens(constraint.automaton, vocab, True), native.CompiledTokens(node, vocab)
    for _ in range(walks):
        a, b = old.start_state, new.start_state
        for _ in range(length):
            mask = new.words_from(b)
            assert (old.words_from(a) == mask).all()
            allowed = [token for token in tokens_of(mask) if token]
            if not allowed:
                break
            token = rng.choice(allowed)
            a, b = old.step(a, token), new.step(b, token)


@needs_core
@pytest.mark.parametrize("name", GRAMMARS)
def test_masks_of_the_program_are_those_of_the_machines(name):
    syntax, text = GRAMMARS[name]
    constraint = constraints.grammar(text, syntax=syntax, on_narrowed="ignore")
    check_walks(constraint, walks=6, length=15)


@needs_core
@pytest.mark.parametrize("name", GRAMMARS)
def test_walks_within_budgets_end_with_an_accepted_text(name):
    syntax, text = GRAMMARS[name]
    constraint = constraints.grammar(text, syntax=syntax, on_narrowed="ignore")
    rng = random.Random(1)
    vocab = vocabulary(constraint.automaton, rng)
    states = native.CompiledTokens(constraint.program(), vocab)
    least = states.fewest(states.start_state)
    if least > 1:
        assert not states.words_within(states.start_state, least - 2).any()
    for more in (0, 1, 2, 5, 12, 40):
        state, found = states.start_state, b""
        for left in range(least + more - 1, -1, -1):
            allowed = tokens_of(states.words_within(state, left))
            assert allowed, (found, left)
            token = rng.choice(allowed)
            if token == 0:
                break
            found, state = found + vocab.token_bytes[token], states.step(state, token)
        assert token == 0
        assert constraint.accepts(found)


@needs_core
def test_a_text_with_exponentially_many_readings_has_few_stacks():
    constraint = constraints.grammar(
        'root ::= (root | "a")* "b" | root root', syntax="gbnf", on_narrowed="ignore"
    )
    vocab = Vocabulary([None, b"a", b"b"], eos_token_id=0)
    states = native.CompiledTokens(constraint.program(), vocab)
    state = states.start_state
    for _ in range(60):
        for token in (1, 1, 2):
            state = states.step(state, token)
    assert tokens_of(states.words_from(state)) == [0, 1, 2]


@pytest.mark.parametrize(
    "text",
    [
        'start: "(" start ")" | a "x"\na[lazy]: /[a-z]*!/',
        'start[max_tokens=9]: "(" start ")" | "a"',
    ],
)
def test_what_nodes_do_not_write_is_left_to_machines(text):
    assert constraints.grammar(text, on_narrowed="ignore").program() is None


def test_many_repeats_of_what_may_be_empty_are_left_to_machines():
    text = 'root ::= ("a"? | "(" root ")"){2,300}'
    assert constraints.grammar(text, syntax="gbnf", on_narrowed="ignore").program() is None


# ---------------------------------------------------------------- several constraints

NEST = 'root ::= "(" root ")" | "x"'
MAYBE = 'root ::= ("(" root ")")?'


@needs_core
@pytest.mark.parametrize(
    "make",
    [
        lambda nest, maybe, word: nest | word,
        lambda nest, maybe, word: word + nest,
        lambda nest, maybe, word: nest + maybe + word,
        lambda nest, maybe, word: (nest | maybe).repeat(2, 4),
        lambda nest, maybe, word: (maybe + maybe).repeat(1) | word,
        lambda nest, maybe, word: (word | nest).repeat(0, 3) + nest,
    ],
)
def test_programs_are_composed(make):
    nest, maybe = (constraints.grammar(text, syntax="gbnf", on_narrowed="ignore") for text in (NEST, MAYBE))
    constraint = make(nest, maybe, constraints.regex("(x|a)?b+"))
    check_walks(constraint, walks=20, length=10)


def test_a_budget_of_a_part_has_no_program_yet():
    nest = constraints.grammar(NEST, syntax="gbnf", on_narrowed="ignore")
    assert nest.program() is not None
    assert (nest.tokens(at_most=4) | constraints.literal("a")).program() is None
