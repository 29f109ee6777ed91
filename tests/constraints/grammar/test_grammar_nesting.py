"""Grammars that nest to any depth, against enumeration and Python's own parsers."""

import itertools
import json
import random
import re

import pytest
from counting import at_most
from grammars import ARITHMETIC, JSON, STATEMENTS

import tractile as tt
from tractile import constraints
from tractile.constraints import Vocabulary, limits
from tractile.constraints.engine.bytes import Bytes
from tractile.constraints.grammar.bnf import read_bnf
from tractile.constraints.grammar.tree import Call, Choice, Repeat, Series


def states_of(text, **options):
    found = constraints.grammar(text, **options)
    assert not any(cut.loses_values for cut in found.narrowed)
    return Bytes(found.program)


def walk(states, rng, steps):
    """A random beginning of a text, and the state after it."""
    state, text = states.start, b""
    for _ in range(steps):
        moves = states.moves(state)
        if not moves:
            break
        low, _, state = rng.choice(moves)
        text += bytes([low])
    return text, state


def completed(states, rng, steps):
    """A random text: every state on the way to it must have a completion that is accepted."""
    text, state = walk(states, rng, steps)
    rest = states.completion(state)
    assert states.accepts(text + rest), (text, rest)
    return (text + rest).decode()


# ---------------------------------------------------------------- depth


@pytest.mark.parametrize("n", [0, 1, 2, 50, 500])
def test_balanced_letters(n):
    states = states_of('root ::= "a" root "b" | ""', syntax="gbnf")
    assert states.accepts(b"a" * n + b"b" * n)
    assert not states.accepts(b"a" * (n + 1) + b"b" * n)
    assert not states.accepts(b"a" * n + b"b" * (n + 1))


def test_two_kinds_of_brackets_against_a_stack():
    states = states_of('root ::= ("(" root ")" | "[" root "]")*', syntax="gbnf")
    for n in range(9):
        for word in map("".join, itertools.product("()[]", repeat=n)):
            rest = word
            while (shorter := rest.replace("()", "").replace("[]", "")) != rest:
                rest = shorter
            assert states.accepts(word.encode()) == (rest == "")


def test_arithmetic_at_any_depth():
    states, rng = states_of(ARITHMETIC), random.Random(0)
    for _ in range(150):
        text = completed(states, rng, rng.randrange(60))
        compile(re.sub(r"\b0+(?=\d)", "", text), "<text>", "eval")
    assert states.accepts(b"(" * 300 + b"1" + b")" * 300)
    assert not states.accepts(b"(" * 300 + b"1" + b")" * 299)


def test_json_texts():
    states, rng = states_of(JSON), random.Random(1)
    for _ in range(100):
        json.loads(completed(states, rng, rng.randrange(80)), strict=False)
    deep = {"a": [1, {"b": []}, "x\n", None, True, -1.5e-7]}
    for _ in range(20):
        deep = {"a": [deep, {}], "é": deep if len(str(deep)) < 2000 else 0}
    for indent in (None, 2):
        text = json.dumps(deep, indent=indent, ensure_ascii=indent is None)
        assert states.accepts(text.encode())
        assert not states.accepts(text[:-1].encode())
        assert not states.accepts(text.replace(":", ";", 1).encode())


def test_a_small_language_of_statements():
    states, rng = states_of(STATEMENTS, syntax="gbnf"), random.Random(2)
    program = "if (x < 1) { y = f(a, (b + 2) * 3); } else if (z) { } else x = 1;\n"
    assert states.accepts(program.encode() * 20)
    assert not states.accepts((program * 20 + "}").encode())
    for _ in range(60):
        completed(states, rng, rng.randrange(60))


# ---------------------------------------------------------------- left recursion, empty rules, ambiguity


