"""CommonGen: a sentence that contains all of three to five concepts, in any inflected form and any order (Lin et al. 2020;
Dang et al. 2026, section 5.3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

from tractile.constraints import Constraint, ends_as_sentence, text_length
from tractile.constraints.regex.constraint import regex
from tractile.constraints.words.keywords import inflected, keywords
from tractile.errors import FormatError, TractileError

from . import prompts
from .base import Example, Task
from .files import find, read_jsonl, read_lines

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

SPLITS = {
    "train": ("train", "commongen.train"),
    "dev": ("dev", "valid", "validation", "dev.half", "commongen.dev", "common-gen_validation"),
    "test": ("test", "test.half", "commongen.test"),
}
SPLITS["test"] += SPLITS["dev"]  # where the references of the test set are not given out
SOURCES = {"src.txt": ("trg.txt", "tgt.txt"), "src_alpha.txt": ("tgt.txt",), "src": ("tgt", "trg")}
"""Endings of files with a set of concepts on each line, and of the files with their sentences."""

ENDS = re.compile(r"[.!?…][\"'”’»)\]]*(?=\s|$)")


class CommonGen(Task):
    """CommonGen: write a sentence that contains given concepts.

    ``data``: a file or a folder of ``{id, concepts, references}``, of ``{concept_set_idx, concepts, target}`` as JSON lines
    or one JSON array (Hugging Face, GeLaTo), of ``{concept_set, scene}`` (the authors' JSON lines), or of lines of concepts
    with a file of sentences beside it (``test_src.txt`` and ``test_trg.txt``, and other published names). Splits: "train",
    "dev" and "test"; "test" is the dev set if only that has references. With ``full_stop`` the text must end as a sentence
    does; one reference in ten does not.

    Scores: ``bleu``, sentence-level BLEU-4 against all references, from 0 to 1, by sacrebleu (13a tokens, lower case,
    exponential smoothing, effective order); ``coverage``, the share of the concepts found among the lemmas of the text's words;
    ``satisfied``, whether the text satisfies the constraint, by a separate implementation. Needs ``tractile-bench[tasks]``.
    """

    name: ClassVar[str] = "commongen"
    metric: ClassVar[str] = "bleu"
    max_new_tokens: ClassVar[int] = 40
    one_line: ClassVar[bool] = True

    def __init__(self, data: str | Path, *, full_stop: bool = False) -> None:
        self.data, self.full_stop = Path(data), full_stop

    def examples(self, split: str = "test") -> Iterator[Example]:
        if split not in SPLITS:
            raise FormatError(f'the splits of CommonGen are {", ".join(SPLITS)}, not "{split}"')
        bleu(effective_order=True)  # what counts the scores must be there before the first text
        endings = (".jsonl", ".json", *(f"{mark}{one}" for one in SOURCES for mark in ("_", ".")))
        path = find(self.data, *(name + ending for name in SPLITS[split] for ending in endings))
        for number, (id, concepts, references) in enumerate(_grouped(path)):
            if not references:
                raise FormatError(
                    f"{path}: no sentence for the concepts {' '.join(concepts)}; "
                    'the test set that is given out has none: take the split "dev"'
                )
            facts = {"concepts": list(concepts), "references": references}
            yield Example(id or f"{split}-{number}", prompts.commongen(concepts), references[0], facts)

    def constraint(self, example: Example) -> Constraint:
        found = keywords([forms(concept) for concept in example.facts["concepts"]], ignore_case=True)
        return found & one_sentence(self.full_stop)

    def scores(self, example: Example, text: str) -> dict[str, float]:
        concepts = example.facts["concepts"]
        found = set().union(*map(lemmas, words(text)))
        covered = sum(not found.isdisjoint(lemmas(concept.lower())) for concept in concepts)
        return {
            "bleu": bleu(effective_order=True).sentence_score(text, example.facts["references"]).score / 100,
            "coverage": covered / len(concepts),
            "satisfied": float(all(contains(text, concept) for concept in concepts) and self._shaped(text)),
        }

    def aggregate(self, answers: Sequence[tuple[Example, Mapping[str, float]]]) -> dict[str, float]:
        """Compute ``corpus_bleu``: corpus BLEU-4 of the heaviest answers against all references, from 0 to 1."""
        texts = [max(weights, key=weights.__getitem__) if weights else "" for _, weights in answers]
        references = zip_longest(*(example.facts["references"] for example, _ in answers))
        score = bleu(effective_order=False).corpus_score(texts, [list(one) for one in references]).score
        return {"corpus_bleu": score / 100}

    def _shaped(self, text: str) -> bool:
        """Return whether the text is one sentence on one line, as :func:`one_sentence` requires."""
        ends = [match.end() for match in ENDS.finditer(text)]
        one = len(ends) - (ends[-1:] == [len(text)]) == 0
        return one and text == " ".join(text.split()) and (not self.full_stop or bool(ends))


def _grouped(path: Path) -> Iterator[tuple[str, tuple[str, ...], list[str]]]:
    """Yield (id or "", concepts, all references of these concepts), in order of first appearance."""
    ids: dict[tuple[str, ...], str] = {}
    found: dict[tuple[str, ...], list[str]] = {}
    for id, concepts, sentences in _rows(path):
        ids.setdefault(concepts, id)
        found.setdefault(concepts, []).extend(" ".join(one.split()) for one in sentences if one.strip())
    for concepts, references in found.items():
        yield ids[concepts], concepts, references


def _rows(path: Path) -> Iterator[tuple[str, tuple[str, ...], Sequence[str]]]:
    name = path.name.removesuffix(".zst").removesuffix(".gz")
    if not name.endswith((".json", ".jsonl")):
        yield from _beside(path, name)
        return
    for number, row in enumerate(read_jsonl(path), 1):
        concepts = row.get("concepts", row.get("concept_set"))
        if isinstance(concepts, str):
            concepts = concepts.split("#")
        sentences = row.get("references", row.get("scene", row.get("target")))
        sentences = [sentences] if isinstance(sentences, str) else sentences
        if not _texts(concepts) or not concepts or not _texts(sentences):
            raise FormatError(
                f"{path}, object {number}: expected concepts with references, target or scene; its keys are {', '.join(row)}"
            )
        yield str(row.get("id", "")), tuple(concepts), sentences


def _texts(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _beside(path: Path, name: str) -> Iterator[tuple[str, tuple[str, ...], Sequence[str]]]:
    """Read a file with concepts on each line, and the file beside it with the sentences."""
    ending = max((one for one in SOURCES if name.endswith(one)), key=len, default=None)
    if ending is None:
        raise FormatError(
            f"{path}: expected .json, .jsonl or concepts in a file that ends in {', '.join(SOURCES)}"
        )
    other = find(path.parent, *(name.removesuffix(ending) + one for one in SOURCES[ending]))
    for number, (left, right) in enumerate(zip_longest(read_lines(path), read_lines(other)), 1):
        if left is None or right is None or not left.split():
            raise FormatError(
                f"{path}, line {number}: {path.name} and {other.name} do not have the same lines"
            )
        yield "", tuple(left.split()), [right]


@lru_cache(maxsize=2)
def one_sentence(full_stop: bool = False) -> Constraint:
    """Return the constraint of one sentence on one line with single spaces; with ``full_stop`` it must end as a sentence."""
    line = text_length(1, 1, unit="sentences") & regex(r"\S+(?: \S+)*")
    return line & ends_as_sentence() if full_stop else line


@lru_cache(maxsize=1 << 14)
def forms(concept: str) -> tuple[str, ...]:
    """Return a concept and its inflections by the dictionary of ``lemminflect``, and its regular plural.

    A concept that the dictionary does not inflect (frisbee, abseil) also gets the regular forms of a verb."""
    known = inflected(concept)  # raises where lemminflect is missing
    import lemminflect

    kinds = ("NOUN",) if len(known) > 1 else ("NOUN", "VERB")
    regular = [lemminflect.getAllInflectionsOOV(concept, kind) for kind in kinds]
    return tuple(sorted({*known, *(form for one in regular for group in one.values() for form in group)}))


def words(text: str) -> set[str]:
    """Return the words of a text in lower case, with and without punctuation around and within them: it's, it, s."""
    lower = text.lower()
    return {*re.findall(r"\w+", lower), *(word.strip(".,;:!?\"'()") for word in lower.split())}


@lru_cache(maxsize=1 << 14)
def lemmas(word: str) -> frozenset[str]:
    """Return a word and its possible lemmas, by the dictionary and by the rules of ``lemminflect``."""
    import lemminflect

    found = [
        lemminflect.getAllLemmas(word),
        *(lemminflect.getAllLemmasOOV(word, kind) for kind in ("NOUN", "VERB")),
    ]
    return frozenset({word, *(lemma.lower() for one in found for group in one.values() for lemma in group)})


def contains(text: str, concept: str) -> bool:
    """Return whether the text contains a form of the concept as a separate word."""
    return (
        re.search(rf"(?<!\w)(?:{'|'.join(map(re.escape, forms(concept)))})(?!\w)", text, re.IGNORECASE)
        is not None
    )


@lru_cache(maxsize=2)
def bleu(effective_order: bool) -> BLEU:
    """Make sacrebleu's BLEU-4 metric. Raises ``TractileError`` if sacrebleu is not installed."""
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        raise TractileError("BLEU is counted by sacrebleu: pip install sacrebleu") from None
    return BLEU(lowercase=True, effective_order=effective_order)
