"""Walks over grammars: random tokens of the masks, within budgets from the least on, end with an accepted text in time."""

import random

import pytest
from grammars import ARITHMETIC, CASES, JAVA, JSON, MOLECULES, STATEMENTS, least, walk

import tractile as tt
from tractile import constraints

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
    "lazy": ("lark", 'start: (tool | note)* TEXT\nhead[lazy]: TEXT "<t>"\ntool: head inner "</t>"\ninner: "(" inner ")" | "x"\n'
             'note: "[" /[a-z]/{1,3} "]"\nTEXT: /(.|\\n)*/'),
    "a schema": ("lark", 'start: "(" start ")" | %json {"properties": {"a": {"type": "integer"}, "b": {"items": {}}},\n'
                 '"required": ["b"]}'),
    "comments": ("lark", 'start: "{" start* "}" | /[a-z]+/ ";"\n%ignore /#[^\\n]*/\n%ignore /\\s+/'),
    "repeats of what may be empty": ("gbnf", 'root ::= ("a"? | "(" root ")"){2,300}'),
    "counted": ("gbnf", 'root ::= x{2,40}\nx ::= "a" | "(" root ")"'),
    "ignored": ("lark", 'start: "[" start* "]" | N\nN: /[0-9]+/\n%ignore " "\n%ignore /#[^\\n]*\\n/'),
    "a grammar within": ("lark", 'start: "k" start | %lark { start: "(" start ")" | "l" }'),
}  # fmt: skip
GRAMMARS |= {name: ("lark", text) for name, (text, _) in CASES.items()}


@pytest.fixture(scope="module")
def vocab():
    return tt.Vocabulary.from_tokenizer(tt.embedded.load_lm()[1])


@pytest.mark.parametrize("name", GRAMMARS)
def test_walks_from_the_least_budget_on_end_in_time(name, vocab):
    syntax, text = GRAMMARS[name]
    constraint = constraints.grammar(text, syntax=syntax)
    query, rng = tt.gcd(constraint.compile(vocab), horizon=200), random.Random(0)
    fewest = least(query)
    for more in (0, 0, 1, 2, 5, 12, 40, 120):
        assert constraint.accepts(walk(query, vocab, fewest + more, rng).decode())