@pytest.mark.parametrize(
    "rules",
    [
        'root ::= root "a" | "b"', 'root ::= x "a" | "b"\nx ::= root | y\ny ::= root "b" | "a"',
        'root ::= e root "a" | "b"\ne ::= "" | "ab"', 'root ::= e e | root root\ne ::= e | "" | "a" e "b"',
        'root ::= x\nx ::= y x | "a"\ny ::= x? "b"?', 'root ::= (root | "a")* "b"', 'root ::= x{2,3}\nx ::= root? "a" | "b"',
        'root ::= "a" root root | ""', 'root ::= (root "b"){0,70} | "a"',
    ],
)  # fmt: skip
def test_recursion_of_all_kinds_against_derivation(rules):
    """Short texts against those that the rules derive, found as a least fixed point of sets of texts."""
    states = states_of(rules, syntax="gbnf")
    expected = derived(rules, 5)
    for n in range(6):
        for word in map("".join, itertools.product("ab", repeat=n)):
            assert states.accepts(word.encode()) == (word in expected), word


def derived(rules, most):
    """The texts of at most so many letters of the first rule."""
    grammar = read_bnf(rules, "gbnf", {}).rules
    texts = {name: set() for name in grammar}

    def of(e):
        if isinstance(e, Call):
            return texts[e.rule]
        if isinstance(e, Choice):
            return set().union(*map(of, e.parts))
        if isinstance(e, Series):
            found = {""}
            for part in e.parts:
                found = joined(found, of(part))
            return found
        if isinstance(e, Repeat):
            once, found, result = of(e.part), {""}, {""} if e.low == 0 else set()
            for count in range(1, (e.high or e.low + most) + 1):
                longer = joined(found, once)
                result |= longer if count >= e.low else set()
                if longer == found:
                    break
                found = longer
            return result
        words = ("".join(w) for n in range(4) for w in itertools.product("ab", repeat=n))
        return {word for word in words if Bytes(e.node).accepts(word.encode())}

    def joined(left, right):
        return {a + b for a in left for b in right if len(a + b) <= most}

    while True:
        before = {name: len(found) for name, found in texts.items()}
        for name, e in grammar.items():
            texts[name] = texts[name] | of(e)
        if {name: len(found) for name, found in texts.items()} == before:
            return texts["root"]


def test_right_recursion_leaves_nothing_on_the_stack():
    states = states_of('root ::= "a" root | "b"', syntax="gbnf")
    first = states.step(states.start, ord("a"))
    assert states.step(first, ord("a")) == first
    assert states.accepts(b"a" * 2000 + b"b")


def test_expressions_without_precedence_stay_small():
    operators = " | ".join(f'root "{sign}" root' for sign in "+-*/<>")
    states = states_of(
        f'root ::= {operators} | "-" root | "(" root ")" | [0-9]+ | root "?" root ":" root', syntax="gbnf"
    )
    text = b"1+-2*3<4?5:6" * 50 + b"0"
    assert states.accepts(text.replace(b"60", b"6+0"))
    assert states.accepts((b"(" * 40 + b"1*2" + b")" * 40 + b"+") * 5 + b"1")


def test_ambiguous_beginnings_are_followed_together_and_bounded():
    rules = "root ::= x | y | z\n" + "\n".join(f'{r} ::= "a" root "{r}" | "b" root' for r in "xyz") + ' | "c"'
    states = states_of(rules, syntax="gbnf")
    assert states.accepts(b"a" * 300 + b"c" + b"xyz" * 100)
    assert states.accepts(b"ab" * 300 + b"c" + b"z" * 300)
    assert not states.accepts(b"a" * 300 + b"c" + b"x" * 299)
    states = states_of('root ::= p "x" | q "y"\np ::= "(" root\nq ::= "(" root "z" | "."', syntax="gbnf")
    assert states.accepts(b"((.yxx")
    assert states.accepts(b"((.yxzy")
    assert not states.accepts(b"((.yx")


