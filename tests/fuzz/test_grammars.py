"""Random grammars: Lark's against its own Earley parser on every short text, GBNF and EBNF against a recogniser written here."""

import itertools
from functools import cache

import lark
from hypothesis import given
from hypothesis import strategies as st

import tractile as tt
from tractile.constraints.engine.bytes import Bytes

LETTERS = "ab "
TEXTS = ["".join(letters) for n in range(6) for letters in itertools.product(LETTERS, repeat=n)]

REGEXES = [
    "a", "b", "ab", "a+", "b+", "[ab]", "[^a]", "a|ab", "ab|a", "a+?b?", "a??b",
    "(?:ab?)+", "(?:a|ab)(?:b|bba)", " +", " ", "[ab]+ ?", "a*b", "(?:a*)*b",
    "(?:a|b )+?b", ".", "[^ ]+", "a{1,2}", "a(?i:B)",
]  # fmt: skip
LOOKING = ["a.*?(?<!a)b", "a(?:(?!ab)[ab])*ab", "[ab]*?b(?<=ab)", "a(?=b)b", "a(?!b)[ab]b"]


# ---------------------------------------------------------------- Lark's format


@st.composite
def lark_grammars(draw) -> str:
    """Rules over terminals with regular expressions, with templates, repeats, what is ignored, and recursion."""
    regexes = st.sampled_from([*REGEXES, *LOOKING] if draw(st.integers(0, 3)) == 0 else REGEXES)
    names = ["A", "B", "C"][: draw(st.integers(1, 3))]
    terminals = {name: draw(terminal_bodies(regexes)) for name in names}
    atoms = [*names, '"a"', '"b"', '"ab"', '" "', '"a"i', "x", "y", "start", "pair{A}", "pair{x}"]

    def expression(depth: int) -> str:
        kind = draw(st.integers(0, 6)) if depth else 0
        if kind <= 2:
            return draw(st.sampled_from(atoms))
        if kind == 3:
            return f"({expression(depth - 1)} | {expression(depth - 1)})"
        if kind == 4:
            return (
                f"({expression(depth - 1)}){draw(st.sampled_from(['*', '+', '?', '~2', '~1..2', '~0..1']))}"
            )
        if kind == 5:
            return f"[{expression(depth - 1)}]"
        return f"{expression(depth - 1)} {expression(depth - 1)}"

    lines = [f"start: {expression(2)}"]
    lines += [f"{rule}: {expression(2)}{draw(st.sampled_from(['', ' |']))}" for rule in ("x", "y")]
    lines += ["pair{item}: item item"]
    lines += [f"{name}: {body}" for name, body in terminals.items()]
    lines += [
        f"%ignore {draw(st.sampled_from([*names, '/' + draw(regexes) + '/', '/ +/']))}"
        for _ in range(draw(st.integers(0, 2)))
    ]
    return "\n".join(lines)


@st.composite
def terminal_bodies(draw, regexes) -> str:
    """A regular expression, or what Lark makes one of."""
    one = st.one_of(regexes.map(lambda r: f"/{r}/"), st.sampled_from(['"a"', '"ab"', '"b"i', '"a".."b"']))
    kind = draw(st.integers(0, 4))
    if kind <= 2:
        return draw(one)
    if kind == 3:
        return f"{draw(one)} | {draw(one)}"
    return f"{draw(one)} {draw(one)}{draw(st.sampled_from(['', '+', '?']))}"


def lark_parser(text: str):
    """Lark's own parser, or None where it refuses the grammar."""
    try:
        return lark.Lark(text, parser="earley", lexer="dynamic_complete", regex=True, ambiguity="forest")
    except Exception:  # lark lets errors of `re` and of its own tables through
        return None


def parses(parser, word: str) -> bool:
    try:
        parser.parse(word)
    except lark.exceptions.LarkError:
        return False
    except RuntimeError as error:  # of lark's own: accepted in more than one way
        if "multiple start symbol items" not in str(error):
            raise
    return True


