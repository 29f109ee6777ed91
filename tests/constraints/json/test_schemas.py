"""JSON Schema against the ``jsonschema`` package, on random schemas and instances near them."""

import json
from typing import Literal

import pytest

import tractile as tt
from tractile.constraints import Vocabulary, json_schema
from tractile.constraints.automata.nfa import Nfa


def test_forms_of_input(tmp_path):
    from pydantic import BaseModel

    class Animal(BaseModel):
        name: str
        legs: int = 4
        kind: Literal["cat", "dog"] | None = None
        friends: list[str] = []

    by_model = json_schema(Animal)
    assert by_model.accepts('{"name": "Tom", "legs": 4, "kind": "cat", "friends": []}')
    assert by_model.accepts('{"name": "Tom", "kind": null}')
    assert not by_model.accepts('{"name": "Tom", "kind": "cow"}')
    text = json.dumps(Animal.model_json_schema())
    path = tmp_path / "animal.json"
    path.write_text(text, encoding="utf-8")
    for form in (text, path, str(path), json.loads(text)):
        assert json_schema(form).accepts('{"name": "Tom"}')
    assert json_schema("true").accepts("[]")
    for wrong in (
        "{",
        "[]",
        3,
        tt.Vocabulary,
        tmp_path / "missing.json",
        {"enum": [float("nan")]},
        {"const": {1, 2}},
    ):
        with pytest.raises(tt.errors.FormatError):
            json_schema(wrong)


def test_a_choice_of_required_pairs():
    """n pairs of which one must be complete (Dang et al. 2026, Figure 4): the deterministic automaton has 2^n states."""
    for n in (2, 4, 8, 12):
        properties = {f"{k}{i}": {"const": 1} for k in "ab" for i in range(n)}
        schema = {"type": "object", "properties": properties, "additionalProperties": False,
                  "anyOf": [{"required": [f"a{i}", f"b{i}"]} for i in range(n)]}  # fmt: skip
        constraint = json_schema(schema, order="declared")
        assert constraint.accepts(f'{{"a0": 1, "a{n - 1}": 1, "b{n - 1}": 1}}')
        assert not constraint.accepts('{"a0": 1, "b1": 1}')


def test_no_state_leads_nowhere():
    schema = {
        "type": "object",
        "anyOf": [{"patternProperties": {"^.{1,2}$": True}, "additionalProperties": False}],
        "not": {"patternProperties": {"^ab": False}},
        "maxProperties": 1,
    }
    constraint = json_schema(schema)
    automaton = constraint.bytes_automaton
    again = Nfa(automaton.num_states, automaton.edges, (), automaton.start, automaton.accept)
    assert again.plain.num_states == automaton.num_states
    vocab = Vocabulary([None, *(bytes([byte]) for byte in range(256)), b'{"', b'":'], eos_token_id=0)
    compiled = constraint.compile(vocab)
    assert compiled.distances[compiled.start_states].min() == 8  # {" a b ": space 0 } EOS
