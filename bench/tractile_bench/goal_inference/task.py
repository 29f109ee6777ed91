"""Goals of planning problems from their descriptions, on Planetarium (Zuo et al. 2024): the second paper's Appendix E.3."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from tractile.constraints import Constraint
from tractile.constraints.regex.constraint import regex
from tractile.errors import EmptyLanguage, FormatError, TractileError
from tractile.inference.smc import FunctionPotential

from ..base import Example, Task
from ..files import find, read_jsonl, read_text
from ..prompts import goal_inference
from ..splits import is_train, planetarium_key
from .domains import BLOCKSWORLD, GRIPPER
from .equivalence import equivalent
from .plans import find_plan, run
from .strips import Atom, Domain, Problem, State, read_domain, read_goal, read_problem, written

STRICT = ("swap", "invert", "juggle", "drop_and_pickup", "focus_min", "focus_max")
"""Planetarium's kinds of goals that refer to the initial state, even if they are described abstractly."""


class GoalInference(Task):
    """Goal inference: write the goal of a planning problem, described in words, in PDDL.

    The reference is the goal on one line, ``(and (on b1 b2) …)``. ``data``: Planetarium's rows as ``.jsonl`` or
    ``.parquet`` (which needs pyarrow), one file or a folder; files whose names begin with "train" or "test" are those
    splits, others are divided by a hash. Domains other than blocksworld and gripper are read from a folder ``domains`` of
    PDDL files. ``domain`` keeps the problems of one domain, ``max_objects`` those with at most this number of objects (the
    paper has blocksworld with fewer than 10). ``max_states`` bounds the search for a plan.

    Scores: ``equivalent``: equivalent to the reference, up to interchangeable objects; ``satisfied``: satisfies the
    constraint; ``atoms``: F1 score of the atoms.
    """

    name = "goal-inference"
    metric = "equivalent"
    max_new_tokens = 192
    one_line = True

    def __init__(
        self,
        data: str | Path,
        *,
        domain: str | None = None,
        max_objects: int = 12,
        max_states: int = 20_000,
    ) -> None:
        self.data, self.domain, self.max_objects = Path(data), domain, max_objects
        self.max_states = max_states
        self._dropped: dict[str, list[str]] = {}
        self._constraints: dict[str, Constraint] = {}
        self._reached: dict[str, State] = {}

    @property
    def dropped(self) -> Mapping[str, Sequence[str]]:
        return self._dropped

    @cached_property
    def domains(self) -> dict[str, Domain]:
        """The known domains, by name."""
        texts = [BLOCKSWORLD, GRIPPER]
        if (folder := self.data / "domains").is_dir():
            texts += [read_text(path) for path in sorted(folder.glob("*.pddl"))]
        return {found.name: found for found in map(read_domain, texts)}

    def examples(self, split: str = "test") -> Iterator[Example]:
        if split not in ("train", "test"):
            raise FormatError(f'{split!r}: the splits are "train" and "test"')
        dropped: defaultdict[str, list[str]] = defaultdict(list)
        self._dropped = dropped
        path, divided = self._file(split)
        read, first = False, None
        for index, row in enumerate(_rows(path)):
            try:
                example, key = _example(row, index)
                problem = problem_of(example)
            except KeyError as error:
                raise FormatError(f"{path}, item {index}: {error}") from error
            except FormatError as error:
                first = first or FormatError(f"{path}, item {index}: {error}")
                dropped["its problem cannot be read"].append(str(row.get("id", index)))
                continue
            read = True
            if (divided and is_train(key) != (split == "train")) or self.domain not in (None, problem.domain):
                continue
            if problem.domain not in self.domains:
                dropped[f"no domain file of {problem.domain}"].append(example.id)
            elif len(problem.objects) > self.max_objects:
                dropped[f"more than {self.max_objects} objects"].append(example.id)
            else:
                yield example
        if first is not None and not read:
            raise first

    def _file(self, split: str) -> tuple[Path, bool]:
        """Return the file of a split, and whether it holds both splits."""
        if self.data.is_dir():
            for inside in (self.data, self.data / "data"):
                for path in sorted(inside.glob(f"{split}*")):
                    if re.search(r"\.(jsonl|json|parquet)(\.gz|\.zst)?$", path.name):
                        return path, False
        return find(self.data, "problems.jsonl", "problems.half.jsonl", "problems.parquet"), True

    def constraint(self, example: Example) -> Constraint:
        """Return the constraint of goals that are well-typed for the problem (:func:`goals`); cached."""
        problem, key = problem_of(example), example.facts["problem"]
        if key not in self._constraints:
            self._constraints[key] = goals(self.domains[problem.domain], problem)
        return self._constraints[key]

    def potential(self, example: Example) -> FunctionPotential:
        """Return the potential: 1 if the atoms so far hold in the state that a plan for the reference goal reaches."""
        state = self.reached(example)

        def holds(text: str) -> bool:
            try:
                return state.issuperset(read_goal(text))
            except FormatError:
                return False

        return FunctionPotential(
            lambda begun: holds(begun + ")"), after_atoms, final=holds, name="plan simulation"
        )

    def reached(self, example: Example) -> State:
        """Return the state after a plan for the reference goal; cached. Raises :class:`TractileError` if no plan is found."""
        problem, key = problem_of(example), example.facts["problem"]
        if key not in self._reached:
            plan = find_plan(self.domains[problem.domain], problem, self.max_states)
            state = None if plan is None else run(problem.init, plan)
            if state is None:
                raise TractileError(
                    f"{example.id}: no plan among {self.max_states} states; raise max_states, or go without potential"
                )
            self._reached[key] = state
        return self._reached[key]

    def scores(self, example: Example, text: str) -> dict[str, float]:
        problem = problem_of(example)
        domain, gold = self.domains[problem.domain], frozenset(problem.goal)
        try:
            atoms = frozenset(read_goal(text))
        except FormatError:
            atoms = frozenset()
        sound = bool(atoms) and all(fits(atom, domain, problem) for atom in atoms)
        return {
            "equivalent": float(sound and equivalent(problem, gold, atoms, example.facts["free"])),
            "satisfied": float(self.constraint(example).accepts(text)),
            "atoms": 2 * len(atoms & gold) / (len(atoms) + len(gold)) if atoms else 0.0,
        }

    def meaning(self, example: Example, text: str) -> str:
        try:
            return written(sorted(set(read_goal(text))))
        except FormatError:
            return text


