"""``narrowed``: no constraint accepts less than was asked for without saying where; none says so that accepts all of it."""

import itertools
import json
import logging
import re

import jsonschema
import pytest
from finite import finite_calls, finite_grammar, finite_json
from typer.testing import CliRunner

import tractile as tt
from tractile.cli import app

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
VOCAB = tt.Vocabulary([None, *(bytes([b]) for b in range(256))], eos_token_id=0)


def schema(value, **options):
    return finite_json(value, on_narrowed="ignore", **options)


def places(constraint):
    return {(each.path, each.keyword) for each in constraint.narrowed}


def closed(properties, **more):
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


TREE = closed({"v": INTEGER, "below": {"type": "array", "items": {"$ref": "#"}}})


def test_the_complement_has_no_other_way_to_write_the_same_number():
    """Whatever text the complement accepts, and JSON can read, is no value of the schema."""
    texts = [
        "1", "1.0", "1e0", "10E-1", "1e+22", "-2e1", "1.5", "15e-1", '"1"', '"1e0"', "[1]", "[1e0]", "x", "null",
    ]  # fmt: skip
    items = {"type": "array", "items": INTEGER}
    for value in (INTEGER, {"type": "number", "minimum": 3}, {"enum": [1, 2]}, items):
        validator, constraint = jsonschema.Draft202012Validator(value), schema(value)
        for other in (~constraint, tt.constraints.regex(".*") - constraint, ~(constraint | constraint)):
            for text in texts:
                try:
                    valid = validator.is_valid(json.loads(text))
                except ValueError:
                    valid = False
                exponent = re.search("[0-9][eE]", text)
                assert other.accepts(text) == (not valid and not exponent), text
            assert places(other) == {("~", "complement")}
    assert (~schema(INTEGER, numbers="plain")).narrowed == ()
    assert (~schema(INTEGER, numbers="plain")).accepts("1e0")  # of texts: none was asked for that has a point
    with pytest.raises(tt.errors.UnsupportedConstraint, match="complement"):
        ~~schema(INTEGER)


def warnings(caplog):
    return [r for r in caplog.records if r.name == "tractile.constraints"]


@pytest.mark.parametrize(
    "make",
    [
        lambda **o: finite_json({"type": "string", "maxLength": 9000}, max_length=10, **o),
        lambda **o: finite_json(TREE, max_depth=1, **o),
        lambda **o: finite_grammar('start: "(" start ")" | "x"', max_depth=2, **o),
        lambda **o: tt.constraints.sql({"t": ["a"]}, max_depth=0, max_tables=2, **o),
        lambda **o: finite_calls(TOOLS, max_depth=1, **o),
    ],
)
def test_what_the_caller_has_cut_is_reported_without_a_warning(make, caplog):
    with caplog.at_level(logging.WARNING):
        assert make().narrowed
    assert not warnings(caplog)
    with pytest.raises(tt.errors.UnsupportedConstraint):
        make(on_narrowed="error")


TOOLS = [
    {"name": "f", "parameters": {"type": "object", "properties": {"x": {}, "s": STRING, "n": INTEGER}}},
    {"name": "g", "parameters": closed({"t": {"$ref": "#/$defs/t"}}, **{"$defs": {"t": closed({"t": {"$ref": "#/$defs/t"}})}})},
]  # fmt: skip
HALVES = {
    "name": "h",
    "parameters": {"type": "object", "properties": {"x": {"type": "number", "multipleOf": 0.5}}},
}


@pytest.mark.parametrize(
    "make",
    [
        lambda **o: finite_json(True, **o),
        lambda **o: finite_grammar('start: "(" start ")" | "x"', **o),
        lambda **o: tt.constraints.sql({"t": ["a"]}, **o),
        lambda **o: finite_calls([*TOOLS, HALVES], **o),
        lambda **o: finite_calls(TOOLS, syntax="python", parallel=True, **o),
    ],
)
def test_every_builder_warns_refuses_or_says_nothing(make, caplog):
    with caplog.at_level(logging.WARNING):
        assert make(on_narrowed="ignore").narrowed
        assert not warnings(caplog)
        assert make().narrowed
        assert len(warnings(caplog)) == 1
    with pytest.raises(tt.errors.UnsupportedConstraint, match="would be narrowed"):
        make(on_narrowed="error")
    with pytest.raises(tt.errors.UnsupportedConstraint, match="on_narrowed"):
        make(on_narrowed="maybe")


# ---------------------------------------------------------------- grammars


@pytest.mark.parametrize(
    ("text", "nests"),
    [
        ('start: "(" start ")" | "x"', True), ('start: sum\nsum: sum "+" term | term\nterm: "1" | "(" sum ")"', True),
        ('start: start start | "a"', False), ('start: "a" start | "b"', False), ('start: start "a" | "b"', False),
        ('start: "a" b\nb: "c"*', False), ('start: "a"\nx: "(" x ")" | "x"', False),
        ('start: a b\na: "(" a ")" | "x"\nb: "b" b | "b"', True), ('start: "[" (start ("," start)*)? "]" | "1"', True),
    ],
)  # fmt: skip
def test_grammars_whose_rules_nest_are_cut_to_a_depth(text, nests):
    constraint = finite_grammar(text, on_narrowed="ignore")
    assert [each.keyword for each in constraint.narrowed] == ["max_depth"] * nests


# ---------------------------------------------------------------- tools


def calls(parameters, **options):
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": parameters}, "required": ["x"]}}
    return finite_calls([tool], on_narrowed="ignore", **options)


