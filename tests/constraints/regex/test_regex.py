"""Patterns against ``re.fullmatch``, and the composition of constraints."""

import itertools
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
from tractile.constraints import any_of, literal, regex
from tractile.constraints.automata import utf8
from tractile.constraints.regex import characters
from tractile.constraints.regex.pattern import compile_pattern
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


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?=\b.(.{1,3}a))", r"(?=\b.(.{1,3}a)).*", r"(?!\b.(.{1,3}a)).*", r"a(?=\b.{1,3}a\b.\B).*", r".*(?<=\ba).*(?!\Ba)",
        r"(?:a|(?=\b.{2}a).) ?(?:.(?!\b)|a.*)",
    ],
)  # fmt: skip
def test_look_arounds_with_boundaries(pattern):
    """One that no text meets twice takes little more work than what it looks for."""
    constraint, compiled = regex(pattern), re.compile(pattern)
    for text in map("".join, itertools.chain(*(itertools.product("aé ", repeat=n) for n in range(6)))):
        assert constraint.accepts(text) == (compiled.fullmatch(text) is not None), text


@pytest.mark.parametrize("pattern", [r"(?u:\w)\w", r"(?u:\w\b).", r"(?u:(?a:\w)\w)", r"(?i:k)(?u:(?i:k))"])
def test_of_the_flags_a_and_u_the_last_one_holds(pattern):
    constraint, compiled = regex(pattern, re.ASCII), re.compile(pattern, re.ASCII)
    for text in map("".join, itertools.product("ké!\u212a", repeat=2)):
        assert constraint.accepts(text) == (compiled.fullmatch(text) is not None), text


def test_surrogates_and_broken_utf8_are_no_text():
    assert not regex("(?s).*").accepts("\ud800")
    assert not (~literal("x")).accepts(b"\xff")
    assert not (~literal("x")).accepts(b"\xc3")
    assert not regex("(?s).").accepts(b"\xc0\x80")


def test_look_behind_of_any_width():
    """Which ``re`` does not compile."""
    c = regex(r"a*b*(?<=ab+)c")
    assert [c.accepts(t) for t in ("abc", "abbc", "bbc", "aac", "c")] == [True, True, False, False, False]


def test_flags_argument():
    assert regex("a.B", re.IGNORECASE | re.DOTALL).accepts("A\nb")
    assert regex(" a b # comment", re.VERBOSE).accepts("ab")


# ---------------------------------------------------------------- every short word, where structure matters

SHORT = ["".join(w) for n in range(5) for w in itertools.product("abc", repeat=n)]


def check_short_words(constraint, compiled):
    wrong = [t for t in SHORT if constraint.accepts(t) != bool(compiled.fullmatch(t))]
    assert not wrong, compiled.pattern


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:(?<=a)b|(?<!a)c)", "(?:a(?!b)|b|c(?<=bc))*", "(?:(?=ab)a|b(?<!bb)|c)+", "(?:(?=(?:a(?!b))*c).)*.*",
        "(?=(?:(?:a|b)(?!c))*c)[abc]*", "(?=(?:a(?=b)|b)*)(?:a|b)*", "(?=a(?!c)b?)[abc]*",
    ],
)  # fmt: skip
def test_every_short_word(pattern):
    check_short_words(regex(pattern), re.compile(pattern))


@pytest.mark.parametrize(
    "pattern",
    [
        "(?<x>a|ab)c?", r"\x{61}b\z", r"(?<b>\p{L})[\w--c]",
    ],
)  # fmt: skip
def test_every_short_word_of_other_dialects(pattern):
    compiled = re.compile(r"ab\Z") if "x{61}" in pattern else unicode_regex.compile(pattern, unicode_regex.V1)
    check_short_words(regex(pattern), compiled)


