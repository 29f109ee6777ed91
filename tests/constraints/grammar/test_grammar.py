"""Grammars against Lark's Earley parser, on every short text."""

import itertools
import re

import lark
import pytest
from finite import finite_grammar

import tractile as tt

# ---------------------------------------------------------------- known grammars


def test_nesting_counts_as_depth_and_chains_do_not():
    text = """
        start: sum
        sum: sum "+" product | product
        product: product "*" atom | atom
        atom: /[0-9]+/ | "-" atom | "(" sum ")"
    """
    for depth in range(4):
        c = tt.constraints.grammar(text, max_depth=depth)
        assert c.accepts("1+2*3" * 20)
        assert c.accepts("-" * 20 + "1")
        assert c.accepts("(" * depth + "1+1" + ")" * depth)
        assert not c.accepts("(" * (depth + 1) + "1" + ")" * (depth + 1))


def test_a_lark_grammar_of_json():
    text = """
        start: value
        value: object | array | ESCAPED_STRING | SIGNED_NUMBER | "true" | "false" | "null"
        array: "[" [value ("," value)*] "]"
        object: "{" [pair ("," pair)*] "}"
        pair: ESCAPED_STRING ":" value
        %import common.ESCAPED_STRING
        %import common.SIGNED_NUMBER
        %import common.WS
        %ignore WS
    """
    c, parser = tt.constraints.grammar(text), lark.Lark(text)
    for word in (
        '{"a" : [1, -2.5e3, {"b\\\\": "\\"x"}] }', "[]", " null", '"a"b"', "[1,]", "{1: 2}", '{"a": "b" "c": 1}', "[[[1]], 2 ]",
    ):  # fmt: skip
        try:
            parser.parse(word)
            valid = True
        except lark.exceptions.LarkError:
            valid = False
        assert c.accepts(word) == valid, word
    assert c.accepts("[" * 5 + "]" * 5)
    assert not c.finite.accepts("[" * 5 + "]" * 5)


def test_lark_terminals_templates_and_flags():
    c = tt.constraints.grammar("""
        start: _list{WORD, ","} "END"i
        _list{item, by}: item (by item)*
        WORD.2: LETTER ("-" LETTER)~1..2
        LETTER: "a".."c"
        COMMENT: /#.*?;/
        %ignore " "
        %ignore COMMENT
    """)
    for word, valid in (("a-b end", True), ("a-b-c , b-aEnD", True), ("a end", False), ("a-b-a-b end", False),
                        ("a-b # x ; end", True), ("a-b # x ; y ; end", False)):  # fmt: skip
        assert c.accepts(word) == valid, word


def test_a_terminal_with_many_optional_letters_of_either_case_is_short():
    found = tt.constraints.grammar("start: /(a?){2,300}b/i")
    wanted = re.compile("[aA]{0,300}[bB]")
    texts = ["b", "B", "aAb", "a" * 300 + "B", "A" * 301 + "b", "a" * 300, "", "ab" * 2, "cb", "éb"]
    assert [found.accepts(text) for text in texts] == [bool(wanted.fullmatch(text)) for text in texts]


@pytest.mark.parametrize(
    ("text", "letters", "length"),
    [
        ('start: "x" "=" "1"\n%import common.CPP_COMMENT\n%ignore CPP_COMMENT', "x=1/\n", 5),
        ("start: A+\nA: /a|ab/", "ab", 6),
        ("start: (A|B)+\nA: /a+?b?/\nB: /ba?/", "ab", 6),
        ("start: A+\nA: /a(?:(?!ab)[ab])*ab/", "ab", 7),
        ("start: A+\nA: /a.*?(?<!a)b/", "ab", 6),
        ('start: (/a/|"b")+\n%ignore /b+/', "ab", 6),
        ('start: ("a"|"b"|"\\n")+\n%ignore /#[^\\n]*/\n%ignore /[ ]+/', "ab\n# ", 4),
        ('start: ("a"|"b")+ "c"\n%ignore /ba*/\n%ignore /ab?c/', "abc", 6),
        ('start: "s"\n%ignore /#b*/\n%ignore /bx*/', "s#bx", 5),
        ('%import common.ESCAPED_STRING\nstart: ESCAPED_STRING+\n%ignore " "', 'a"\\ ', 5),
        ('%import common.WS\n%import common.C_COMMENT\nstart: ("a"|"*")+\n%ignore WS\n%ignore C_COMMENT', "a*/ ", 6),
        ("start: /\\p{L}+/ | /(?<n>a)+/", "aé", 4),
        ('%import common (INT, SIGNED_INT)\n%override INT: "x"\nstart: INT SIGNED_INT', "x1+", 4),
        ('%import common (INT, SIGNED_INT)\n%extend INT: "x" | "yx"\nstart: INT SIGNED_INT', "x1y", 5),
    ],
)  # fmt: skip
def test_terminals_are_lexed_as_lark_lexes_them(text, letters, length):
    """Each the preferred match beside what stands there, or that of a prefix; what is ignored the preferred match alone."""
    parser = lark.Lark(text, parser="earley", lexer="dynamic_complete", regex=True, ambiguity="forest")
    constraint = tt.constraints.grammar(text)
    for word in map(
        "".join, itertools.chain(*(itertools.product(letters, repeat=n) for n in range(length + 1)))
    ):
        try:
            parser.parse(word)
            expected = True
        except lark.exceptions.LarkError:
            expected = False
        assert constraint.accepts(word) == expected, word


