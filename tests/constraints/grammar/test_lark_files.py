"""Lark grammars that import from files, declare terminals, look ahead and indent, against Lark."""

import itertools

import lark
import pytest
from lark.indenter import Indenter, PythonIndenter

import tractile as tt

# ---------------------------------------------------------------- imports


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "other.lark").write_text(
        'a: "x" B\nB: C "!"\nC: /[0-9]/\nshort[max_tokens=3]: /[a-z]+/\n%ignore " "\n%import .sub.deep.E\n%import common.INT'
    )
    (tmp_path / "sub" / "deep.lark").write_text('E: F+\nF: "f"\n%import .leaf.G\n')
    (tmp_path / "sub" / "leaf.lark").write_text('G: "g"\n')
    (tmp_path / "main.lark").write_text(
        'start: a b short | E\nb: "b" C\n%import .other (a, C, short)\n%import .other.E\n'
    )
    (tmp_path / "one.lark").write_text("start: a\n%import .two.a\n")
    (tmp_path / "two.lark").write_text('a: "x"\n%import .one.start\n')
    return tmp_path


def test_files_beside_a_grammar_are_imported_from(folder):
    text = (folder / "main.lark").read_text()
    for c in (tt.constraints.grammar(folder / "main.lark"), tt.constraints.grammar(text, import_from=folder)):
        assert c.accepts("x1!b2abc")
        assert c.accepts("ff")
        assert not c.accepts("x1b2abc")
        assert not c.accepts("x1 !b2abc")  # what another grammar ignores is not imported
    assert tt.constraints.grammar("start: E\n%import sub.deep.E", import_from=[folder]).accepts("ff")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('start: "x"\n%import .missing.a', "missing.lark was looked for in"),
        ('start: "x"\n%import missing.a', "common, lark, python, unicode can be imported from"),
        ('start: "x"\n%import .other.zz', "it has no 'zz'"),
        ("start: start\n%import .one.start", "which imports this one"),
    ],
)
def test_what_is_not_there_to_import_is_named(folder, text, message):
    with pytest.raises(tt.errors.UnsupportedConstraint, match=message):
        tt.constraints.grammar(text, import_from=folder)


# ---------------------------------------------------------------- look-ahead


def parses(parser, word):
    try:
        parser.parse(word)
    # an indenter asserts, and cuts what is not there
    except (lark.exceptions.LarkError, IndexError, AssertionError):
        return False
    return True


# ---------------------------------------------------------------- indentation


class Blocks(Indenter):
    NL_type = "_NL"
    OPEN_PAREN_types = ("LPAR",)
    CLOSE_PAREN_types = ("RPAR",)
    INDENT_type = "_INDENT"
    DEDENT_type = "_DEDENT"
    tab_len = 2


BLOCKS = r"""
start: (_NL | stmt)*
stmt: "a" _NL | "b" _NL _INDENT stmt+ _DEDENT | "(" stuff* ")" _NL
stuff: "a" | "(" stuff ")"
_NL: /(\n[ \t]*)+/
%declare _INDENT _DEDENT
"""


@pytest.mark.parametrize(
    ("more", "pieces", "most"),
    [
        ("", ["a\n", "b\n", " "], 7),
        ("", ["a", "\n", " ", "b"], 6),
        ("", ["b\n", "a\n", "\t", " "], 6),
        ('%ignore " "\n', ["a", "\n", " ", "b"], 6),
        ('%ignore " "\n', ["a", "\n", " ", "(", ")"], 6),
    ],
)
def test_blocks_are_those_of_the_indenter(more, pieces, most):
    c = tt.constraints.grammar(BLOCKS + more, postlex=Blocks(), on_narrowed="ignore")
    parser = lark.Lark(BLOCKS + more, parser="lalr", postlex=Blocks())
    words = itertools.chain(*(itertools.product(pieces, repeat=k) for k in range(most + 1)))
    for word in map("".join, words):
        valid = parses(parser, word)
        if not (valid and word[-1:] in (" ", "\t")):  # blanks after the last line break: narrowed
            assert c.accepts(word) == valid, word
    assert {each.keyword for each in c.narrowed} == {"columns of a block", "blanks after the last line break"}


def test_blocks_have_up_to_forty_columns():
    c = tt.constraints.grammar(BLOCKS, postlex=Blocks(), on_narrowed="ignore")
    assert [c.accepts("b\n" + " " * columns + "a\n") for columns in (40, 41)] == [True, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('start: "a" _INDENT\n_NL: /\\n/\n%declare _INDENT _DEDENT', "no rule has the terminal"),
        (
            'start: ("a" _NL _INDENT)+ "b" _DEDENT\n_NL: /(\\n[ \\t]*)+/\n%declare _INDENT _DEDENT',
            "without its counterpart",
        ),
        ('start: "a" _NL _INDENT "b" _NL _DEDENT\n_NL: "\\n"\n%declare _INDENT _DEDENT', "any blanks"),
    ],
)
def test_what_is_no_block_is_refused(text, message):
    with pytest.raises(tt.errors.UnsupportedConstraint, match=message):
        tt.constraints.grammar(text, postlex=Blocks(), on_narrowed="ignore")
    for other in (object(), type("Own", (Blocks,), {"handle_NL": lambda self, token: ()})()):
        with pytest.raises(tt.errors.UnsupportedConstraint, match="postlex is an indenter"):
            tt.constraints.grammar(text, postlex=other)


def test_terminals_look_ahead_over_the_end_of_a_line():
    text = BLOCKS.replace('stmt: "a"', "stmt: A") + r"A: /a(?!a)/ | /c(?=[ \t]*\n[ \t]*c)/" + "\n"
    c = tt.constraints.grammar(text, postlex=Blocks(), on_narrowed="ignore")
    parser = lark.Lark(text, parser="lalr", postlex=Blocks())
    pieces = ["a\n", "b\n", "c\n", " ", "c"]
    for word in map("".join, itertools.chain(*(itertools.product(pieces, repeat=k) for k in range(6)))):
        if word[-1:] != " ":
            assert c.accepts(word) == parses(parser, word), word
    with pytest.raises(tt.errors.UnsupportedConstraint, match="the columns of the next line"):
        tt.constraints.grammar(text.replace("(?!a)", r"(?=\n  b)"), postlex=Blocks())


def test_larks_python_grammar_reads_the_standard_library():
    import json.scanner
    import keyword
    import textwrap
    from pathlib import Path

    path = Path(lark.__file__).parent / "grammars" / "python.lark"
    c = tt.constraints.grammar(path, start="file_input", postlex=PythonIndenter(), on_narrowed="ignore")
    for module in (keyword, json.scanner, textwrap):
        source = Path(module.__file__).read_text(encoding="utf-8")
        assert c.accepts(source)
        assert not c.accepts(source + "  x = 1\n")
    ids = b"def f(a,\n  b):\n    if a:\n        '''x\n'''\n    return [1,\n2]\n"
    vocab = tt.Vocabulary([None, *(bytes([byte]) for byte in range(256))], eos_token_id=0)
    masks = tt.lcd(c.compile(vocab)).start(batch=1)
    for byte in ids:
        assert masks.mask()[0, byte + 1]
        masks.advance([byte + 1])
    assert masks.mask()[0, 0]
