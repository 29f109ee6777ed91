"""Grammars against Lark's Earley parser, on every short text."""

import pytest
from finite import finite_grammar

import tractile as tt

# ---------------------------------------------------------------- known grammars


def test_what_depth_leaves_out_is_said():
    """And nothing is, where a deeper level adds no text."""

    def narrowed(text, **options):
        return [(n.path, n.given) for n in finite_grammar(text, on_narrowed="ignore", **options).narrowed]

    nested = 'start: x\nx: "a" x "b" | z\nz: "[" z "]" |'
    assert narrowed(nested) == [("", 7)]
    assert narrowed(nested, max_depth=1) == [("", 1)]
    assert narrowed('start: "a" start | "b"') == narrowed('start: start start | "x"') == []
    assert narrowed('start: "a"\nunused: "(" unused ")" |') == []
    with pytest.raises(tt.errors.UnsupportedConstraint, match="narrowed"):
        _ = ~finite_grammar(nested)
    with pytest.raises(tt.errors.UnsupportedConstraint, match="max_depth"):
        finite_grammar(nested, on_narrowed="error")
    with pytest.raises(tt.errors.UnsupportedConstraint, match="on_narrowed"):
        finite_grammar(nested, on_narrowed="never")


def test_without_a_depth_the_largest_that_fits_is_taken():
    """As with schemas; a depth that is asked for is kept, or refused."""
    text = 'start: "x" | ' + " | ".join(f'"{i}" start "{i}"' for i in range(6))
    text += "".join(f' | "s{i}" e "s{i}"' for i in range(6))
    text += "\ne: " + " | ".join(f'"{i}" e "{i}"' for i in range(6)) + ' | "y"'
    c = finite_grammar(text, on_narrowed="ignore")
    assert [(n.keyword, n.given) for n in c.narrowed] == [("max_depth", 1)]
    assert c.accepts("0s2ys20")
    with pytest.raises(tt.errors.TooManyStates):
        finite_grammar(text, max_depth=3)


# ---------------------------------------------------------------- work


@pytest.mark.parametrize(
    ("text", "accepted", "rejected"),
    [
        ("start: " + " ".join(f"[x{i}]" for i in range(100)) + "".join(f'\nx{i}: "{i}."' for i in range(100)),
         ["", "3.98.", "0.99."], ["98.3.", "0.0."]),
        ('start: ("a" | "b" | "c")~1..40', ["a", "abc" * 13], ["", "abc" * 14]),
        ("start: (" + " | ".join(f'"{i}."' for i in range(99)) + ")~100", ["1.98." * 50], ["1.98." * 49, "1.98." * 51]),
    ],
)  # fmt: skip
def test_what_has_exponentially_many_alternatives_is_written_as_it_stands(text, accepted, rejected):
    found = tt.constraints.grammar(text)
    assert [word for word in accepted if not found.accepts(word)] == []
    assert [word for word in rejected if found.accepts(word)] == []


@pytest.mark.parametrize(
    "text",
    [
        "start: A0\n" + "\n".join(f"A{i}: A{i + 1} A{i + 1}" for i in range(40)) + '\nA40: "x"',
        'start: a{"x"}\na{x}: "y" | x a{b{x}}\nb{x}: x x',
        'start: a{"x"}\na{x}: "y" | x a{b{x, x}}\nb{x, y}: x y',
        'start: t0{"x"}\n'
        + "\n".join(f"t{i}{{x}}: t{i + 1}{{a{{x}}}} t{i + 1}{{b{{x}}}}" for i in range(30))
        + '\nt30{x}: x\na{x}: x "a"\nb{x}: x "b"',
    ],
)
def test_what_would_be_written_out_without_end_is_refused(text):
    with pytest.raises(tt.errors.TooManyStates, match="too much work"):
        finite_grammar(text)


def test_names_in_angle_brackets_may_have_square_ones():
    assert finite_grammar("<a[1]> ::= 'x' <b c>\n<b c> ::= 'y'", syntax="ebnf").accepts("xy")
