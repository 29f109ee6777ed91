"""What strangers send: evidence of odd shapes and values, and mutated grammars, database schemas, JSON Schemas and patterns.

Each is answered, or refused with a typed error; what is answered is a number, and what is built can be asked for a mask.
"""

import json
import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_schemas import documents

import tractile as tt
from tractile import constraints
from tractile.constraints import Vocabulary
from tractile.layers import Categorical, Dense, Hadamard, Sum

VOCAB = Vocabulary(
    [*(bytes([b]) for b in range(128)), b'{"', b'":', b"ab", b"SELECT", None], eos_token_id=132
)


def tried(build):
    """Build a constraint and ask for its first masks, or see a typed error."""
    try:
        constraint = build()
        automaton = constraint.compile(VOCAB)
        query = tt.gcd(automaton, 300).start()
        for _ in range(3):
            allowed = query.mask()[0].nonzero().flatten()
            assert len(allowed)
            query.advance([int(allowed[0])])
    except tt.TractileError:
        return


# ---------------------------------------------------------------- evidence

ENTRIES = st.sampled_from(
    [0, 1, 2, 3, -1, -2, 10**12, 0.5, -0.5, 1e308, 1e-320, math.nan, math.inf, -math.inf, True, None, "a"]
)
DTYPES = [
    torch.int8, torch.int64, torch.int32, torch.uint8, torch.bool, torch.float16, torch.float32, torch.float64,
    torch.complex64,
]  # fmt: skip
NUMBERS = st.sampled_from([0, 1, 2, 3, -1, -2, 100, 0.5, -0.5, 1e30, 1e-40, math.nan, math.inf, -math.inf])


@st.composite
def odd_tensors(draw):
    """A tensor of any shape up to three axes and any type, or an array."""
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    values = draw(st.lists(NUMBERS, min_size=math.prod(shape), max_size=math.prod(shape)))
    dtype = draw(st.sampled_from(DTYPES))
    tensor = torch.tensor(values, dtype=torch.float64).reshape(shape)
    tensor = (
        tensor.nan_to_num(7, 100, -100).clamp(-100, 100).to(dtype)
        if not dtype.is_floating_point
        else tensor.to(dtype)
    )
    return draw(
        st.sampled_from([tensor, tensor.numpy(), tensor.T if tensor.ndim == 2 else tensor, tensor.tolist()])
    )


ODD = st.recursive(ENTRIES | odd_tensors(), lambda inner: st.lists(inner, max_size=3), max_leaves=4)
JSON = st.recursive(
    ENTRIES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("aB"), inner),
    max_leaves=4,
)
EVIDENCE = (
    odd_tensors() | ODD | st.dictionaries(st.sampled_from([0, 1, 2, -1, "0", None, (0,)]), ODD, max_size=3)
)


def circuit():
    made = tt.Circuit()
    a, b = (made.input(Categorical(torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])), v) for v in (0, 1))
    made.root = made.sum(Sum(Dense(torch.tensor([[0.25, 0.75]]))), made.product(Hadamard(), a, b))
    return made


MODELS = {"circuit": (circuit(), {}), "hmm": (tt.HMM.random(2, 3, seed=0), {"n": 2})}
QUERIES = {
    "log_marginal": tt.log_marginal, "marginals": tt.inference.marginals, "mpe": tt.mpe, "support": tt.support,
    "sample": lambda model, evidence, **size: tt.sample(model, 2, evidence, **size),
    "count": tt.count,
}  # fmt: skip


@given(st.sampled_from(sorted(MODELS)), st.sampled_from(sorted(QUERIES)), EVIDENCE)
def test_evidence(name, query, evidence):
    model, size = MODELS[name]
    try:
        found = QUERIES[query](model, evidence, **size)
    except tt.TractileError:
        return
    for value in (
        found.values() if isinstance(found, dict) else found if isinstance(found, tuple) else [found]
    ):
        assert not bool(
            torch.as_tensor(np.asarray(value) if not isinstance(value, torch.Tensor) else value).isnan().any()
        )


