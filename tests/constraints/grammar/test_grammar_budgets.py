"""Token budgets of rules in grammars: masks against enumeration of all token sequences, and what is refused."""

import pickle
import random

import pytest
from grammars import CASES
from parts_oracle import Leaf, Repeated, Series, Tokens, accepted, check_masks

import tractile as tt
from tractile.constraints import Vocabulary
from tractile.errors import UnsupportedConstraint

VOCAB = Vocabulary([None, b"a", b"b", b"ab", b"ba", b"aab"], eos_token_id=0)

OTHERS = r"(?:(?!ab)[ab])*"
TEXTS = {1: "a", 3: "ab"}
TOKENS = {
    "another token": ("root ::= !<[3]>", Tokens(Leaf(OTHERS), 1, 1)),
    "other tokens": ('root ::= !<[3]>* "a"', Series((Leaf(OTHERS), Leaf("a")))),
    "counted others": ('root ::= !<[3]>{2,3} "a"', Series((Tokens(Leaf(OTHERS), 3, 2), Leaf("a")))),
    "two kinds of others": ("root ::= !<[3]>? !<[1]>+", Series((Tokens(Leaf(OTHERS), 1, 0), Leaf("b+")))),
    "others in a repeat": (
        'root ::= (!<[3]> "a")+',
        Repeated(Series((Tokens(Leaf(OTHERS), 1, 1), Leaf("a"))), 1, None),
    ),
    "llguidance's others": ('start: <[^3]> "a"', Series((Tokens(Leaf(OTHERS), 1, 1), Leaf("a")))),
    "llguidance's wildcard": (
        "start: <[^1,3]>{2} <[*]>",
        Series((Tokens(Leaf("b*"), 2, 2), Tokens(Leaf("[ab]*"), 1, 1))),
    ),
    "llguidance's others in Lark's repeats": (
        'start: <[^3]>~2..3 "a"',
        Series((Tokens(Leaf(OTHERS), 3, 2), Leaf("a"))),
    ),
    "llguidance's others in a row": ('start: <[^3]>* "a"', Series((Leaf(OTHERS), Leaf("a")))),
}


@pytest.mark.parametrize("name", TOKENS)
def test_masks_of_tokens_are_what_enumeration_says(name):
    text, node = TOKENS[name]
    syntax = "gbnf" if text.startswith("root") else "lark"
    constraint = tt.constraints.grammar(text, syntax=syntax, tokens=TEXTS, on_narrowed="ignore")
    assert {each.keyword for each in constraint.narrowed} <= {"token", "excluded token"}
    assert constraint.narrowed
    sequences = accepted(node, VOCAB, 4)
    assert check_masks(tt.gcd(constraint.compile(VOCAB), 5), sequences, 0, 5)


def check_grammar(text, node):
    """Masks within two budgets, and the automaton itself, after a round trip through pickle."""
    constraint = pickle.loads(pickle.dumps(tt.constraints.grammar(text)))
    assert constraint.narrowed == ()
    sequences = accepted(node, VOCAB, 4)
    fa = constraint.compile(VOCAB)
    for horizon in (5, 4):
        assert check_masks(tt.gcd(fa, horizon), sequences, 0, horizon)
    assert all(fa.accepts_tokens([*tokens, 0]) for tokens in sequences)


@pytest.mark.parametrize("name", CASES)
def test_masks_are_what_enumeration_says(name):
    check_grammar(*CASES[name])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("start: x\nx[max_tokens=b]: /b+/", r"not a number of tokens \(at line 2\)"),
        ("start: x\nx[max_tokens]: /b+/", "a number of tokens"),
        ("start: X\nX[max_tokens=2]: /b+/", "give them to a rule"),
    ],
)
def test_what_cannot_be_counted_is_named(text, message):
    with pytest.raises(UnsupportedConstraint, match=message):
        tt.constraints.grammar(text)


@pytest.mark.parametrize(("text", "message"), [("root ::= !<[9]>", r"tokens=\{9: …\}.*line 1")])
def test_what_cannot_be_read_of_tokens_is_named(text, message):
    with pytest.raises(UnsupportedConstraint, match=message):
        tt.constraints.grammar(text, syntax="gbnf", tokens=TEXTS)


def test_the_complement_of_other_tokens_is_refused():
    others = tt.constraints.grammar("root ::= !<[3]>*", syntax="gbnf", tokens=TEXTS, on_narrowed="ignore")
    assert [others.accepts(text) for text in ("ba", "bab")] == [True, False]
    with pytest.raises(UnsupportedConstraint, match="complement"):
        others.__invert__()


def test_reasoning_and_an_answer_finish_within_all_budgets():
    """Random runs over single bytes and a few longer tokens, against the schema and the counts of the parts."""
    letters = [bytes([b]) for b in range(256)]
    more = [b"</", b"ink>", b"</think>", b'{"x', b'": ', b"}}", b"th"]
    vocab = Vocabulary([*letters, *more, None], eos_token_id=len(letters) + len(more))
    text = r"""
        start: thought answer
        thought[max_tokens=12, suffix="</think>"]: /(.|\n)*/
        answer[max_tokens=16]: %json {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"],
                                      "additionalProperties": false}
    """
    query, rng, longest = tt.gcd(tt.constraints.grammar(text).compile(vocab), 27), random.Random(3), 0
    for _ in range(60):
        row, tokens = query.start(), []
        while not tokens or tokens[-1] != vocab.eos_token_id:
            allowed = row.mask()[0].nonzero().flatten().tolist()
            tokens.append(rng.choice(allowed))
            row.advance(tokens[-1:])
        found = b"".join(vocab.token_bytes[token] for token in tokens[:-1])
        thought = found.index(b"</think>") + len(b"</think>")
        ends, at = [], 0
        for token in tokens[:-1]:
            ends.append(at := at + len(vocab.token_bytes[token]))
        assert len(tokens) <= 27
        assert 1 + sum(end < thought for end in ends) <= 12
        assert sum(end > thought for end in ends) <= 16
        longest = max(longest, len(tokens))
        assert tt.constraints.json_schema(
            {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
            whitespace="flexible",
        ).accepts(found[thought:].decode())
    assert longest > 20