@pytest.mark.parametrize(
    ("pattern", "position"),
    [
        (r"(\w)b\1", 5), (r"(?P<x>a+)(?P=x)", 9), (r"x(?>a\b)", 1), (r"\+(?:a(?=b))*+", 12), ("ab(", 2), ("a**", 2), ("[b-a]", 1),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused_with_its_position(pattern, position):
    with pytest.raises(tt.errors.UnsupportedConstraint) as error:
        regex(pattern)
    assert error.value.path == f"position {position}"


@pytest.mark.parametrize("form", ["(?i){}", "(?i:{})", "{}(?i:)", "(?i:(?-i:{}))"])
@pytest.mark.parametrize("atom", [r"\p{Lu}", r"\P{Lu}", r"\p{Lt}", r"[^\p{Ll}]", r"\p{L}", r"[\p{L}--[é]]"])
def test_properties_where_case_is_ignored(form, atom):
    """`regex` takes the properties of case for "has case" there, and complements that."""
    pattern = form.format(atom)
    constraint, other = regex(pattern), unicode_regex.compile(pattern, unicode_regex.V1)
    for text in ("a", "A", "é", "É", "1", "_", "ſ", "ß", "\u212a", "ǅ", "\u0345", "b", ""):
        assert constraint.accepts(text) == bool(other.fullmatch(text)), text


@pytest.mark.parametrize("form", ["(?a){}", "(?a:{})", "(?a:{}\\w*)", "(?a:(?u:{}))", "{}(?a:)", "(?a:{}){}"])
@pytest.mark.parametrize("atom", [r"\p{L}", r"\P{L}", r"[\p{L}é]", r"[\w--\d]", r"[^\w--\d]", r"[\w&&\p{L}]"])
def test_properties_and_sets_where_letters_are_ascii(form, atom):
    pattern = form.replace("{}", atom)
    constraint, other = regex(pattern), unicode_regex.compile(pattern, unicode_regex.V1)
    for text in ("a", "é", "1", "_", "١", "aé", "éa", "éé", "aa", "1a", ""):
        assert constraint.accepts(text) == bool(other.fullmatch(text)), text


@pytest.mark.parametrize(
    ("pattern", "flags"),
    [
        (r"\p{L}", re.A | re.U), ("a", re.LOCALE), ("a", re.DEBUG), ("a", re.A | re.U), ("(?u)a", re.A), ("a", 1 << 20),
    ],
)  # fmt: skip
def test_flags_that_do_not_fit_are_refused(pattern, flags):
    with pytest.raises(tt.errors.UnsupportedConstraint) as error:
        regex(pattern, flags)
    assert error.value.path == "flags"


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
    "pattern",
    ["^a|b$", "(?m)^a$", "(?m)^a$\n^b$", "^$", "$^", r"\A\B\Z", "(^a)?$", r"^\b.*\b$", "^(?<=b)a$", "$"],
)
def test_anchors_at_the_ends(pattern):
    """In a match of the whole text, and anywhere in the text as JSON Schema reads patterns."""
    compiled, whole = re.compile(pattern, re.ASCII), regex(pattern, re.ASCII)
    searched = re.compile(re.sub(r"\$", r"\\Z", pattern) if "(?m)" not in pattern else pattern, re.ASCII)
    anywhere = compile_pattern(pattern, 0, utf8.utf8, ecma_search=True)
    for text in map("".join, itertools.chain(*(itertools.product("ab\n", repeat=n) for n in range(5)))):
        assert whole.accepts(text) == (compiled.fullmatch(text) is not None), text
        assert anywhere.accepts(text.encode()) == (searched.search(text) is not None), text


@pytest.mark.parametrize(
    "pattern",
    ["(a{1,1000}){1,1000}", "((a{0,100}){0,100}){0,100}", "a{1,500000}", r"(?i)\w{2000}", "(?!.*a.{25}).*"],
)
def test_catastrophic_patterns_are_refused(pattern):
    with pytest.raises(tt.errors.TooManyStates):
        regex(pattern)


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


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"\u{1F600}[\u{1F600}-\x{1F602}]", "😀😁"), (r"[\p{L}\u{2d}\u{D}]{3}", "é-\r"), (r"\p{L}[\\e]", "ée"),
        (r"\p{L}\\e", "é\\e"),
    ],
)  # fmt: skip
def test_escapes_that_name_a_character(pattern, text):
    constraint = regex(pattern)
    assert constraint.accepts(text)
    assert not any(constraint.accepts(text[:i] + "#" + text[i + 1 :]) for i in range(len(text)))


def test_a_pattern_that_re_reads_keeps_its_meaning():
    with pytest.warns(FutureWarning, match="set intersection"):
        compiled = re.compile("[a-z&&[^b]+")
    for text in ("b", "&", "[", "^", "ac", "["):
        assert regex("[a-z&&[^b]+").accepts(text) == bool(compiled.fullmatch(text)), text


@pytest.mark.parametrize(
    ("pattern", "what", "position"),
    [
        (r"a(?R)?b", "call of a group: write", 1), (r"(?<d>(?&d)\d)", "call of a group", 5),
        ("(?(?=(a))a|b)", "conditional group", 0),
        ("(a)?(?(1)b|c)", "conditional group: write its two cases", 4), ("(?(DEFINE)a)b", "conditional group", 0),
        ("(?|(a)|(b))", "branch reset", 0), ("a(*PRUNE)b", "backtracking verb", 1), ("a(?&x)", "call of a group", 1),
        ("a(?>b|c)", "atomic group or possessive repeat: write", 1), ("ab++", "atomic group or possessive repeat", 2),
        (r"(\p{L})\1", "back-reference: write", 7), (r"(a)\g<1>", "back-reference", 3), (r"a\Rb", "escape of Perl's: write", 1),
        (r"a\p{Nonsense}", "no set of characters", 1), (r"[\p{L}--[a]", "does not end", 0),
    ],
)  # fmt: skip
def test_what_other_dialects_have_is_refused_by_name(pattern, what, position):
    with pytest.raises(tt.errors.UnsupportedConstraint, match=what) as error:
        regex(pattern)
    assert error.value.path == f"position {position}"


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


def test_any_of_and_literal():
    c = any_of("yes", "no", regex("maybe|perhaps"))
    assert [c.accepts(t) for t in ("yes", "no", "maybe", "yesno", "")] == [True, True, True, False, False]
    assert literal("a.é\n").accepts("a.é\n")
    assert not literal("a.é\n").accepts("abé\n")
    with pytest.raises(tt.errors.EmptyLanguage):
        any_of()
    with pytest.raises(tt.errors.EmptyLanguage):
        (literal("a") & literal("b")).shortest()
    with pytest.raises(tt.TractileError):
        literal("a").repeat(3, 2)


def test_the_text_of_all_characters_and_those_that_have_a_case():
    assert characters.all_characters() == "".join(map(chr, range(0x110000)))
    assert {c for c in range(0x110000) if chr(c).lower() != chr(c)} <= characters.cases().keys()


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
