"""Random patterns against `re`, and against `regex` where that reads more."""

import itertools
import re
import warnings

import regex as unicode_regex
from hypothesis import example, given
from hypothesis import strategies as st

import tractile as tt
from tractile.constraints import regex

LETTERS = "abA1_ -\n.éÉſßK\u212a٣€\U0001f642"  # told apart by classes, by case, by boundaries and by encoding
SHORT = ["".join(letters) for n in range(4) for letters in itertools.product("abA é\n", repeat=n)]
CLASSES = [
    ".", r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", "[ab]", "[^a]", "[a-z]", r"[\w-]", r"[^\s\d]", "[É-é]", r"[^\W\d_]", "[^a-y€]",
]  # fmt: skip
ANCHORS = ["^", "$", r"\b", r"\B", r"\A", r"\Z"]
QUANTIFIERS = ["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "+?", "??", "{1,2}?"]
SCOPES = ["(?i:{})", "(?s:{})", "(?a:{})", "(?u:{})", "(?-i:{})", "(?m:{})", "(?ai:{})", "(?u-m:{})"]
LOOKS = ["(?={})", "(?!{})", "a(?!{})", "(?:b|(?={}))", ".?(?!{}$)", "(?:(?={})[ab])*", "(?:.(?<=ab))*(?={})"]
BEHIND = ["a", "ab", ".", "[^a]b", "a|b", r"\b", "^", r"a\b.", "(?=a)."]
FLAGS = [0, 0, re.A, re.I, re.S, re.M, re.I | re.A, re.X]


@st.composite
def patterns(draw, more=()) -> str:
    """A pattern that `re` reads, or, with `more` atoms and forms, one for `regex`."""

    def atom(depth: int) -> str:
        kind = draw(st.integers(0, 10 if depth else 5))
        if kind <= 2:
            return re.escape(draw(st.sampled_from(LETTERS)))
        if kind <= 4:
            return draw(st.sampled_from([*CLASSES, *more]))
        if kind == 5:
            return draw(st.sampled_from(ANCHORS))
        if kind == 6:
            return f"(?:{choice(depth - 1)})"
        if kind == 7:
            return draw(st.sampled_from(SCOPES)).format(choice(depth - 1))
        if kind == 8:
            return draw(st.sampled_from(LOOKS)).format(choice(depth - 1))
        if kind == 9:
            sign = draw(st.sampled_from(["=", "!"]))
            return f"(?<{sign}{draw(st.sampled_from(BEHIND))})"
        return f"({choice(depth - 1)})"

    def sequence(depth: int) -> str:
        parts = []
        for _ in range(draw(st.integers(0, 3))):
            part = atom(depth)
            if part not in ANCHORS and draw(st.booleans()):
                part += draw(st.sampled_from(QUANTIFIERS))
            parts.append(part)
        return "".join(parts)

    def choice(depth: int) -> str:
        return "|".join(sequence(depth) for _ in range(draw(st.sampled_from([1, 1, 1, 2]))))

    return choice(2)


def compiled(package, pattern: str, flags: int):
    """The pattern of `re` or `regex`; None where the package refuses it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return package.compile(pattern, flags)
        except (re.error, unicode_regex.error, ValueError, OverflowError):
            return None


def tried(pattern: str, flags: int = 0):
    """The constraint; None where it is refused by a typed error."""
    try:
        return regex(pattern, flags)
    except (tt.errors.UnsupportedConstraint, tt.errors.TooManyStates):
        return None


def same(constraint, other, words) -> None:
    """That both match the same of the words, and of the shortest word of the constraint.

    Not asked: of `regex` letters beyond those here, since packages differ about what new versions of Unicode added, and
    `\\B` in an empty text, where `re` has none.
    """
    shortest = "" if constraint.is_empty() else constraint.shortest()
    known = set(shortest) <= set(LETTERS)
    for word in [*words, *([shortest] if known or other.__class__ is re.Pattern else [])]:
        if not word and r"\B" in other.pattern and other.__class__ is not re.Pattern:
            continue
        assert constraint.accepts(word) == (other.fullmatch(word) is not None), (
            other.pattern,
            other.flags,
            word,
        )


WORDS = st.lists(st.text(st.sampled_from(LETTERS), max_size=5), min_size=6, max_size=6)


@given(patterns(), st.sampled_from(FLAGS), WORDS, st.integers(0, 9))
def test_patterns_against_re(pattern, flags, words, some):
    other = compiled(re, pattern, flags)
    constraint = tried(pattern, flags)
    if other is not None and constraint is not None:
        same(constraint, other, [*words, *SHORT[some::10]])


MORE = [r"\p{L}", r"\P{Lu}", r"[\p{L}--[é]]", r"[[a-z]&&[^a]]", r"[\w--\d]", r"\p{Greek}", r"[\p{N}_]"]


@example(r"(?:)\B|(?=\p{L})", [], 0)
@example(r"(?a:[\w--\d])*", ["Aéb"], 0)
@given(patterns(more=MORE), WORDS, st.integers(0, 9))
def test_extensions_against_regex(pattern, words, some):
    """Patterns that `re` does not read mean what they mean to `regex`. In an empty text there is no `\\B`, as in `re`."""
    if (
        compiled(re, pattern, 0) is not None or "(?ai:" in pattern
    ):  # with both, `regex` folds "ſ" to "s", `re` does not
        return
    other = compiled(unicode_regex, pattern, unicode_regex.V1)
    constraint = tried(pattern)
    if other is not None and constraint is not None:
        same(constraint, other, [*words, *SHORT[some::10]])


@given(
    st.text(st.sampled_from(r"ab(?:=!<>|)[]{}^$\*+.-,:12pLnPcJuxeRGK&iasu#"), max_size=12),
    st.integers(0, 1 << 9),
)
def test_any_text_is_compiled_or_refused_by_name(pattern, flags):
    constraint = tried(pattern, flags)
    other = compiled(re, pattern, flags)
    if constraint is not None and other is not None:
        same(constraint, other, ["", "a", "b", "ab", "\n", "é"])