def test_gbnf():
    c = tt.constraints.grammar(
        r"""
        # a move list
        root ::= (number ". " move " " move? "\n"){1,2}
        number ::= [1-9] [0-9]*
        move ::= ("O-O" | [NBRQK]? [a-h] [1-8] | "\u265A" .)
                 [+#]?   # check
        """.replace("\n                 [+#]?", " [+#]?"),
        syntax="gbnf",
    )
    for word, valid in (("1. e4 e5\n", True), ("1. e4 e5\n2. Nf3+ \n", True), ("1. e9 e5\n", False), ("01. e4 \n", False),
                        ("1. ♚é O-O#\n", True)):  # fmt: skip
        assert c.accepts(word) == valid, word


@pytest.mark.parametrize(
    ("rules", "good", "bad"),
    [
        ('root ::= a "!"\na ::= "a"{1,-1} (=("!" | "?"))', ["a!", "aaa!"], ["!", "a?"]),
        (r'root ::= [^\0-\x1f]+ "\0"', ["a\0"], ["\x01\0", "a"]),
        ('root ::= "Regex(" [Token(] # Token(7)', ["Regex(T"], ["Regex("]),
    ],
)
def test_gbnf_of_other_writers(rules, good, bad):
    constraint = tt.constraints.grammar(rules + "\n", syntax="gbnf")
    assert [text for text in good if not constraint.accepts(text)] == []
    assert [text for text in bad if constraint.accepts(text)] == []


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ('root ::= Regex("a")', "Regex is not read.*Lark"),
        ('root ::= Substring("a", "b")', "Substring is not read.*substring_chunks"),
        ('root ::= TagDispatch(("<a>", root))', "TagDispatch is not read.*structural_tag"),
        ("root ::= Token(7)", r"Token is not read: write <\[7\]>"),
        ("root ::= ExcludeToken(7)", r"ExcludeToken is not read: write !<\[7\]>"),
        ('root[max_tokens=3] ::= "a"', "attribute of a rule.*max_tokens"),
    ],
)
def test_what_xgrammar_adds_to_gbnf_is_refused_by_name(rules, message):
    with pytest.raises(tt.errors.UnsupportedConstraint, match=message + r".*\(at line 2\)"):
        tt.constraints.grammar("\n" + rules + "\n", syntax="gbnf")


def test_gbnf_names_begin_with_anything():
    c = tt.constraints.grammar('root ::= -kv ("," -kv)*\n-kv ::= 2nd "=" 2nd\n2nd ::= [a-z]', syntax="gbnf")
    assert [c.accepts(t) for t in ("a=b", "a=b,c=d", "a=b,")] == [True, True, False]


def test_ebnf_exceptions_ranges_and_counts():
    c = tt.constraints.grammar(
        """
        (* identifiers *)
        name = letter - 'x', { letter | digit } - reserved ;
        reserved = "if" | "in" ;
        letter = "a" .. "z" ;
        digit = "0" .. "9" ;
        """,
        syntax="ebnf",
    )
    for word, valid in (("aif", False), ("ab1", True), ("xb", False), ("aiff", True), ("a", True)):
        assert c.accepts(word) == valid, word
    c = tt.constraints.grammar("<id> ::= 2 * <d> , /[x-z]+/\n<d> ::= '0' | '1'", syntax="ebnf")
    assert [c.accepts(t) for t in ("01x", "0x", "10zz")] == [True, False, True]


def test_files(tmp_path):
    file = tmp_path / "g.gbnf"
    file.write_text('root ::= "a"')
    assert tt.constraints.grammar(file, syntax="gbnf").accepts("a")
    assert tt.constraints.grammar(str(file), syntax="gbnf").accepts("a")


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


def test_rules_below_others_are_as_deep_as_those():
    """What lies below rules that nest is followed to the whole depth at every depth of those."""
    c = finite_grammar(
        'start: "(" start ")" | deep\ndeep: pair\npair: "[" pair "]" | "x"', on_narrowed="ignore"
    )
    assert c.accepts("(" * 7 + "[" * 7 + "x" + "]" * 7 + ")" * 7)
    assert not c.accepts("[" * 8 + "x" + "]" * 8)