@given(
    lark_grammars(),
    st.lists(st.sampled_from(TEXTS), min_size=8, max_size=8),
    st.randoms(use_true_random=False),
)
def test_lark_grammars_against_lark(text, words, rng):
    """At any depth, so nothing is narrowed."""
    parser = lark_parser(text)
    try:
        constraint = tt.constraints.grammar(text)
    except tt.errors.EmptyLanguage:
        assert parser is None or not any(parses(parser, word) for word in words), text
        return
    except tt.TractileError:
        return
    states = Bytes(constraint.program)
    assert not constraint.narrowed
    if parser is None:  # which refuses terminals that may be empty
        random_text(states, rng, text)
        return
    own = itertools.islice((word for word in TEXTS if states.accepts(word.encode())), 0, 40, 5)
    for word in [*words, *own, *(random_text(states, rng, text) for _ in range(3))]:
        assert states.accepts(word.encode()) == parses(parser, word), (text, word)


def random_text(states, rng, grammar) -> str:
    """A text from a random beginning and its completion, which must be accepted."""
    word, state = b"", states.start
    for _ in range(rng.randrange(10)):
        moves = states.moves(state)
        if moves:
            low, high, state = rng.choice(moves)
            word += bytes([rng.randint(low, high)])
    word += states.completion(state)
    assert states.accepts(word), (grammar, word)
    return word.decode()


# ---------------------------------------------------------------- GBNF and EBNF


@st.composite
def expressions(draw, depth: int = 2):
    """An expression over characters and the rules 0, 1, 2, as a tree."""
    kind = draw(st.integers(0, 6 if depth else 2))
    if kind == 0:
        return ("text", draw(st.sampled_from(["a", "b", "ab", "é", "a b"])))
    if kind == 1:
        return ("class", draw(st.sampled_from([("ab", False), ("a", True), ("a-é", False)])))
    if kind == 2:
        return ("call", draw(st.integers(0, 2)))
    if kind == 3:
        return ("choice", draw(expressions(depth - 1)), draw(expressions(depth - 1)))
    if kind == 4:
        low = draw(st.integers(0, 2))
        high = draw(st.sampled_from([None, low, low + 1]))
        return ("repeat", draw(expressions(depth - 1)), low, high)
    return ("series", draw(expressions(depth - 1)), draw(expressions(depth - 1)))


def gbnf(e) -> str:
    match e:
        case ("text", word):
            return '"' + word.replace("é", "\\xe9") + '"'
        case ("class", (inside, negated)):
            return f"[{'^' * negated}{inside}]"
        case ("call", rule):
            return f"r{rule}"
        case ("choice", left, right):
            return f"({gbnf(left)} | {gbnf(right)})"
        case ("repeat", inner, low, high):
            sign = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, high))
            return f"({gbnf(inner)}){sign or f'{{{low},{high if high is not None else str()}}}'}"
        case ("series", left, right):
            return f"{gbnf(left)} {gbnf(right)}"


def ebnf(e) -> str:
    match e:
        case ("text", word):
            return f"'{word}'"
        case ("class", (inside, negated)):
            return f"/[{'^' * negated}{inside}]/"
        case ("call", rule):
            return f"r{rule}"
        case ("choice", left, right):
            return f"({ebnf(left)} | {ebnf(right)})"
        case ("repeat", inner, low, high):
            body = ebnf(inner)
            more = f"{{ {body} }}" if high is None else ", ".join([f"[ {body} ]"] * (high - low))
            return ", ".join([part for part in (f"{low} * ({body})" if low else "", more) if part]) or "''"
        case ("series", left, right):
            return f"{ebnf(left)}, {ebnf(right)}"