# ---------------------------------------------------------------- texts


@st.composite
def mutated(draw, originals, fragments):
    """A text with up to four cuts, repetitions, swaps and insertions."""
    text = draw(originals)
    for _ in range(draw(st.integers(1, 4))):
        i, j = sorted(draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=2)))
        j = min(j, i + draw(st.sampled_from([1, 3, 20])))
        some = draw(st.sampled_from(fragments) | st.characters())
        kind = draw(st.integers(0, 4))
        parts = [
            text[:i] + text[j:],
            text[:i] + some + text[j:],
            text[:i] + some + text[i:],
            text[:j] + text[i:],
            text[:i] + text[i:j] * 3 + text[j:],
        ]
        text = parts[kind]
    return text


GRAMMARS = [
    'start: "a" x* | "b"\nx: /[a-c]+/ | "(" start ")"\n%ignore / +/',
    'start: pair{A, "="}\npair{x, y}: x y x\nA: "a".."f" | /(?i:x)/\nB.2: A+\n%import common.WS\n%ignore WS',
    'root ::= "a" item{1,3} | [^a-z] root?\nitem ::= "x" | "\\x41\\n" # note',
    '?start: expr\n?expr: expr "+" term -> add | term\nterm: NUMBER~1..3\nNUMBER: /[0-9]/\n%declare _INDENT',
    'start = "a" , { b } , [ "c" ] ;\nb = "x" | "y" - "z" ;',
]
PIECES = [
    "start", "::=", ":", "|", "{", "}", "(", ")", "[", "]", "*", "+", "?", "~", "..", "%import",
    "%import common.INT", "%ignore", "/",
    '"', "\\", "\\u", "-> x", "\n", "#", "//", "/.*/", "(?", "(?=", "{1000000}", "~99999999", "_X", "X", "!",
    "$ref", "../../etc/passwd",
    "%import .a.b", "%include", "%extend", "%override", "\x00", "\ud7ff", "é", "\U0001f642",
]  # fmt: skip


@given(mutated(st.sampled_from(GRAMMARS), PIECES))
def test_mutated_grammars(text):
    tried(lambda: constraints.grammar(f"{text}\n", on_narrowed="ignore"))


PATTERNS = [
    r"(a|b)*c{2,5}", r"^\d{3}-[^x-z]+$", r"(?P<n>a+)(?P=n)?", r"(?i:ab)(?=c)c|\bfoo\b", r"\p{Lu}\w*\s?", r"(?<!a)b(?>c|d)++",
]  # fmt: skip
SIGNS = [
    "(", ")", "(?", "(?:", "[", "]", "[^", "{", "}", "{1,", "{9999999}", "{3,2}", "*", "+", "?", "|", "\\",
    "\\x", "\\p{", "\\u{110000}",
    "(?<", "(?P<n>", "(?P=n)", "\\1", "\\k<n>", "$", "^", "\\Z", "(?R)", "(?(1)a|b)", "-", "&&",
    "[[:alpha:]]", "\x00", "\ud7ff", "é",
]  # fmt: skip


@given(mutated(st.sampled_from(PATTERNS), SIGNS))
def test_mutated_patterns(text):
    tried(lambda: constraints.regex(text))


STATEMENTS = [
    'CREATE TABLE a (id INTEGER PRIMARY KEY, "b c" TEXT);\nCREATE TABLE d (x REAL, a_id INTEGER REFERENCES a(id));',
    "create table t(x, y, foreign key (x, y) references u(v, w)); create table u(v, w);",
]
WORDS = [
    "CREATE", "TABLE", "VIEW", "TRIGGER", "AS SELECT 1", "(", ")", ",", ";", '"', "'", "--", "/*",
    "REFERENCES", "PRIMARY KEY", "\x00", "é",
    "ATTACH 'x.db' AS y;", "PRAGMA page_size = 1;", "DROP TABLE a;", "INSERT INTO a VALUES (1, 2);",
    "WITHOUT ROWID", "TEMP", "[a]", "`a`",
]  # fmt: skip


