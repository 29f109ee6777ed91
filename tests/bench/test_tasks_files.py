"""Reading data sets: every form gives the same, and what is broken is named with file and line."""

import gzip
import json

import pytest

import tractile as tt
from tractile_bench import files

zstandard = pytest.importorskip("zstandard")

ITEMS = [{"a": 1}, {"a": "zwei\u2028 und \x85"}, {"a": [3]}]


def packed(path, data):
    """``data`` in ``path``, compressed as its name says."""
    if path.suffix == ".gz":
        data = gzip.compress(data)
    if path.suffix == ".zst":
        half = len(data) // 2  # two frames, as `cat a.zst b.zst` leaves them
        data = b"".join(zstandard.compress(part) for part in (data[:half], data[half:]))
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_objects_from_lines_from_an_array_and_from_a_folder(tmp_path, ending):
    lines = "\r\n".join(
        [json.dumps(ITEMS[0]), "", *(json.dumps(one, ensure_ascii=False) for one in ITEMS[1:])]
    )
    as_lines = packed(tmp_path / f"b.jsonl{ending}", lines.encode())
    as_array = packed(tmp_path / f"c.json{ending}", ("\ufeff" + json.dumps(ITEMS, indent=1)).encode())
    (tmp_path / "README.md").write_text("not data")
    assert list(files.read_jsonl(as_lines)) == list(files.read_jsonl(as_array)) == ITEMS
    assert files.read_json(as_array) == ITEMS
    assert list(files.read_jsonl(tmp_path)) == [*ITEMS, *ITEMS]
    assert files.find(tmp_path, "a.jsonl", "b.jsonl") == as_lines
    assert files.find(as_lines, "anything") == as_lines


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_lines_are_those_between_newlines(tmp_path, ending):
    path = packed(tmp_path / f"a.txt{ending}", "one\u2028still\r\n\ntwo ".encode())
    assert list(files.read_lines(path)) == ["one\u2028still", "", "two "]
    assert files.read_text(path) == "one\u2028still\r\n\ntwo "
    assert list(files.read_lines(tmp_path)) == ["one\u2028still", "", "two "]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"a": 1}\n{"a": \n', "line 2"),
        ('{"a": 1}\n[1, 2]\n', r"line 2: expected an object, not \[1, 2\]"),
        ('[{"a": 1}, 7]', "item 1: expected an object, not 7"),
        ('[{"a": 1}, ', "is not JSON"),
        (b'{"a": 1}\n{"a": "\xff"}\n', "line 2: not UTF-8"),
    ],
)
def test_what_is_not_objects_is_named(tmp_path, content, words):
    path = tmp_path / "broken.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(tt.errors.FormatError, match=f"broken.jsonl.*{words}"):
        list(files.read_jsonl(path))


@pytest.mark.parametrize("ending", [".gz", ".zst"])
@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"no archive" + data])
def test_a_damaged_archive_is_refused_not_cut_short(tmp_path, ending, damage):
    path = packed(tmp_path / f"a.jsonl{ending}", b'{"a": 1}\n' * 1000)
    path.write_bytes(damage(path.read_bytes()))
    for read in (files.read_jsonl, files.read_lines, files.read_json, files.read_bytes):
        with pytest.raises(tt.errors.FormatError, match=r"a\.jsonl.*does not (unpack|open)"):
            list(read(path))


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(tt.errors.FormatError, match=r"has none of dev\.json, test\.jsonl"):
        files.find(tmp_path, "dev.json", "test.jsonl")
    with pytest.raises(tt.errors.FormatError, match="nowhere does not exist"):
        files.find(tmp_path / "nowhere", "dev.json")
    with pytest.raises(tt.errors.FormatError, match="does not open"):
        files.read_text(tmp_path / "dev.json")
