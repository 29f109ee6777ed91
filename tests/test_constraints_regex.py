"""Patterns against ``re.fullmatch``, and the composition of constraints."""

import random
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tractile as tt
from tractile.constraints import any_of, literal, regex

# Characters that classes, case folding, boundaries and encodings treat differently.
LETTERS = "abA1_ -\n.éÉßſkK€٣ \U0001f642\U00010ffff\x00"
CLASSES = [
    ".", r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", "[ab]", "[^a]", "[a-z]", r"[\w-]", r"[^\s\d]", "[É-é]", "[^a-y€]", "[.-]",
]  # fmt: skip
ANCHORS = ["^", "$", r"\b", r"\B", r"\A", r"\Z"]
QUANTIFIERS = ["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "{,2}", "*?", "+?", "??", "{1,2}?"]
GROUPS = [
    "({})",
    "(?:{})",
    "(?P<n{count}>{})",
    "(?i:{})",
    "(?s:{})",
    "(?a:{})",
    "(?-i:{})",
    "(?m:{})",
    "(?is-m:{})",
]
FLAGS = ["", "(?i)", "(?s)", "(?m)", "(?a)", "(?im)", "(?x)", "(?ms)"]


@st.composite
def patterns(draw, look_ahead: bool = True) -> str:
    count = 0

    def atom(depth: int) -> str:
        nonlocal count
        kind = draw(st.integers(0, 9 if depth else 5))
        if kind <= 2:
            return re.escape(draw(st.sampled_from(LETTERS)))
        if kind <= 4:
            return draw(st.sampled_from(CLASSES))
        if kind == 5:
            return draw(st.sampled_from(ANCHORS))
        count += 1
        return draw(st.sampled_from(GROUPS)).format(sequence(depth - 1), count=count)

    def sequence(depth: int) -> str:
        parts = []
        for _ in range(draw(st.integers(0, 3))):
            part = atom(depth)
            if part not in ANCHORS and draw(st.booleans()):
                part += draw(st.sampled_from(QUANTIFIERS))
            parts.append(part)
        text = "".join(parts)
        return text + "|" + sequence(depth - 1) if depth and draw(st.integers(0, 3)) == 0 else text

    body = sequence(2)
    if look_ahead and draw(st.integers(0, 4)) == 0:
        inner = re.sub(r"\\[bBA]|(?<!\[)\^", "", sequence(1))  # inside a look-ahead only $ is supported
        body = draw(st.sampled_from(["(?={})", "(?!{})", "a(?!{})", "(?:b|(?={}))", ".?(?!{}$)"])).format(
            inner
        ) + sequence(1)
    return draw(st.sampled_from(FLAGS)) + body


@st.composite
def texts_for(draw, pattern: str) -> str:
    """A random text, or one that is likely to match: a mutated match found by trying the pattern's own characters."""
    own = [c for c in pattern if c in LETTERS] or ["a"]
    return draw(st.text(st.sampled_from([*LETTERS, *own * 3]), max_size=6))


def random_words(constraint, seed: int, count: int) -> list[str]:
    """Accepted texts by random walks over the automaton, given up after 30 bytes."""
    rng, automaton, found = random.Random(seed), constraint.bytes_automaton, []
    accept = set(automaton.accept.tolist())
    for _ in range(count):
        state, word = rng.choice(automaton.start.tolist()), bytearray()
        while len(word) < 30 and not (state in accept and rng.random() < 0.4):
            edges = automaton.edges[automaton.edges[:, 0] == state].tolist()
            if not edges:
                break
            _, low, high, state = rng.choice(edges)
            word.append(rng.randint(low, high))
        if state in accept:
            found.append(word.decode())
    return found


@settings(max_examples=300)
@given(st.data())
def test_same_language_as_fullmatch(data):
    pattern = data.draw(patterns())
    try:
        compiled = re.compile(pattern)
    except re.error:
        return
    constraint = regex(pattern)
    for _ in range(8):
        text = data.draw(texts_for(pattern))
        assert constraint.accepts(text) == (compiled.fullmatch(text) is not None), (pattern, text)
    if not constraint.is_empty():
        for text in [constraint.shortest(), *random_words(constraint, len(pattern), 10)]:
            assert compiled.fullmatch(text), (pattern, text)


@settings(max_examples=150)
@given(patterns(), st.lists(st.text(st.sampled_from("ab \n1_é"), max_size=4), min_size=10, max_size=30))
def test_same_language_on_short_texts(pattern, texts):
    try:
        compiled = re.compile(pattern)
    except re.error:
        return
    constraint = regex(pattern)
    for text in ["", "a", "b", "\n", "a\n", "ab", "a b", *texts]:
        assert constraint.accepts(text) == (compiled.fullmatch(text) is not None), (pattern, text)


@pytest.mark.parametrize(
    "category", [r"\w", r"\d", r"\s", ".", "[^k]", "(?i:k)", "(?i:[^ß])", r"(?a:\w)", "(?i:[a-f])"]
)
def test_every_single_character(category):
    """All characters at every edge of the class, and a sample of the rest (all 1.1 million would take a minute)."""
    constraint, compiled = regex(category), re.compile(category)
    inside = [bool(compiled.fullmatch(chr(c))) for c in range(0x110000)]
    edges = {c + d for c in range(1, 0x110000) if inside[c] != inside[c - 1] for d in (-1, 0)}
    for c in sorted(edges | set(range(0, 0x110000, 397)) | set(range(0x80))):
        if not 0xD800 <= c < 0xE000:
            assert constraint.accepts(chr(c)) == inside[c], hex(c)


def test_surrogates_and_broken_utf8_are_no_text():
    assert not regex("(?s).*").accepts("\ud800")
    assert not (~literal("x")).accepts(b"\xff")
    assert not (~literal("x")).accepts(b"\xc3")
    assert not regex("(?s).").accepts(b"\xc0\x80")


def test_flags_argument():
    assert regex("a.B", re.IGNORECASE | re.DOTALL).accepts("A\nb")
    assert regex(" a b # comment", re.VERBOSE).accepts("ab")


@pytest.mark.parametrize(
    ("pattern", "position"),
    [
        (r"(a)b\1", 4), (r"(?P<x>a)(?P=x)", 8), ("ab(?<=b)c", 2), ("a(?<!b)", 1), ("(a)?(?(1)b|c)", 4), ("x(?>a|b)", 1),
        (r"\+a*+", 3), (r"[*+]a++", 5), ("(?:(?=a)a)*", 3), ("ab(", 2), ("a**", 2), ("[b-a]", 1), (r"(?=\ba)a", 0),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused_with_its_position(pattern, position):
    with pytest.raises(tt.UnsupportedConstraint) as error:
        regex(pattern)
    assert error.value.path == f"position {position}"


def test_catastrophic_repeats_are_refused():
    with pytest.raises(tt.TooManyStates):
        regex("(a{1,1000}){1,1000}")


CONSTRAINTS = ["a*b?", "(ab|é)*", "[^a]*", "(?s).*", "a|b|", "(?i)aé?b{1,2}", r"(?a).*\bb\b.*"]
SAMPLES = st.text(st.sampled_from("abéÉ\n "), max_size=5)


@given(st.sampled_from(CONSTRAINTS), st.sampled_from(CONSTRAINTS), st.sampled_from(CONSTRAINTS), SAMPLES)
@settings(max_examples=100)
@example("a*b?", "[^a]*", "a|b|", "")
def test_composition(p, q, r, text):
    a, b, c = regex(p), regex(q), regex(r)
    x, y, z = (k.accepts(text) for k in (a, b, c))
    assert (a & b).accepts(text) == (x and y)
    assert (a | b).accepts(text) == (x or y)
    assert (~a).accepts(text) == (not x)
    assert (~~a).accepts(text) == x
    assert ((a | b) & ~c).accepts(text) == ((x or y) and not z)
    splits = [(text[:i], text[i:]) for i in range(len(text) + 1)]
    assert (a + b).accepts(text) == any(a.accepts(s) and b.accepts(t) for s, t in splits)
    assert a.repeat(1, 2).accepts(text) == (x or (a + a).accepts(text))
    assert a.repeat(0).accepts(text) == (text == "" or a.repeat(1).accepts(text))


def test_any_of_and_literal():
    c = any_of("yes", "no", regex("maybe|perhaps"))
    assert [c.accepts(t) for t in ("yes", "no", "maybe", "yesno", "")] == [True, True, True, False, False]
    assert literal("a.é\n").accepts("a.é\n")
    assert not literal("a.é\n").accepts("abé\n")
    with pytest.raises(tt.EmptyLanguage):
        any_of()
    with pytest.raises(tt.EmptyLanguage):
        (literal("a") & literal("b")).shortest()
    with pytest.raises(tt.TractileError):
        literal("a").repeat(3, 2)