@given(mutated(st.sampled_from(STATEMENTS), WORDS), st.sampled_from(["database", "tables"]))
def test_mutated_statements(text, columns):
    tried(lambda: constraints.sql(f"{text}\n-- CREATE a", columns=columns, on_narrowed="ignore"))


@given(
    st.dictionaries(
        st.sampled_from(["a", "B", "tables", "foreign_keys", ""]) | st.just(1),
        JSON | st.lists(st.sampled_from(["x", "y", "X"])),
        max_size=3,
    )
)
def test_odd_database_schemas(schema):
    tried(lambda: constraints.sql(schema, on_narrowed="ignore"))


# ---------------------------------------------------------------- JSON Schemas

MEMBERS = [
    "type", "properties", "required", "items", "enum", "const", "$ref", "allOf", "anyOf", "oneOf", "not",
    "if", "then", "minLength", "pattern",
    "additionalProperties", "patternProperties", "maxItems", "uniqueItems", "contains", "multipleOf",
    "maximum", "$defs", "$id", "$anchor",
    "$dynamicRef", "prefixItems", "dependentRequired", "propertyNames", "unevaluatedProperties", "format",
    "maxProperties", "$schema",
]  # fmt: skip
LEAVES = [
    None, True, False, 0, -1, 1, 3, 10**400, 1.5, 1e300, -1e-300, math.nan, math.inf, "", "a", "#",
    "#/$defs/a", "#/properties/a", "http://x.y/z",
    "file:///etc/passwd", "string", "integer", "object", "^(", "a{99999}", "\ud800", "date", [], ["a", "a"],
    [[]], {}, {"a": {}}, {"$ref": "#"},
    {"not": {}}, [{"type": "string"}], {"type": ["array", "null"]},
]  # fmt: skip


@st.composite
def mutated_schemas(draw):
    """A random schema with up to three members or items replaced, removed or added at any depth."""
    whole = json.loads(json.dumps(draw(documents())))
    for _ in range(draw(st.integers(1, 3))):
        at = whole
        for _ in range(draw(st.integers(0, 5))):
            below = [v for v in (at.values() if isinstance(at, dict) else at) if isinstance(v, dict | list)]
            if not below:
                break
            at = below[draw(st.integers(0, len(below) - 1))]
        value = json.loads(json.dumps(draw(st.sampled_from(LEAVES))))
        if isinstance(at, dict):
            known = draw(st.booleans()) and list(at)
            at[draw(st.sampled_from(known or MEMBERS))] = value
        elif at and draw(st.booleans()):
            at[draw(st.integers(0, len(at) - 1))] = value
        else:
            at.append(value)
    return whole


@given(mutated_schemas(), st.sampled_from(["space", "none", "flexible"]))
def test_mutated_schemas(schema, whitespace):
    tried(lambda: constraints.json_schema(schema, whitespace=whitespace, max_depth=1, on_narrowed="ignore"))


@given(
    mutated(
        documents().map(json.dumps),
        ["{", "}", "[", "]", '"', ":", ",", "\\u", "1e999", "-", "null", "NaN", "\x00", '"$ref"'],
    )
)
def test_mutated_texts_of_schemas(text):
    tried(lambda: constraints.json_schema(text, max_depth=1, on_narrowed="ignore"))


@given(
    JSON,
    st.sampled_from(
        [
            "regex", "json_schema", "keywords", "grammar", "function_calls", "structural_tag", "literal", "any_of",
        ]
    ),
)  # fmt: skip
def test_what_is_no_description(value, kind):
    tried(lambda: getattr(constraints, kind)(value))