def test_ways_that_multiply_share_their_stacks():
    """Each letter begins one of two rules, each of which waits for an end of its own: the ways are 2ⁿ."""
    rules = 'root ::= x | y\nx ::= "a" (x | y) "1" | "c"\ny ::= "a" (y | x) "2" | "c"'
    states = states_of(rules, syntax="gbnf")
    rng = random.Random(5)
    for n in (1, 8, 200):
        ends = "".join(rng.choice("12") for _ in range(n))
        assert states.accepts(b"a" * n + b"c" + ends.encode())
        assert not states.accepts(b"a" * n + b"c" + ends.encode() + b"1")
        at = states.start
        for _ in range(n):
            at = states.step(at, ord("a"))
        assert len(states.completion(at)) == n + 1


def test_levels_that_call_one_another_grow_linearly():
    rules = """
        root ::= root "+" t | t
        t ::= t "*" t | root "?" root ":" root | [a-z]
    """
    states = states_of(rules, syntax="gbnf")
    assert states.accepts(b"a*b*c+d?e:f+" * 15 + b"z")
    assert not states.accepts(b"a*b*c+d?e+f+" * 15 + b"z")


@pytest.mark.parametrize("count", ["{3}", "{2,4}", "{,3}", "{2,}", "{100,200}", "{150,}", "{,100}"])
def test_counted_repeats(count):
    low, high = re.fullmatch(r"\{(\d*),?(\d*)\}", count).groups()
    low, high = int(low or 0), int(high) if high else int(low) if "," not in count else 1000
    for syntax, text in (
        ("gbnf", f'root ::= x{count}\nx ::= "a" | "b" x "c"'),
        ("lark", f'start: x{count}\nx: "a" | "b" x "c"'),
    ):
        states = states_of(text, syntax=syntax)
        for n in {0, 1, low - 1, low, low + 1, high - 1, high, high + 1, 300} - {-1, 1001}:
            assert states.accepts(b"a" * (n // 2) + b"bac" * (n - n // 2)) == (low <= n <= high), n


# ---------------------------------------------------------------- without recursion


@pytest.mark.parametrize(
    ("syntax", "text", "pattern"),
    [
        ("lark", 'start: (A | B "x"?)* C\nA: /a+?b|c/\nB: "b"i\nC: /d{2,3}/\n%ignore / +/',
         "(?: *(?:a+b|c|[bB](?: *x)?))* *d{2,3} *"),
        ("gbnf", 'root ::= [1-9] [0-9]* ". " m (" " m)?\nm ::= "O-O" | [NB]? [a-h] [1-8] [+#]?',
         r"[1-9][0-9]*\. (?:O-O|[NB]?[a-h][1-8][+#]?)(?: (?:O-O|[NB]?[a-h][1-8][+#]?))?"),
        ("ebnf", 'a = (b | c) - ("x", b) ;\nb = "x" | "y", [ b ] ;\nc = { "x" } ;', "(?!xx$)(?:y*x|y+|x*)"),
        ("ebnf", 'a = { "x" | "yz" } - (x, "x", x) ;\nx = { "x" | "y" | "z" } ;', "(?:yz)*"),
    ],
)  # fmt: skip
def test_without_recursion_it_is_a_regular_language(syntax, text, pattern):
    found, expected = constraints.grammar(text, syntax=syntax), constraints.regex(pattern)
    assert found.narrowed == ()
    differs = constraints.difference(found, expected)
    assert (differs.only_first, differs.only_second) == (None, None)
    assert len(found.shortest()) == len(expected.shortest())


def test_differences_are_followed_to_any_depth():
    states = states_of('a = b - "(x)" ;\nb = "(", b, ")" | "x" ;', syntax="ebnf")
    for n in range(40):
        assert states.accepts(b"(" * n + b"x" + b")" * n) == (n != 1)
    inside = states_of('a = "[", (b - "((x))"), "]" | "[", a, "]" ;\nb = "(", b, ")" | "x" ;', syntax="ebnf")
    assert [inside.accepts(text) for text in (b"[[x]]", b"[((x))]", b"[(((x)))]")] == [True, False, True]


# ---------------------------------------------------------------- guides


@pytest.mark.parametrize(
    ("syntax", "text"),
    [
        ("lark", ARITHMETIC),
        ("gbnf", STATEMENTS),
        ("gbnf", 'root ::= x{2,300}\nx ::= "a" | "(" root ")"'),
        ("lark", 'start: "{" start* "}" | "if " "x" | N\nN: /[a-z]+/ & ~/if/\n%ignore /#[^\\n]*/\n%ignore "\\n"'),
        ("lark", 'start: a TEXT\na[suffix="!"]: TEXT\nTEXT: /[a-z]*/'),
    ],
)  # fmt: skip
def test_guides_accept_every_text(syntax, text):
    constraint, rng = constraints.grammar(text, syntax=syntax), random.Random(4)
    coarse, states = constraint.regular(200), Bytes(constraint.program)
    assert coarse.num_states <= 400
    for _ in range(60):
        assert coarse.accepts(completed(states, rng, rng.randrange(60)).encode())


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("text", "options", "error", "message"),
    [
        ("start: x", {}, tt.errors.UnsupportedConstraint, "x"),
        ("root ::= root", {"syntax": "gbnf"}, tt.errors.EmptyLanguage, "never ends"),
        ("root ::= <[12]>", {"syntax": "gbnf"}, tt.errors.UnsupportedConstraint, "text of the token 12"),
        ("start: <[2,x]> /x/", {}, tt.errors.UnsupportedConstraint, "names no tokens"),
        ("start: A\nA: <|a|>", {}, tt.errors.UnsupportedConstraint, "cannot stand in a terminal"),
        ('root ::= "a"', {}, tt.errors.UnsupportedConstraint, 'give syntax="gbnf"'),
        ("start: @other", {}, tt.errors.UnsupportedConstraint, "another grammar"),
        ('start: %json {"type": }', {}, tt.errors.UnsupportedConstraint, "no JSON"),
        ('start: %regex {"a": 1}', {}, tt.errors.UnsupportedConstraint, "substring"),
        ("start: A\nA: /a/ & b\nb: /a/", {}, tt.errors.UnsupportedConstraint, "no terminal"),
        (
            'start: A\nA: %lark { start: "a" }', {}, tt.errors.UnsupportedConstraint,
            "%lark cannot stand in a terminal.*line 2",
        ),
        (
            'start: "a"\n  | %lark { start: "a"', {}, tt.errors.UnsupportedConstraint, "no grammar in braces.*line 2",
        ),
        ('start: %lark "a"', {}, tt.errors.UnsupportedConstraint, "no grammar in braces"),
        (
            "start: %lark {\n  start: b }", {}, tt.errors.UnsupportedConstraint, r"'b' used but not defined.*line 2",
        ),
        (
            'start: "a"\n | %lark { y: "a" }', {}, tt.errors.UnsupportedConstraint, "has no rule 'start'.*line 2",
        ),
        ('%llguidance {"ignore_once": true}\nstart: "a"', {}, tt.errors.UnsupportedConstraint, "ignore_once"),
        (
            'a = "x" - b ;\nb = "(", b, ")" | "x" ;', {"syntax": "ebnf"}, tt.errors.UnsupportedConstraint,
            "no regular language.*line 1",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(text, options, error, message):
    with pytest.raises(error, match=message):
        constraints.grammar(text, **options)


# ---------------------------------------------------------------- Lark as llguidance writes it


@pytest.mark.parametrize(
    ("text", "accepted", "rejected"),
    [
        ('start: foo-bar{2} FOO-BAR{,2}\nfoo-bar: "a"\nFOO-BAR: "b"', ["aa", "aab", "aabb"], ["a", "aabbb"]),
        ('start: ("a" | "b" "c"){2,3} "d"{2,}', ["abcdd", "aaaddd"], ["add", "aad", "aaaadd"]),
        ("start: A\nA: /[a-c]+/ & ~/(?s:.*)bb(?s:.*)/", ["abab", "b"], ["abba", "", "d"]),
        ('start: A\nA: ~B & /[xy]{0,2}/ | "z"\nB: "x" | C+\nC: "y"', ["", "xx", "xy", "z"], ["x", "y", "yy"]),
        ('start: %regex {"substring_words": "foo bar. baz"}', ["", "foo", "bar. baz", " "], ["fo", "foo."]),
        ('start: %regex {"substring_chars": "abc"} "!"', ["!", "bc!"], ["ac!"]),
        ('start: %regex {"substring_chunks": ["ab", "c"]} "!"', ["!", "abc!", "c!"], ["b!"]),
        ('start: a "z"\na[suffix="<e>", capture="x"]: /.*/', ["foo<e>z"], ["fooz", "a<e>b<e>z"]),
        ('start: a /.*/\na[lazy]: /[a-z]*!/', ["ab!x!"], ["ab"]),
        ('start: a "b"\na[stop=/!+/, temperature=0.5]: /[a-z]*/', ["foo!b"], ["foob", "foo!!b"]),
        ('start: a\na: b | "x" a\nb: %json {"const": {"k": 1}}', ['xx{"k": 1}', '{"k":1}'], ["x"]),
        ('start: /a*/ "" "b" /c?/', ["b", "aabc"], ["a", ""]),
        ('start: camelCase\ncamelCase: /\\u{1F600}/', ["\U0001f600"], ["u"]),
        ('%llguidance {"no_forcing": true}\nstart: "a" // comment\n  | "b" # another', ["a", "b"], ["ab"]),
        ('start: pair{A}{2}\npair{x}: x x\nA: "a"', ["aaaa"], ["aa"]),
        ('start: "a" x "!"\n%ignore " "\nx: %lark {\n start: "k" "l"\n%ignore ","\n}', ["akl!", "a k,l, !"], ["ak l!", "akl"]),
        ('start: x y\nx: %lark { start: a\n a: "k" }\ny: %lark { start: "y" a\n a: "l" }', ["kyl"], ["kyk"]),
        ('start: %lark { start: "{" pair{A} "}"\npair{x}: x{2} // }\nA: /[}]/ } "z"', ["{}}}z"], ["{}}}", "{}}z"]),
        ('start: "[" %lark { start: "(" start ")" | "x" %lark { start: "y" } } "]"', ["[((xy))]"], ["[((x))]", "[(xy]"]),
        ('start: %lark { start: x /.*/\nx[lazy]: /[a-z]*!/ } "."', ["ab!x!."], ["ab.", "ab!x"]),
    ],
)  # fmt: skip
def test_lark_as_llguidance_writes_it(text, accepted, rejected):
    states = states_of(text)
    for word in accepted:
        assert states.accepts(word.encode()), word
    for word in rejected:
        assert not states.accepts(word.encode()), word


def test_a_text_that_triggers_a_rule_is_given_to_it():
    text = r"""
        start: (foo | bar)* TEXT
        TEXT: /(.|\n)*/
        foo_head[lazy]: TEXT "<function"
        foo: foo_head "=foo>" inner "</function>"
        bar_head[lazy]: TEXT "<function"
        bar: bar_head "=bar>" /[0-9]+/ "</function>"
        inner: "(" inner ")" | "x"
    """
    states = states_of(text)
    for word in (
        "",
        "some text",
        "a <function=bar>12</function>\nb",
        "<function=foo>((x))</function><function",
        "<func",
    ):
        assert states.accepts(word.encode()) == (not word.endswith("<function")), word
    assert not states.accepts(b"<function=foo>12</function>")
    assert not states.accepts(b"a <function= b")


def test_a_grammar_of_many_readings_is_written_out_within_the_limits_of_work(monkeypatch):
    """A vocabulary without some bytes needs the finite part, whose search for states counts its work."""
    ascii_only = Vocabulary([*(bytes([b]) for b in range(128)), b"ab", None], 129)
    grammar = 'start: "a" start* | "b"\n%ignore / +/\n'
    monkeypatch.setattr(limits, "WORK", 50_000)
    with at_most(20 * limits.WORK):
        compiled = constraints.grammar(grammar, on_narrowed="ignore").compile(ascii_only)
    assert [tt.gcd(compiled, 4).start().mask()[0, token].item() for token in b"ab c"] == [
        True,
        True,
        True,
        False,
    ]
