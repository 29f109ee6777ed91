"""Patterns against ``re.fullmatch``, and the composition of constraints."""

import json
import random
import re
import warnings

import pytest
import regex as unicode_regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from texts import random_texts

import tractile as tt
from tractile.constraints import regex
from tractile.constraints.automata import utf8
from tractile.constraints.regex import characters
from tractile.constraints.regex.syntax import parser


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


# ---------------------------------------------------------------- every short word, where structure matters


@pytest.mark.parametrize(
    ("pattern", "most_states"),
    [
        (r"(?=.*\d)(?=.*[a-z])(?=.*[A-Z])(?=.*[^\w]).{8,64}", 170_000),
        (r"^(?!.*\s)(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?=.*[\W_]).{8,20}$", 50_000),
        (r"^(?=.*[a-z])(?=.*[A-Z])(?=.*\d).{8,20}$", 2_500),
        (r"^(?=.*?[A-Z])(?=.*?[a-z])(?=.*?[0-9])(?=.*?[#?!@$%^&*-]).{8,}$", 600),
        (r"^(?=.*[A-Z])(?=.*[!@#$%^&*])(?=.*[0-9].*[0-9])(?=.*[a-z])\S{8,20}$", 5_500),
        (r"^(?=.*[A-Za-z])(?=.*\d)(?=.*[@$!%*#?&])[A-Za-z\d@$!%*#?&]{8,}$", 600),
        (r"((?=.{8,64}$)(?=.*\d)(?=.*[a-z])(?!.*[<>])).*", 23_000),
    ],
)
def test_rules_for_passwords(pattern, most_states):
    constraint, compiled, rng = regex(pattern), re.compile(pattern), random.Random(pattern)
    assert constraint.bytes_automaton.is_deterministic
    assert constraint.bytes_automaton.num_states <= most_states
    found = set()
    for _ in range(300):
        letters = rng.choice(["aA1!", "aA1!", "aA1!é٣€_", "aA1! <\n-"])
        text = "".join(rng.choices(letters, k=rng.choice([7, 8, 9, 20, 21, 64, 65])))
        expected = compiled.fullmatch(text) is not None
        found.add(expected)
        assert constraint.accepts(text) == expected, text
    assert found == {True, False}
    assert compiled.fullmatch(constraint.shortest())


@pytest.mark.parametrize(
    ("pattern", "most"),
    [(r"(\w+\s?){1,50}", 17_000), (r"(\s*\w+\s*){1,40}", 14_000), ("((a|b){1,100}c?){1,100}", 10_200)],
)
def test_repeats_of_what_may_go_on_are_deterministic(pattern, most):
    """Where a word may end or go on by the same character, the count is no reason for a second path."""
    automaton = regex(pattern).bytes_automaton
    assert automaton.is_deterministic
    assert automaton.num_states < most


@pytest.mark.parametrize("pattern", ["(" * 5000 + "a" + ")" * 5000, "a{99999999999}"])
def test_what_the_parser_cannot_read_is_refused(pattern):
    with pytest.raises(tt.errors.UnsupportedConstraint):
        regex(pattern)


# ---------------------------------------------------------------- what re does not read, against the regex package

SETS = [
    r"\P{L}", r"\pN", r"\p{Script=Greek}", r"\p{IsCyrillic}", r"[^\p{Lu}\p{Zs}x]",
    r"[\w--[\d_]]", r"[[a-z]&&[^a]]|\pN",
    r"[\p{L}&&[^aeiou]]", r"[\p{L}--[\p{ASCII}--\p{Lu}]]", r"[\p{Greek}||[0-9]]", r"\p{Emoji}",
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("pattern", SETS)
def test_properties_and_set_operations(pattern):
    constraint, other = regex(pattern), unicode_regex.compile(pattern, unicode_regex.V1)
    inside = [bool(other.fullmatch(chr(c))) for c in range(0x110000)]
    edges = {c + d for c in range(1, 0x110000) if inside[c] != inside[c - 1] for d in (-1, 0)}
    for c in sorted(edges)[:: 1 + len(edges) // 60]:
        if not 0xD800 <= c < 0xE000:
            assert constraint.accepts(chr(c)) == inside[c], hex(c)


@pytest.mark.slow
def test_patterns_of_the_shared_set(shared_dir):
    """Compiled with the language of ``re`` (or ``regex``), or refused by the name of what is not supported."""
    file = shared_dir / "data/regex_patterns/patterns.half.jsonl"
    if not file.is_file():
        pytest.skip(f"no {file}")
    patterns = [json.loads(line)["regex"] for line in file.read_text().splitlines()]
    refused = "back-reference|conditional|atomic|call of a group|verb|branch reset|escape of Perl"
    compiled = 0
    for pattern in patterns:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            try:
                other = re.compile(re.sub(r"\(\?<(?=\w)", "(?P<", pattern))
            except re.error:
                other = None
        try:
            constraint = regex(pattern)
        except tt.errors.UnsupportedConstraint as error:
            message = str(error)
        except tt.errors.TooManyStates as error:
            message = str(error)
        else:
            message = None
        if message is not None:
            assert re.search(refused, message) or (other is None and "not a regular expression" in message), (
                message
            )
            continue
        compiled += 1
        other = other or unicode_regex.compile(pattern, unicode_regex.V1)
        if not constraint.is_empty():
            for text in [constraint.shortest(), *random_texts(constraint, 1, 6, 30)]:
                both = r"[\w\s]"  # the packages differ about '⒕' and '\x1c'
                alike = re.findall(both, text) == unicode_regex.findall(both, text)
                assert other.fullmatch(text) or not alike, (pattern, text)
    assert compiled >= 95


CONSTRAINTS = ["a*b?", "(ab|é)*", "[^a]*", "(?s).*", "a|b|", "(?i)aé?b{1,2}", r"(?a).*\bb\b.*"]
SAMPLES = st.text(st.sampled_from("abéÉ\n "), max_size=5)


@pytest.mark.long
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


@pytest.mark.parametrize("flags", [re.IGNORECASE, re.IGNORECASE | re.ASCII])
def test_classes_that_ignore_case(flags):
    """They stand for the characters that ``re`` takes, of all there are."""
    dice = random.Random(0)
    odd = sorted(characters.cases())
    parts = [
        r"\w", r"\W", r"\d", r"\S", "k-s", "\\u0130", "\\u212a", "\\U00000200-\\U00000205", "\\U00010400-\\U00010428",
    ]  # fmt: skip
    parts += [f"\\U{dice.choice(odd):08x}" for _ in range(5)]
    for _ in range(12):
        text = f"[{dice.choice(['', '^'])}{''.join(dice.sample(parts, 3))}]"
        expected = [m.span() for m in re.compile(text + "+", flags).finditer(characters.all_characters())]
        found = characters.characters(parser.parse(text, flags)[0], flags)
        assert found == utf8.normalize((low, after - 1) for low, after in expected), text