def recogniser(rules):
    """Whether a text is one of rule 0: spans of the text that expressions stand for, found as a least fixed point."""

    def accepts(word: str) -> bool:
        size = len(word)
        spans = [set() for _ in rules]  # of each rule, the (start, end) it stands for

        def once(e) -> set:
            match e:
                case ("text", text):
                    return {(i, i + len(text)) for i in range(size + 1) if word.startswith(text, i)}
                case ("class", (inside, negated)):
                    members = [chr(c) for c in range(ord("a"), ord("é") + 1)] if "-" in inside else inside
                    return {(i, i + 1) for i in range(size) if (word[i] in members) != negated}
                case ("call", rule):
                    return spans[rule]
                case ("choice", left, right):
                    return once(left) | once(right)
                case ("series", left, right):
                    return joined(once(left), once(right))
                case ("repeat", inner, low, high):
                    part, empty = once(inner), {(i, i) for i in range(size + 1)}
                    found, result = empty, set(empty) if low == 0 else set()
                    for count in range(1, (high if high is not None else low + size) + 1):
                        found = joined(found, part)
                        result |= found if count >= low else set()
                    return result

        while True:
            before = [len(s) for s in spans]
            for rule, body in enumerate(rules):
                spans[rule] = spans[rule] | once(body)
            if [len(s) for s in spans] == before:
                return (0, size) in spans[0]

    return cache(accepts)


def joined(left: set, right: set) -> set:
    return {(i, k) for i, j in left for j2, k in right if j == j2}


WORDS = st.text(st.sampled_from("abé "), max_size=6)


@given(
    st.sampled_from(["gbnf", "ebnf"]),
    st.tuples(*[expressions()] * 3),
    st.lists(WORDS, min_size=8, max_size=8),
    st.randoms(use_true_random=False),
)
def test_bnf_grammars_against_a_recogniser(syntax, rules, words, rng):
    write, sign, end = (gbnf, "::=", "") if syntax == "gbnf" else (ebnf, "=", " ;")
    text = "\n".join(f"r{i} {sign} {write(rule)}{end}" for i, rule in enumerate(rules))
    accepts = recogniser(rules)
    try:
        constraint = tt.constraints.grammar(text, syntax=syntax, start="r0")
    except tt.errors.EmptyLanguage:
        assert not any(map(accepts, words)), text
        return
    except tt.TractileError:
        return
    states = Bytes(constraint.program)
    assert not constraint.narrowed
    for word in [*words, *(random_text(states, rng, text) for _ in range(3))]:
        if len(word) <= 30:
            assert states.accepts(word.encode()) == accepts(word), (text, word)


# ---------------------------------------------------------------- walks within budgets


PIECES = st.lists(st.text(st.sampled_from("ab é"), min_size=2, max_size=3), max_size=8, unique=True)


@given(st.tuples(*[expressions()] * 3), PIECES, st.integers(0, 120), st.randoms(use_true_random=False))
def test_walks_from_the_least_budget_on_end_in_time(rules, pieces, more, rng):
    """Random tokens of the masks, which straddle rules; where several readings call one rule, too."""
    text = "\n".join(f"r{i} ::= {gbnf(rule)}" for i, rule in enumerate(rules))
    words = [*(bytes([byte]) for byte in range(256)), *(piece.encode() for piece in pieces)]
    words = list(dict.fromkeys(words))
    vocab = tt.Vocabulary([*words, None], eos_token_id=len(words))
    try:
        constraint = tt.constraints.grammar(text, syntax="gbnf", start="r0", on_narrowed="ignore")
        automaton = constraint.compile(vocab)
    except tt.TractileError:
        return
    try:
        query = tt.gcd(automaton, horizon=400)
        least = int(query.feasible_lengths().nonzero()[0, 0])
        budget = least + more
        query.start(budgets=budget)
        written = b""
        for left in range(budget, 0, -1):
            allowed = query.mask()[0].nonzero()[:, 0].tolist()
            assert allowed, (text, pieces, written, left)
            token = rng.choice(allowed)
            query.advance([token])
            if token == vocab.eos_token_id:
                break
            written += words[token]
        assert token == vocab.eos_token_id, (text, pieces, written)
    except tt.errors.TooManyStates:  # an ambiguous text
        return
    assert constraint.accepts(written.decode()), (text, pieces, written)
