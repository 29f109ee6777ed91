"""Constraints as bytes: what is read back composes, what is damaged is refused; and the cache of servers."""

import pytest

from tractile.constraints import Constraint, Limits, Vocabulary, json_schema, regex
from tractile.decoding import request
from tractile.errors import FormatError

VOCAB = Vocabulary([None, *(bytes([b]) for b in range(256)), b'"a', b'": ', b"12", b"ab"], eos_token_id=0)
TREE = {
    "type": "object",
    "properties": {"kind": {"enum": ["leaf", "tree"]}, "children": {"type": "array", "items": {"$ref": "#"}, "maxItems": 3}},
    "required": ["kind"],
}  # fmt: skip


def test_what_is_read_can_be_composed():
    found = Constraint.from_bytes(json_schema(TREE).to_bytes())
    both = (found + regex("!")) | regex("none")
    assert both.accepts('{"kind": "leaf"}!')
    assert both.accepts("none")
    assert not both.accepts('{"kind": "leaf"}')
    finite = Constraint.from_bytes(regex("[ab]{2}").to_bytes())
    assert (~finite).accepts("abc")
    assert (finite & regex("a.*")).accepts("ab")


def test_damaged_bytes_are_refused():
    data = bytearray(json_schema(TREE).to_bytes())
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
