"""Work is counted: input without end is refused by what it would take, whatever was compiled before."""

import gc
import math
import random
from contextlib import suppress

import pytest
from finite import finite, finite_json

import tractile as tt
from tractile.constraints import json_schema, keywords, limits, regex
from tractile.constraints.automata import dfa, work
from tractile.constraints.automata.work import attempt, limited, limited_to, metered, spend
from tractile.constraints.json import strings, text

SCHEMAS = [
    {"type": "string", "pattern": r"^(?=.*\d)\w{1,9}\b$", "maxLength": 20},
    {"properties": {"a": {"format": "date-time"}, "ß": {"enum": ["x", "y\n", "é"]}}, "required": ["a"]},
    {"type": "number", "minimum": -2.5, "multipleOf": 0.25, "not": {"const": 3}},
    {"patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 3}}, "additionalProperties": False},
    {"allOf": [{"pattern": "a"}, {"pattern": "b"}, {"not": {"pattern": "c"}}], "type": "string"},
]


def units(schema):
    """The work of one schema."""
    constraint = json_schema(schema)
    with limited_to(math.inf) as account:
        finite(constraint)
    return account.spent


def test_work_does_not_depend_on_what_was_compiled_before():
    first = [units(schema) for schema in SCHEMAS]
    for i in (4, 2, 0, 3, 1):  # tables that are alive are found again
        assert units(SCHEMAS[i]) == pytest.approx(first[i], rel=0.2)


def test_metered():
    calls = []

    @metered(maxsize=8)
    def made(n):
        calls.append(n)
        spend(n)
        if n > 50:
            raise tt.errors.TooManyStates(limit=50)
        return -n

    with limited_to(100) as account:
        assert made(20) == made(20) == -20
        assert account.spent == 20  # the second time is free
    with limited_to(100) as account:
        assert made(20) == -20
        assert account.spent == 20  # kept, but paid for
        with pytest.raises(tt.errors.TooManyStates, match="50 states"):
            made(60)
        assert account.spent == 80
        with pytest.raises(tt.errors.TooManyStates, match="too much work"):
            made(30)
    with limited_to(100):
        with pytest.raises(tt.errors.TooManyStates, match="50 states"):
            made(60)
        assert made(30) == -30  # what ran out of work was not kept
    assert calls == [20, 60, 30, 30]
    with limited_to(math.inf) as account, limited():  # a part of something larger
        spend(2 * limits.WORK)
    with limited(), pytest.raises(tt.errors.TooManyStates):
        spend(2 * limits.WORK)


def test_a_schema_leaves_nothing_to_collect():
    schema = {
        "properties": {
            "a": {"type": "array", "items": {"$ref": "#"}},
            "b": {"anyOf": [{"minLength": 3}, {"minimum": 3}]},
        }
    }
    json_schema(schema)
    gc.collect()
    gc.disable()
    try:
        json_schema(schema)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_attempts_count_and_leave_enough_for_another_way():
    with limited_to(100) as account:
        with attempt(30):
            spend(20)
        assert account.spent == 20
        with pytest.raises(tt.errors.TooManyStates, match="too much work"), attempt(30):
            spend(1_000)
        assert account.spent == 50
        with pytest.raises(tt.errors.TooManyStates, match="too much work"), attempt(1_000):
            spend(30)  # half of what is left is 25
        assert account.spent == 75
        spend(25)
        with pytest.raises(tt.errors.TooManyStates, match="too much work"):
            spend(1)
    with attempt(30), pytest.raises(tt.errors.TooManyStates):
        spend(31)


def test_a_result_within_another_is_paid_once():
    @metered(maxsize=8)
    def inner(n):
        spend(abs(n))
        return -n

    @metered(maxsize=8)
    def outer(n):
        spend(1)
        return inner(n) + inner(n)

    for _ in range(2):  # made, then kept
        with limited_to(100) as account:
            assert (inner(-1), inner(-2)) == (1, 2)  # two results, of arguments with one hash
            assert outer(20) == -40
            assert (account.spent, account.own) == (24, 0)
            assert inner(20) == -20
            assert account.spent == 24
        with limited_to(100) as account:
            assert (inner(20), outer(20)) == (-20, -40)
            assert account.spent == 21


SHARED = {"type": "string"}
for _ in range(200):
    SHARED = {"allOf": [SHARED, SHARED]}
ROUND = {"type": "array"}
ROUND["items"] = ROUND
TOOLS = [
    {
        "name": f"f{i}",
        "parameters": {"type": "object", "properties": {"p": {"type": "string", "pattern": f"a.{{{i}}}b"}}},
    }
    for i in range(1, 25)
]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: finite_json(SHARED), tt.errors.FormatError),
        (lambda: finite_json(ROUND), tt.errors.FormatError),
        (lambda: finite_json('{"items":' * 10**5 + "true" + "}" * 10**5), tt.errors.FormatError),
        (lambda: finite_json({"pattern": r"^(?=(.*a){9})(?=(.*b){9})(?=(.*c){9})(?=(.*d){9}).*$"}), tt.errors.TooManyStates),
        (lambda: finite_json({"pattern": "^(ab?){1,100000}$"}), tt.errors.TooManyStates),
        (lambda: finite_json({"enum": [[i, {"a": i}] for i in range(2_000)]}), tt.errors.TooManyStates),
        (lambda: finite_json({"properties": {f"property {i}": {} for i in range(20_000)}}), tt.errors.TooManyStates),
        (lambda: regex("^(?:" + "|".join(f"(?={c}{{1,9}}x){c}" for c in "abcdefghijklmnopqrst") + ")*$"),
         tt.errors.TooManyStates),
        (lambda: regex("|".join(f"w{i}" for i in range(30_000))), tt.errors.TooManyStates),
        (lambda: regex("(?i)" + "".join(f"[a-{chr(0x400 + i)}]" for i in range(120))), tt.errors.TooManyStates),
        (lambda: keywords([[f"w{i}"] for i in range(40)], at_least=30), tt.errors.TooManyStates),
        (lambda: tt.constraints.function_calls(TOOLS), tt.errors.TooManyStates),
        (lambda: finite_json({"properties": {"k" * 1_000_000: {}}}), tt.errors.TooManyStates),
        (lambda: tt.constraints.grammar("start: " + '"a"? ' * 5_000), tt.errors.TooManyStates),
    ],
    ids=["shared", "round", "deep", "looks", "repeat", "enum", "names", "looks*", "words",
         "classes", "keywords", "tools", "name", "grammar"],
)  # fmt: skip
def test_what_takes_too_much_is_refused_by_its_work(make, error, monkeypatch):
    """With a fifth of the units; no step spends much more than all of them."""
    made = []

    class Watched(work.Account):
        def __init__(self, *given):
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(work, "Account", Watched)
    whole = limits.WORK
    monkeypatch.setattr(limits, "WORK", whole // 5)
    with pytest.raises(error):
        make()
    assert max((each.spent for each in made), default=0) < 2 * whole


def test_enums_of_any_characters_are_small_and_exact():
    dice = random.Random(0)
    points = [
        *range(0x20), *map(ord, 'a"\\/~\x7f\x80'), *dice.sample(range(0x100, 0xD800), 9), 0xFFFF, 0x10000, 0x10FFFF,
    ]  # fmt: skip
    for point in points:
        found, spelled = strings.words([chr(point)]), text.JSON.alphabet(((point, point),))
        assert found.is_deterministic
        assert dfa.difference(found, spelled).is_empty
        assert dfa.difference(spelled, found).is_empty
    enum = ["".join(chr(dice.randrange(0x4E00, 0x9FFF)) for _ in range(12)) for _ in range(200)]
    constraint = json_schema({"enum": [*enum, "\ud800", "\ud800x"]})
    assert constraint.nfa.num_states < 200 * 12 * 9
    assert all(constraint.accepts(f'"{word}"') for word in enum)
    assert constraint.accepts(f'"\\u{ord(enum[0][0]):04X}{enum[0][1:]}"')
    assert not constraint.accepts(f'"{enum[0][:-1]}"')
    assert not constraint.accepts('"x"')


def test_the_collector_of_garbage_is_on_again():
    for pattern in ("a+", "(a{1,1000}){1,1000}"):
        with suppress(tt.errors.TooManyStates):
            regex(pattern)
        assert gc.isenabled()
    gc.disable()
    try:
        regex("b+")
        assert not gc.isenabled()
    finally:
        gc.enable()
