"""Vocabularies that lack some byte: nothing is left out unsaid, and nothing is left out for want of a byte that no text has."""

import pytest

import tractile as tt

LONG = {"type": "string", "maxLength": 4000}
NO_TEXT = [0xC0, 0xC1, *range(0xF5, 0x100)]


def without(*bytes_, more=()):
    words = [bytes([b]) for b in range(256) if b not in bytes_]
    return tt.Vocabulary([*words, b'"}', b"aa", *more, None], eos_token_id=len(words) + 2 + len(more))


def ids(vocab, text):
    number = {word: i for i, word in enumerate(vocab.token_bytes)}
    return [number[bytes([b])] for b in text] + [vocab.eos_token_id]


@pytest.mark.parametrize("lacking", [[0xFF], [0xC0, 0xFE], NO_TEXT], ids=str)
@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (tt.constraints.json_schema(LONG), b'"' + b"a" * 2000 + b'"'),
        (tt.constraints.json_schema({"type": "array"}), b"[" * 60 + b"]" * 60),
        (tt.constraints.json_schema({"type": "array", "items": {"type": "string"}, "uniqueItems": True}), b'["a", "b", "c"]'),
        (tt.constraints.grammar('start: "(" start ")" | "x"'), b"(" * 60 + b"x" + b")" * 60),
    ],
    ids=["length", "depth", "distinct", "grammar"],
)  # fmt: skip
def test_a_byte_that_no_text_has_is_not_missed(constraint, text, lacking):
    vocab, whole = without(*lacking), without()
    automaton, other = constraint.compile(vocab), constraint.compile(whole)
    assert automaton.narrowed == other.narrowed
    assert not any(cut.loses_values for cut in automaton.narrowed)
    assert automaton.accepts_tokens(ids(vocab, text))
    assert automaton.fewest_after([]) == other.fewest_after([])
    for budget in (automaton.fewest_after([]), len(text) + 1):
        ours, theirs = tt.gcd(automaton, budget).start(), tt.gcd(other, budget).start()
        for byte in text[: 20 if budget > 20 else 1]:
            allowed = [
                {made.token_bytes[i] for i in query.mask()[0].nonzero().flatten().tolist()}
                for query, made in ((ours, vocab), (theirs, whole))
            ]
            assert allowed[0] == allowed[1]
            if bytes([byte]) not in allowed[0]:
                break
            ours.advance(ids(vocab, [byte])[:1])
            theirs.advance(ids(whole, [byte])[:1])


@pytest.mark.parametrize("byte", [0x00, 0x1F, 0x7E, 0x80, 0xC3, 0xF4])
def test_a_vocabulary_without_a_byte_of_texts_has_all_texts_without_it(byte):
    vocab = without(byte)
    schema, deep = tt.constraints.json_schema(LONG), tt.constraints.grammar('start: "(" start ")" | /[^()]/')
    for constraint, text in ((schema, b'"' + b"a" * 4000 + b'"'), (deep, b"(" * 60 + b"x" + b")" * 60)):
        automaton = constraint.compile(vocab)
        assert automaton.narrowed == constraint.narrowed
        assert automaton.accepts_tokens(ids(vocab, text))
        assert not automaton.accepts_tokens(ids(vocab, text[:-1]))