def test_arguments_are_named():
    path = "tools[0].parameters.x"
    assert calls(STRING, syntax="python").narrowed == ()
    assert places(calls(STRING)) == {("", "escapes")}
    for whole in ({"type": "array"}, {"type": "string", "maxLength": 9000}):
        whole_calls = tt.constraints.function_calls([{"name": "f", "parameters": closed({"x": whole})}])
        assert places(whole_calls) == {("", "escapes")}
    assert places(calls({"type": "array"}, max_depth=2)) == {("", "max_depth"), ("", "escapes")}
    lazy = tt.constraints.function_calls(
        [{"name": "f", "parameters": closed({"x": {"items": {"minimum": 3}}})}]
    )
    assert places(lazy) == {("", "numbers"), ("", "escapes")}
    assert places(calls({"type": "string", "format": "time"}, syntax="python")) == {
        (f"{path}/format", "format")
    }
    assert places(calls({"type": "array"}, syntax="python")) == {("", "max_depth")}
    assert calls({"type": "string", "format": "email"}, syntax="python").narrowed == ()
    assert calls({"type": "string", "format": "date"}, syntax="python").narrowed == ()


MEMBERS = [dict(zip(p, (1, 2, 3), strict=False)) for n in range(4) for p in itertools.permutations("abc", n)]


def objects(names, **more):
    return {"type": "object", "properties": dict.fromkeys(names, INTEGER), **more}


@pytest.mark.parametrize(
    "parts",
    [
        [objects("ab"), objects("ba")], [objects("a"), objects("b", required=["b"])], [objects("ab"), {"required": ["b"]}],
        [objects("abc", additionalProperties=False), objects("ca", additionalProperties=True)],
        [objects("ab", additionalProperties=False), objects("cb", additionalProperties=INTEGER)],
        [objects("ab", required=["a"]), objects("b", additionalProperties=False)], [objects("ba"), objects("ab"), True],
    ],
    ids=str,
)  # fmt: skip
def test_objects_of_several_schemas_in_python_syntax_are_put_together(parts):
    """Members stand in the order in which they are first declared; every set of members that is valid has a text."""
    constraint = calls({"allOf": parts}, syntax="python")
    order = list(dict.fromkeys(name for p in parts if p is not True for name in p.get("properties", {})))
    said = any("additionalProperties" in part for part in parts if part is not True)
    for members in MEMBERS:
        valid = jsonschema.Draft202012Validator({"allOf": parts}).is_valid(members)
        if valid and (said or members.keys() <= {*order}):
            declared = [name for name in members if name in order]
            ordered = (
                declared == sorted(declared, key=order.index) and [*members][: len(declared)] == declared
            )
            assert constraint.accepts(f"f(x={json.dumps(members)})") == ordered, members
        else:
            assert not constraint.accepts(f"f(x={json.dumps(members)})"), members
    assert not any(cut.keyword == "properties" for cut in constraint.narrowed)


# ---------------------------------------------------------------- what carries it


def test_automata_carry_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACTILE_CACHE", str(tmp_path))
    value = closed({"v": {"type": "string", "maxLength": 300}, "below": {"$ref": "#"}})
    constraint = schema(value, max_depth=1)
    assert constraint.narrowed
    for cache in (False, True, True):
        automaton = schema(value, max_depth=1).compile(VOCAB, cache=cache)
        assert automaton.narrowed == constraint.narrowed
    for other in (automaton.partitioned, automaton.trim(), automaton.map(lambda t: t.double())):
        assert other.narrowed == constraint.narrowed
    assert tt.constraints.regex("a").compile(VOCAB).narrowed == ()
    small = schema(TREE, max_depth=0).compile(VOCAB)
    assert small.narrowed
    assert small.determinize().narrowed == small.minimize().narrowed == small.narrowed


def test_saved_automata_keep_it(tmp_path):
    automaton = schema({"enum": ["a", "\ud800"]}).compile(VOCAB)
    tt.save(automaton.partitioned, tmp_path)
    assert tt.load(tmp_path).narrowed == automaton.narrowed != ()
    exact = tt.constraints.regex("a").compile(VOCAB).partitioned
    tt.save(exact, tmp_path / "exact")
    assert tt.load(tmp_path / "exact").narrowed == ()


def test_posteriors_carry_it():
    lm = tt.CircuitLM(tt.HMM.random(2, len(VOCAB), seed=0))
    fa = schema({"enum": ["a", "\ud800"]}).compile(VOCAB)
    posterior = tt.smc(lm, [], fa, proposal="gcd", particles=2, max_new_tokens=4, seed=0)
    assert posterior.narrowed == fa.narrowed != ()
    assert posterior.to_dict()["narrowed"][0]["keyword"] == "enum"
    traced = tt.smc(lm, [], fa, proposal="gcd", particles=2, max_new_tokens=4, seed=0, trace=True)
    assert "less than was asked" in traced.to_html()


def test_the_command_prints_it(tmp_path):
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(closed({"below": {"$ref": "#"}})))
    run, options = CliRunner().invoke, ["compile", "--json-schema", str(file)]
    printed = run(app, options).output
    assert len([line for line in printed.splitlines() if line.startswith("narrowed: /: max_depth: ")]) == 1
    cuts = json.loads(run(app, [*options, "--json"]).output.splitlines()[-1])["narrowed"]
    (cut,) = (cut for cut in cuts if cut["keyword"] != "escapes")
    assert cut["keyword"] == "max_depth"
    assert cut["path"] == ""
    assert "narrowed:" not in run(app, [*options, "--on-narrowed", "ignore"]).output
    assert run(app, [*options, "--on-narrowed", "error"]).exit_code == 1