@lru_cache(maxsize=1024)
def _problem(pddl: str) -> Problem:
    return read_problem(pddl)


def problem_of(example: Example) -> Problem:
    """Return the planning problem of an example; cached."""
    return _problem(example.facts["problem"])


def goals(domain: Domain, problem: Problem) -> Constraint:
    """Return the constraint ``(and (p a b) …)``: one or more predicates of the domain with objects of the types they take."""
    atoms = []
    for predicate, kinds in domain.predicates.items():
        fitting = [[re.escape(o) for o, own in problem.objects.items() if domain.is_a(own, k)] for k in kinds]
        if all(fitting):
            atoms.append(" ".join([re.escape(predicate), *(f"(?:{'|'.join(names)})" for names in fitting)]))
    if not atoms:
        raise EmptyLanguage("nothing can be said of these objects in this domain")
    return regex(rf"\(and(?: \((?:{'|'.join(atoms)})\))+\)")


def fits(atom: Atom, domain: Domain, problem: Problem) -> bool:
    """Return whether an atom is a predicate of the domain with objects of the types it takes."""
    kinds = domain.predicates.get(atom[0])
    return (
        kinds is not None
        and len(kinds) == len(atom) - 1
        and all(
            name in problem.objects and domain.is_a(problem.objects[name], kind)
            for name, kind in zip(atom[1:], kinds, strict=True)
        )
    )


def after_atoms(text: str) -> int:
    """Return the boundary of the potential: the position after the last complete atom of the conjunction, or 0."""
    depth = boundary = 0
    for match in re.finditer("[()]", text):
        depth += 1 if match[0] == "(" else -1
        if match[0] == ")" and depth == 1:
            boundary = match.end()
    return boundary


def _example(row: Mapping[str, Any], index: int) -> tuple[Example, str]:
    """Convert a row to (example, key of its split).

    Published rows have ``init_is_abstract``, ``goal_is_abstract`` and ``is_placeholder``, others ``init_desc`` and
    ``goal_desc``."""
    pddl, words = row["problem_pddl"], row["natural_language"]
    init, goal = (
        row[f"{part}_desc"]
        if f"{part}_desc" in row
        else ("explicit", "abstract")[bool(row[f"{part}_is_abstract"])]
        for part in ("init", "goal")
    )
    free = (
        row["is_placeholder"]
        if "is_placeholder" in row
        else not (row["goal"] in STRICT or init == goal == "explicit")
    )
    facts = {"problem": pddl, "free": bool(free)}
    example = Example(str(row.get("id", index)), goal_inference(words), written(_problem(pddl).goal), facts)
    return example, planetarium_key(example.reference)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix != ".parquet":
        yield from read_jsonl(path)
        return
    try:
        import pyarrow.parquet
    except ImportError:
        raise TractileError(f"{path} is read with pyarrow: pip install pyarrow") from None
    try:
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise FormatError(f"{path} is not a parquet file: {error}") from error
