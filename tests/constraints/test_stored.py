"""Constraints as bytes: the same language, masks and entries in ``narrowed`` in another process, and the cache of servers."""

import json

import numpy as np
import pytest

import tractile as tt
from tractile.constraints import Constraint, Limits, Vocabulary, grammar, json_schema, regex, structural_tag
from tractile.constraints.cache import store
from tractile.decoding import request
from tractile.errors import FormatError

VOCAB = Vocabulary(
    [None, *(bytes([each]) for each in range(256)), b'"a', b'": ', b"12", b"ab"], eos_token_id=0
)
TREE = {
    "type": "object",
    "properties": {"kind": {"enum": ["leaf", "tree"]}, "children": {"type": "array", "items": {"$ref": "#"}, "maxItems": 3}},
    "required": ["kind"],
}  # fmt: skip
UNIQUE = {"type": "array", "items": {"type": "string", "maxLength": 2}, "uniqueItems": True, "minItems": 2}
MANY = {"properties": {f"member{each}": {"type": "integer"} for each in range(80)}, "required": ["member70"]}
TAG = {
    "type": "structural_tag",
    "format": {"type": "tag", "begin": "<a>", "content": {"type": "json_schema", "json_schema": TREE}, "end": "</a>"},
}  # fmt: skip
CONSTRAINTS = {
    "regex": lambda: regex("[ab]{2,300}|é+"),
    "nothing": lambda: regex("a") & regex("b"),
    "the empty text": lambda: regex(""),
    "recursive schema": lambda: json_schema(TREE),
    "unique items": lambda: json_schema(UNIQUE),
    "many members": lambda: json_schema(MANY),
    "narrowed": lambda: json_schema({"type": "string", "format": "date-time"}),
    "grammar": lambda: grammar('start: "(" start ")" | /[a-z]/ start?'),
    "parts with budgets": lambda: regex("a*").tokens(at_most=3) + regex("b+").tokens(2),
    "within": lambda: json_schema(TREE) & regex('.*"leaf".*'),
    "tags": lambda: structural_tag(TAG),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_what_is_read_is_what_was_written(name):
    asked = CONSTRAINTS[name]()
    data = asked.to_bytes()
    found = Constraint.from_bytes(data)
    assert found.is_finite == asked.is_finite
    assert found.is_empty() == asked.is_empty()
    assert [str(each) for each in found.narrowed] == [str(each) for each in asked.narrowed]
    assert found.to_bytes() == data
    if asked.is_empty():
        return
    assert found.shortest() == asked.shortest()
    masks = [tt.gcd(each.compile(VOCAB), horizon=40).start(batch=1) for each in (asked, found)]
    for step in range(20):
        one, other = (each.bitmask()[0].numpy() for each in masks)
        np.testing.assert_array_equal(one, other)
        allowed = np.flatnonzero(np.unpackbits(one.view(np.uint8), bitorder="little"))
        token = int(allowed[step * 7 % len(allowed)])
        for each in masks:
            each.advance([token])


def test_what_is_read_can_be_composed():
    found = Constraint.from_bytes(CONSTRAINTS["recursive schema"]().to_bytes())
    both = (found + regex("!")) | regex("none")
    assert both.accepts('{"kind": "leaf"}!')
    assert both.accepts("none")
    assert not both.accepts('{"kind": "leaf"}')
    finite = Constraint.from_bytes(regex("[ab]{2}").to_bytes())
    assert (~finite).accepts("abc")
    assert (finite & regex("a.*")).accepts("ab")


def test_damaged_bytes_are_refused():
    data = bytearray(CONSTRAINTS["recursive schema"]().to_bytes())
    data[-3] ^= 1
    with pytest.raises(FormatError, match="damaged"):
        Constraint.from_bytes(bytes(data))
    for other in (b"", b"something else", bytes(data[:30])):
        with pytest.raises(FormatError):
            Constraint.from_bytes(other)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACTILE_CACHE", str(tmp_path))
    return tmp_path


def compiled(text):
    return request.compile_request(text, VOCAB, Limits())


def test_a_server_reads_what_another_has_compiled(folder, monkeypatch, caplog):
    text = '["json_schema", {"type": "string", "format": "date-time"}, {}]'
    fewest = compiled(text).fewest_after([])
    assert [path.name.split("-")[0] for path in folder.iterdir()].count("constraint") == 1
    said = [record.getMessage() for record in caplog.records if "less than was asked" in record.getMessage()]
    caplog.clear()
    monkeypatch.setattr(request, "build_constraint", None)  # nothing is built again
    found = compiled(text)
    assert found.fewest_after([]) == fewest
    assert found.narrowed
    again = [record.getMessage() for record in caplog.records if "less than was asked" in record.getMessage()]
    assert said == again != []


def test_what_was_cut_by_an_option_warns_neither_time(folder, caplog):
    text = '["json_schema", {"type": "object", "properties": {"a": {"$ref": "#"}}}, {"max_depth": 2}]'
    for _ in range(2):
        assert compiled(text).narrowed
        assert not caplog.records


def test_a_damaged_file_is_made_anew(folder):
    text = '["regex", "[ab]{3}", {}]'
    compiled(text)
    (path,) = folder.glob("constraint-*")
    path.write_bytes(path.read_bytes()[:-1])
    assert compiled(text).fewest_after([]) == 3
    assert store.read("constraint", path.stem.removeprefix("constraint-")) is not None


def test_a_grammar_that_imports_is_read_from_its_files_each_time(folder, tmp_path_factory):
    beside = tmp_path_factory.mktemp("grammars")
    text = json.dumps(["grammar", "start: A\n%import other.A", {"import_from": str(beside)}])
    for letters in ("a", "bb"):
        (beside / "other.lark").write_text(f'A: "{letters}"')
        assert compiled(text).accepts_tokens([*(1 + byte for byte in letters.encode()), 0])