@pytest.mark.parametrize(
    ("text", "settings_", "error", "message"),
    [
        ('start: "a" x\n', {}, tt.errors.UnsupportedConstraint, r"'x' used but not defined.*line 1"),
        ('start: y\n\ny: "a" x\n', {}, tt.errors.UnsupportedConstraint, r"line 3"),
        ('start: ("a"\n', {}, tt.errors.UnsupportedConstraint, "line 1"),
        ('start: "a"\nunused: "\\x"\n', {}, tt.errors.UnsupportedConstraint, r"cannot be read.*line 2"),
        ('start: "a"\nstart: "b"\n', {}, tt.errors.UnsupportedConstraint, r"defined more than once.*line 2"),
        ('start: "a" start\n', {}, tt.errors.EmptyLanguage, ""),
        ('start: "b" | x\nx: "a" x\n', {}, tt.errors.UnsupportedConstraint, r"'x' never ends.*line 2"),
        ("start: A\nA: /(a+)\\1/\n", {}, tt.errors.UnsupportedConstraint, "back-reference: write.*line 2"),
        ("%declare X\nstart: X\n", {}, tt.errors.UnsupportedConstraint, "'X' is declared, and has no pattern"),
        ('begin: "a"\n', {}, tt.errors.UnsupportedConstraint, "start"),
        (
            'root ::= "a" x', {"syntax": "gbnf"}, tt.errors.UnsupportedConstraint, r"'x' is not defined \(at line 1\)",
        ),
        ('root ::= "a"\nx := "b"', {"syntax": "gbnf"}, tt.errors.UnsupportedConstraint, "line 2"),
        (
            'root ::= "a"\nroot ::= "b"', {"syntax": "gbnf"}, tt.errors.UnsupportedConstraint,
            r"on line 1 already \(at line 2\)",
        ),
        (r'root ::= "\q"', {"syntax": "gbnf"}, tt.errors.UnsupportedConstraint, "unknown escape"),
        ('\nstart: "\\ud800"', {}, tt.errors.UnsupportedConstraint, "lone surrogate.*line 2"),
        ("root ::= [z-a]", {"syntax": "gbnf"}, tt.errors.UnsupportedConstraint, "no range"),
        (
            "start: x\nx: A\nA: /a(?!a)a/", {}, tt.errors.EmptyLanguage,
            "'A' matches no text.*line 3",
        ),
        ('start: /\\ba\\b/ "b"', {}, tt.errors.UnsupportedConstraint, "before the terminal.*A & ~B.*line 1"),
        ("start: IF\nIF: /(?<=a)if/", {}, tt.errors.UnsupportedConstraint, "terminal IF.*before the terminal.*line 2"),
        ("start: /(?:(?:a?)*|ab)c?/", {}, tt.errors.UnsupportedConstraint, r"may be empty: write x\*"),
        ("start: /(?>a|ab)c/", {}, tt.errors.UnsupportedConstraint, "atomic"),
        (
            'start: "a" x\nx: %lark { start: "b" }\n%ignore /#.*/',
            {},
            tt.errors.UnsupportedConstraint,
            "ends by itself",
        ),
        ('start: /a*/ "b"\n%ignore /#[^\\n]*/', {}, tt.errors.UnsupportedConstraint, "let it end by itself"),
        (
            "start: x::1\nx::_: /a/ %if true", {}, tt.errors.UnsupportedConstraint, "a rule for each value.*line 1",
        ),
        ("root ::= <[1]>", {"syntax": "gbnf"}, tt.errors.UnsupportedConstraint, r"tokens=\{1: …\}.*line 1"),
        ('main ::= "a"', {"syntax": "gbnf"}, tt.errors.UnsupportedConstraint, "start rule 'root'"),
        ('// rules\nroot ::= "a"', {}, tt.errors.UnsupportedConstraint, 'give syntax="gbnf".*syntax="ebnf"'),
        ("<id> ::= 'a'", {}, tt.errors.UnsupportedConstraint, 'give syntax="gbnf".*syntax="ebnf"'),
        ("a = ? anything ? ;", {"syntax": "ebnf"}, tt.errors.UnsupportedConstraint, "line 1"),
        (
            'a = "x" - b ;\nb = "(", b, ")" | "x" ;', {"syntax": "ebnf"}, tt.errors.UnsupportedConstraint,
            "no regular language",
        ),
        ('a = "x" - "x" ;', {"syntax": "ebnf"}, tt.errors.EmptyLanguage, ""),
        ("missing.lark", {}, tt.errors.FormatError, "missing.lark"),
        ("", {}, tt.errors.UnsupportedConstraint, ""),
        ('start: "a"', {"syntax": "peg"}, tt.errors.UnsupportedConstraint, "syntax"),
        ('start: "a"', {"max_depth": -1}, tt.errors.UnsupportedConstraint, "max_depth"),
        (7, {}, tt.errors.FormatError, "7"),
        (
            "root ::= " + "(" * 3000 + '"a"' + ")" * 3000, {"syntax": "gbnf"}, tt.errors.UnsupportedConstraint, "too deep",
        ),
    ],
)  # fmt: skip
def test_bad_grammars(text, settings_, error, message):
    with pytest.raises(error) as raised:
        finite_grammar(text, **settings_)
    assert re.search(message, str(raised.value)), raised.value


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
