"""Vocabularies with odd tokens: masks within budgets against enumeration, and tokenizers with odd entries."""

import itertools
import json
import re

from hypothesis import given
from hypothesis import strategies as st
from parts_oracle import check_masks
from tokenizers import Tokenizer

import tractile as tt
from tractile import constraints
from tractile.constraints import Vocabulary

TOKENS = [
    None, b"", b"a", b"b", b"ab", b"ba", b" ", b"\n", b"\x00", b"\xff", b"\xc3", b"\xa9", "é".encode(), b"\xed\xa0\x80",
    b"\xc0\x80", b"\xf0\x9f", b"\x99\x82", b"a\xc3", b"\xa9b", b"ab" * 512, b"a" * 1_024, b'"' + b"a" * 1_500,
    b"a" * 1_500 + b'"', b'"', b'""', b'"a', b'a"', b'","', b"[", b"]", b'["', b'"]', b"[]", b"1", b"12", b"-", b"0" * 1_100,
    b"{", b"}", b'{"a":', b"\\", b"\\u00",
]  # fmt: skip
PATTERNS = {
    "(ab)*": rb"(?:ab)*", "a*b?": rb"a*b?", "[^a]*": None, ".{1,3}": None, "é|aé": "é|aé".encode(), "(a|b){2,}": rb"[ab]{2,}",
    "a{1020,1030}": rb"a{1020,1030}", "(ab){511,}": rb"(?:ab){511,}", "": rb"", "[ab]*\\x00": rb"[ab]*\x00",
}  # fmt: skip
SCHEMAS = [
    {"type": "string"}, {"type": "string", "maxLength": 3}, {"type": "array", "items": {"type": "string"}},
    {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "maxItems": 2}, {"type": "integer"},
    {"enum": ["a", "ab", 1, 12]}, {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    {"type": ["string", "array"], "maxItems": 0},
]  # fmt: skip
MOST = 3  # tokens of the texts enumerated, end token apart

vocabularies = st.lists(st.sampled_from(TOKENS), min_size=1, max_size=7).flatmap(
    lambda tokens: st.builds(Vocabulary, st.just(tokens), st.integers(0, len(tokens) - 1))
)


def sequences(vocab, accepts):
    """All sequences of at most ``MOST`` tokens, the end token apart, that spell an accepted text."""
    words = [(token, word) for token, word in enumerate(vocab.token_bytes) if word]
    found = set()
    for length in range(MOST + 1):
        for some in itertools.product(words, repeat=length):
            if accepts(b"".join(word for _, word in some)):
                found.add(tuple(token for token, _ in some))
    return found


def check(constraint, vocab, accepts, horizon):
    """The masks of a constraint are those of the sequences that it accepts; without any, an error says so."""
    expected = {tokens for tokens in sequences(vocab, accepts) if len(tokens) < horizon}
    try:
        automaton = constraint.compile(vocab)
        query = tt.gcd(automaton, horizon)
        query.start()
    except (tt.errors.EmptyLanguage, tt.errors.BudgetTooSmall):
        assert not expected
        return
    assert expected
    check_masks(query, expected, vocab.eos_token_id, horizon)
    assert min(map(len, expected)) + 1 == automaton.fewest_after([])


@given(st.sampled_from(sorted(PATTERNS)), vocabularies, st.integers(1, MOST + 1))
def test_masks_of_patterns(pattern, vocab, horizon):
    as_bytes = PATTERNS[pattern]

    def accepts(data):
        if as_bytes is not None:
            return re.fullmatch(as_bytes, data) is not None
        try:
            return re.fullmatch(pattern, data.decode()) is not None
        except UnicodeDecodeError:
            return False

    check(constraints.regex(pattern), vocab, accepts, horizon)


def test_a_token_of_a_kilobyte_does_not_end_searches():
    vocab = tt.Vocabulary([b"b", None, b"ab" * 512], eos_token_id=1)
    query = tt.gcd(constraints.regex("(a|b){2,}").compile(vocab), 3).start()
    assert query.mask().tolist() == [[True, False, True]]


@given(st.sampled_from(SCHEMAS), vocabularies, st.integers(1, MOST + 1))
def test_masks_of_schemas(schema, vocab, horizon):
    constraint = constraints.json_schema(schema, whitespace="none")
    check(constraint, vocab, constraint.accepts, horizon)


@given(vocabularies, st.integers(1, MOST + 1), st.sampled_from(["keywords", "forbidden_words", "grammar"]))
def test_masks_of_words_and_grammars(vocab, horizon, kind):
    if kind == "grammar":
        constraint = constraints.grammar('start: "[" start "]" | "a" start | ')
    else:
        constraint = getattr(constraints, kind)(["ab", "é"])
    check(constraint, vocab, constraint.accepts, horizon)


ENTRIES = [*"abcdefghijĠÃ©▁東ĊĦ", "<0xC3>", "<0xA9>", "<0x00>", "", "a" * 1_024, "</s>", "<unk>"]


@st.composite
def tokenizers(draw):
    """The JSON text of a tokenizer whose vocabulary may have gaps, and special tokens anywhere."""
    entries = draw(st.lists(st.sampled_from(ENTRIES), unique=True, max_size=12))
    ids = draw(st.lists(st.integers(0, 40), unique=True, min_size=len(entries), max_size=len(entries)))
    spaces = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    decoders = [
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        {"type": "Sequence", "decoders": [spaces, {"type": "ByteFallback"}]},
        {"type": "WordPiece", "prefix": "##", "cleanup": True},
        None,
    ]
    decoder = draw(st.sampled_from(decoders))
    special = draw(st.lists(st.sampled_from(entries or ["x"]), unique=True, max_size=3))
    vocab = dict(zip(entries, ids, strict=True))
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [
        {"id": vocab.get(text, 41), "content": text, "special": draw(st.booleans()), **plain}
        for text in special
        if text
    ]
    model = {
        "type": "BPE", "dropout": None, "unk_token": draw(st.sampled_from([None, "<unk>"])), "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": draw(st.booleans()), "vocab": vocab, "merges": [],
    }  # fmt: skip
    absent = ["truncation", "padding", "normalizer", "pre_tokenizer", "post_processor"]
    return json.dumps({
        "version": "1.0", **dict.fromkeys(absent), "added_tokens": added, "decoder": decoder, "model": model
    })  # fmt: skip


@given(tokenizers(), st.none() | st.integers(-1, 45), st.none() | st.integers(0, 60))
def test_tokenizers_are_read_or_refused(text, eos, size):
    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception:  # the library lets no tokenizer be made of it
        return
    try:
        vocab = Vocabulary.from_tokenizer(tokenizer, eos_token_id=eos, size=size)
    except tt.TractileError:
        return
    assert vocab.eos_token_id == eos
    assert all(token is None or token for token in vocab.token_bytes)
    check(constraints.regex("[ab]*"), vocab, lambda data: re.fullmatch(b"[ab]*", data) is not None, 2)
