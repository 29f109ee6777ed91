"""Grammars that name tokens: by name and by number, for vocabularies that have them, and for those that do not."""

import copy

import pytest

import tractile as tt
from tractile.constraints import Vocabulary, grammar, json_schema, regex
from tractile.errors import UnsupportedConstraint, VocabularyMismatch

CALL, DONE = 256, 257
PLAIN = Vocabulary([*(bytes([b]) for b in range(256)), None, None, b"ab", None], eos_token_id=259)
VOCAB = PLAIN.with_special({"<|call|>": CALL, "<|done|>": DONE})
LARK = 'start: <|call|> "x"{1,2} <|done|>'
GBNF = 'root ::= <|call|> "x"{1,2} <|done|>'
NUMBERS = {CALL: "<|call|>", DONE: "<|done|>"}


def accepted(constraint, ids):
    return constraint.compile(VOCAB).accepts_tokens([*ids, VOCAB.eos_token_id])


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (LARK, {}),
        (GBNF, {"syntax": "gbnf"}),
        (LARK.replace("<|call|>", f"<[{CALL}]>"), {"tokens": NUMBERS}),
        (GBNF.replace("<|done|>", f"<[{DONE}]>"), {"syntax": "gbnf", "tokens": NUMBERS}),
        (LARK + " | <|call|> start", {}),  # recursive: masks are made as a text is read
    ],
)
def test_a_token_that_a_grammar_names_is_the_only_one_beside_its_spelling(text, options):
    found = grammar(text, **options)
    assert found.accepts("<|call|>xx<|done|>")
    assert accepted(found, [CALL, ord("x"), DONE])
    assert not accepted(found, [CALL, DONE])
    assert accepted(found, [*b"<|call|>", ord("x"), DONE])  # its text, which other tokens may spell
    query = tt.gcd(found.compile(VOCAB), 5).start()
    assert query.mask()[0].nonzero().flatten().tolist() == [CALL]  # too few tokens for the spelling
    assert {each.asked for each in found.narrowed} == {"<|call|>", "<|done|>"}
    assert not any(each.loses_values for each in found.narrowed)


def test_a_vocabulary_without_the_token_is_refused_also_in_compositions():
    found = grammar(LARK)
    for constraint in (found, found | regex("a"), regex("a") + found, copy.copy(found)):
        with pytest.raises(
            VocabularyMismatch, match=r"'<\|call\|>'.*with_special\(\{'<\|call\|>': its id\}\)"
        ):
            constraint.compile(PLAIN)
        assert isinstance(constraint.compile(VOCAB), tt.Automaton)


@pytest.mark.parametrize("number", ["any", "plain"])
def test_complements_leave_out_exponents_only_where_numbers_are_narrowed(number):
    """A token's text is no lack of texts, so ``~`` and ``-`` are exact beside one."""
    found = grammar(LARK)
    for rest in (~found, regex(".*") - found):
        assert [rest.accepts(text) for text in ("1e5", "<|call|>", "<|call|>x<|done|>")] == [
            True,
            True,
            False,
        ]
        assert {each.keyword for each in rest.narrowed} == {"token"}
    both = ~(found | json_schema({"type": "integer", "minimum": 3}, numbers=number))
    assert both.accepts("1e5") == (number == "plain")
    assert {cut.keyword for cut in both.narrowed} == {"token"} | (
        {"complement"} if number == "any" else set()
    )
    with pytest.raises(VocabularyMismatch, match=r"<\|call\|>"):
        (~found).compile(PLAIN)


def test_a_token_that_is_not_special_is_one_too():
    found = grammar('start: <ab> "c"', syntax="lark")
    with pytest.raises(VocabularyMismatch, match="<ab>"):
        found.compile(VOCAB)
    found = grammar('start: <[258]> "c"', tokens={"258": "ab"})  # as JSON has it
    assert accepted(found, [258, ord("c")])


@pytest.mark.parametrize("tokens", [["a"], {"one": "a"}, {1: ""}, {1: b"a"}])
def test_texts_of_tokens_are_checked(tokens):
    with pytest.raises(UnsupportedConstraint, match="texts of tokens by number"):
        grammar(LARK, tokens=tokens)
