"""Reading data sets: every form gives the same, and what is broken is named with file and line."""

import gzip
import json

import pytest

import tractile as tt
from tractile_bench import TASKS, files
from tractile_bench.cli import SAMPLE

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


# ------------------------------------------------------------ each task's own data

TABLE = {
    "db_id": "a", "table_names_original": ["t"], "column_names_original": [[-1, "*"], [0, "c"]], "foreign_keys": [],
}  # fmt: skip
TABLES, ASKED = json.dumps([TABLE]), {"db_id": "a", "question": "", "query": ""}
BROKEN = [
    ("commongen", {"test.jsonl": '{"words": ["dog"]}\n'}, "object 1: expected concepts.*words"),
    ("commongen", {"test.jsonl": '{"concepts": [], "target": "a"}\n'}, "object 1"),
    ("commongen", {"test.jsonl": '{"concepts": ["dog"], "target": ""}\n'}, 'no sentence for the concepts dog.*"dev"'),
    ("commongen", {"test_src.txt": "a b\nc d\n", "test_trg.txt": "a b\n"}, "line 2.*do not have the same lines"),
    ("commongen", {"test_src.txt": "a b\n"}, "test_trg.txt, test_tgt.txt"),
    ("commongen", {"test.jsonl": "{]\n"}, "test.jsonl, line 1"),
    ("function-calling", {"calls.jsonl": '{"query": "?", "tools": "[", "answers": []}\n'}, "calls.jsonl, item 0"),
    ("function-calling", {"calls.jsonl": '{"query": "?", "tools": [], "answers": [{"name": "f"}]}\n'}, "calls.jsonl, item 0"),
    ("function-calling", {"calls.jsonl": '\n{"sentence": "?"}\n'}, "no format that is known"),
    ("function-calling", {"calls.jsonl": "[1]\n"}, "expected an object"),
    ("spider", {"tables.json": TABLES, "dev.json": json.dumps([ASKED | {"db_id": "b"}])}, r"dev\.json, item 0: no 'b'"),
    ("spider", {"tables.json": TABLES, "dev.json": '[{"db_id": "a", "question": ""}]'}, r"dev\.json, item 0: no 'query'"),
    ("spider", {"tables.json": TABLES, "dev.json": json.dumps([ASKED])}, "neither a folder database nor"),
    ("spider", {"tables.json": '[{"db_id": "a"}]', "dev.json": json.dumps([ASKED])}, r"tables\.json, item 0"),
    ("molecules", {"GDB17_sample.txt": "SMILES,name\nwater!\n"}, r"GDB17_sample\.txt has 0 molecules; .*; 2 are lines"),
    ("molecules", {"GDB17_sample.txt": "CCO\n" * 20}, "has 20 molecules; for prompts of 20 one more"),
    ("goal-inference", {"test.jsonl": '{"name": "x"}'}, r"test\.jsonl, item 0: 'problem_pddl'"),
    ("data-science", {"ds1000.jsonl": "{}"}, r"ds1000\.jsonl, item 0"),
    ("data-science", {"ds1000.jsonl": '{"prompt": "", "reference_code": "", "metadata": {}, "code_context": ""}'}, "item 0"),
    ("data-science", {"ds1000.jsonl": "3"}, r"ds1000\.jsonl, line 1"),
]  # fmt: skip


def examples(name, folder, split="test"):
    options = {"allow_code_execution": True} if name == "data-science" else {}
    return list(TASKS[name](folder, **options).examples(split))


@pytest.mark.parametrize(("name", "content", "says"), BROKEN)
def test_what_is_no_data_set_is_refused_with_its_place(tmp_path, name, content, says):
    for file, text in content.items():
        (tmp_path / file).write_text(text)
    with pytest.raises(tt.errors.FormatError, match=says):
        examples(name, tmp_path)


@pytest.mark.parametrize("name", TASKS)
def test_a_folder_without_data_and_a_split_that_there_is_not_are_refused(tmp_path, name):
    asked = [(tmp_path, "test"), (tmp_path / "nowhere", "test"), (SAMPLE / name, "other")]
    for folder, split in asked[:2] if name == "data-science" else asked:  # DS-1000 is a test set as a whole
        with pytest.raises(tt.errors.FormatError):
            examples(name, folder, split)
