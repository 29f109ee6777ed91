"""CommonGen: files in every format, the constraint against a check in plain Python, BLEU against counts by hand."""

import gzip
import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tractile.errors import FormatError
from tractile_bench.base import Example
from tractile_bench.commongen import CommonGen, contains, forms, lemmas, one_sentence

pytest.importorskip("lemminflect")
pytest.importorskip("sacrebleu")

SETS = {
    ("dog", "ball", "chase"): ["The dog chases a ball.", "Two dogs chased the ball"],
    ("boil", "egg", "pan", "cook"): ["The cook boils eggs in a pan."],
}
SOURCE = "dog ball chase\ndog ball chase\nboil egg pan cook\n"
TARGET = "The dog chases a ball.\nTwo dogs  chased the ball \nThe cook boils eggs in a pan.\n"
ROWS = [
    {"concept_set_idx": index, "concepts": list(concepts), "target": target}
    for index, (concepts, targets) in enumerate(SETS.items())
    for target in targets
]


def lines(rows: list[dict]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


FORMATS = {
    "ours": {
        "test.half.jsonl": lines(
            [{"id": f"a{i}", "concepts": list(c), "references": r} for i, (c, r) in enumerate(SETS.items())]
        )
    },
    "one sentence a line": {"validation.jsonl": lines(ROWS)},
    "one array": {"common-gen_validation.json": json.dumps(ROWS, indent=2)},
    "the authors' lines": {
        "commongen.test.jsonl": lines([{"concept_set": "#".join(c), "scene": r} for c, r in SETS.items()])
    },
    "two files": {"test_src.txt": SOURCE, "test_trg.txt": TARGET},
    "the authors' two files": {"commongen.test.src_alpha.txt": SOURCE, "commongen.test.tgt.txt": TARGET},
}


@pytest.mark.parametrize("files", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("packed", [False, True])
def test_every_format_gives_the_same_examples(tmp_path: Path, files: dict[str, str], packed: bool) -> None:
    for name, text in files.items():
        if packed:
            (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (tmp_path / name).write_text(text)
    first = min(tmp_path.iterdir())  # a file, or the folder with it
    for data in (tmp_path, first):
        found = list(CommonGen(data).examples())
        assert {tuple(one.facts["concepts"]): one.facts["references"] for one in found} == SETS
        assert found[0].prompt == "Concepts: dog ball chase\nSentence:\n"
        assert found[0].reference == "The dog chases a ball."
        assert len({one.id for one in found}) == 2
        json.dumps([one.facts for one in found])


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("dog\n")
    with pytest.raises(FormatError, match=r"notes\.md: expected"):
        list(CommonGen(tmp_path / "notes.md").examples())


def example(*concepts: str, references: tuple[str, ...] = ("Nothing.",)) -> Example:
    facts = {"concepts": list(concepts), "references": list(references)}
    return Example("0", "", references[0], facts)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> CommonGen:
    return CommonGen(tmp_path_factory.mktemp("none"))


def test_forms_of_words_in_the_dictionary_and_of_others() -> None:
    assert {"catch", "catches", "caught", "catching"} <= set(forms("catch"))
    assert {"frisbee", "frisbees"} <= set(forms("frisbee"))
    assert {"abseil", "abseils", "abseiled", "abseiling"} <= set(forms("abseil"))
    assert "painters" in forms("painter")
    assert "paintered" not in forms("painter")
    assert "catched" not in forms("catch")
    assert "catch" in lemmas("caught")
    assert contains("Dogs!", "dog")
    assert not contains("hotdog", "dog")


PIECES = [
    "dog", "Dogs", "dogged", "cat", "cats", "ran", "run", "runs", "a", ",", ".", "!", " ", "  ", "”", "é", "-",
]  # fmt: skip
PET = example("dog", "cat", "run")


@settings(max_examples=300)
@given(st.lists(st.sampled_from([*PIECES, " ", " ", " "]), max_size=14).map("".join), st.booleans())
def test_the_constraint_agrees_with_plain_python(text: str, full_stop: bool) -> None:
    task = CommonGen(Path("none"), full_stop=full_stop)
    assert COMPILED[full_stop].accepts(text) == bool(task.scores(PET, text)["satisfied"])


COMPILED = [CommonGen(Path("none"), full_stop=full_stop).constraint(PET) for full_stop in (False, True)]


def test_full_stop(task: CommonGen) -> None:
    assert one_sentence().accepts("two dogs")
    assert not one_sentence(True).accepts("two dogs")
    assert one_sentence(True).accepts("Two dogs.")


def test_coverage_goes_by_lemmas_not_by_the_forms_of_the_constraint(task: CommonGen) -> None:
    one = example("dog", "catch", "frisbee", "tree")
    assert task.scores(one, "The dogs caught it.")["coverage"] == 0.5
    assert task.scores(one, "A frisbee-catching dog's tree; two frisbees")["coverage"] == 1.0
    assert task.scores(example("fly"), "The kite flys.") == pytest.approx(
        {"coverage": 1.0, "satisfied": 0.0, "bleu": 0.0}, abs=0.3
    )


def test_bleu_is_the_one_counted_by_hand(task: CommonGen) -> None:
    one = example("cat", references=("The cat sat on a mat", "Nobody knows what cats do"))
    # of 6, 5, 4 and 3 n-grams, these many are in a reference
    expected = math.prod((5 / 6, 3 / 5, 2 / 4, 1 / 3)) ** (1 / 4)
    assert task.scores(one, "the cat sat on the mat")["bleu"] == pytest.approx(expected)
    assert task.scores(one, "the CAT sat on a mat")["bleu"] == pytest.approx(1)
    assert task.scores(one, "") == {"bleu": 0, "coverage": 0, "satisfied": 0}
    # two words: n-grams of two only, and the brevity penalty against the nearest length, 5
    assert task.scores(one, "nobody knows")["bleu"] == pytest.approx(math.exp(1 - 5 / 2))


def test_corpus_bleu_pools_the_counts_of_the_likeliest_answers(task: CommonGen) -> None:
    first = example("cat", references=("the cat sat on a mat",))
    second = example("dog", references=("dogs run in the park", "a dog runs away"))
    answers = [
        (first, {"the cat sat on the mat": 0.7, "no": 0.3}),
        (second, {"no": 0.2, "a dog runs away": 0.8}),
    ]
    precisions = [(5 + 4) / (6 + 4), (3 + 3) / (5 + 3), (2 + 2) / (4 + 2), (1 + 1) / (3 + 1)]
    assert task.aggregate(answers)["corpus_bleu"] == pytest.approx(math.prod(precisions) ** (1 / 4))
    short = task.aggregate([*answers, (second, {})])[
        "corpus_bleu"
    ]  # an empty answer makes the whole too short
    assert 0 < short < task.aggregate(answers)["corpus_bleu"]


@pytest.mark.long
@pytest.mark.parametrize("split", ["dev", "test"])
def test_gold_sentences_are_in_the_language(shared_dir: Path, split: str) -> None:
    """Those that are not: misspelled forms, forms of another word, and references of several sentences."""
    pytest.importorskip("zstandard")
    task = CommonGen(shared_dir / "data" / "commongen")
    satisfied = []
    for number, one in enumerate(list(task.examples(split))[::3]):
        texts = one.facts["references"]
        satisfied += (found := [task.scores(one, text)["satisfied"] for text in texts])
        if number % 15 == 0:
            constraint = task.constraint(one)
            assert [constraint.accepts(text) for text in texts] == found
    assert sum(satisfied) >= 0.985 * len(satisfied) > 600
