"""Function calling: a question and the functions that may be called → a call, or a list of calls (first paper, §5.2).

The paper's filter is applied: a question whose gold answer violates the specification of its tools is left out;
:attr:`FunctionCalling.dropped` lists these questions by reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from tractile.constraints import Constraint, function_calls
from tractile.errors import TractileError, UnsupportedConstraint

from .. import prompts
from ..base import Example, Task
from .data import Record, records
from .matching import exact, lenient, right_calls, share_of_arguments
from .syntax import Call, canonical, read_calls, write_calls
from .tools import tools_of

COMPILED = 64
"""The number of tool sets whose constraints are cached."""


class FunctionCalling(Task):
    """Calls of functions, in JSON or Python syntax; xLAM-60k, BFCL's single turns or Seal-Tools, a file or a folder.

    ``calls``: "either": a well-formed answer is one call or a list of several; "one": one call, and questions that ask for
    several are left out; "list": always a list. ``order`` of the arguments and ``syntax`` are as in
    :func:`tractile.constraints.function_calls`. ``candidates``: the least number of tools offered with a question, if the
    data set offers no choice (Seal-Tools). An argument that may be left out is left out of the reference.

    Scores: "accuracy", all calls right (name and arguments, in any order; strings exactly, numbers as numbers, any of
    BFCL's accepted values); "lenient", the same with strings compared as BFCL does; "satisfied", calls of functions that
    exist, with arguments that satisfy their JSON Schemas, as judged by the ``jsonschema`` package; "name", the functions
    are right; "arguments", the share of the arguments that are right.
    """

    name = "function-calling"
    metric = "accuracy"
    max_new_tokens = 128
    one_line = True

    def __init__(
        self,
        data: Path,
        *,
        syntax: Literal["json", "python"] = "json",
        calls: Literal["either", "one", "list"] = "either",
        order: Literal["declared", "any"] = "declared",
        candidates: int = 4,
    ) -> None:
        for value, what, choices in (
            (syntax, "syntax", ("json", "python")),
            (calls, "calls", ("either", "one", "list")),
            (order, "order", ("declared", "any")),
        ):
            if value not in choices:
                raise UnsupportedConstraint(f"{what} is one of {list(choices)}, not {value!r}", path=what)
        self.data, self.syntax, self.calls, self.order = Path(data), syntax, calls, order
        self.candidates = candidates
        self._dropped: dict[str, list[str]] = {}
        self._compiled = lru_cache(COMPILED)(self._compile)

    @property
    def dropped(self) -> Mapping[str, Sequence[str]]:
        return self._dropped

    def examples(self, split: str = "test") -> Iterator[Example]:
        self._dropped = {}
        for record in records(self.data, split, self.candidates):
            made = self._example(record)
            if isinstance(made, Example):
                yield made
            else:
                self._dropped.setdefault(made, []).append(record.id)

    def _example(self, record: Record) -> Example | str:
        """Make the example of a record; return the reason if it is left out."""
        if record.problem:
            return record.problem
        if self.calls == "one" and len(record.gold) > 1:
            return "several calls are asked for"
        try:
            tools = tools_of(json.dumps(record.tools))
        except TractileError as error:
            return f"the specification is not supported ({type(error).__name__})"
        calls = []
        for gold in record.gold:
            ((name, accepted),) = gold.items()
            if name not in tools.schemas:
                return "a function is called that is not specified"
            calls.append(tools.plain(name, accepted))
            if problem := tools.misfit(calls[-1]):
                return f"the gold answer does not satisfy its specification ({problem})"
        if self.syntax == "python" and not tools.in_python():
            return "a name cannot be written in Python"
        as_list = self.calls == "list" or len(calls) > 1
        return Example(
            record.id,
            prompts.function_calling(record.query, tools.signatures(), self.syntax),
            write_calls(calls, tools.python, self.syntax, as_list=as_list),
            {"tools": record.tools, "accepted": record.gold},
        )

    def constraint(self, example: Example) -> Constraint:
        return self._compiled(json.dumps(example.facts["tools"]))

    def _compile(self, tools: str) -> Constraint:
        def calls(parallel: bool | tuple[int, None]) -> Constraint:
            return function_calls(json.loads(tools), syntax=self.syntax, parallel=parallel, order=self.order)

        if self.calls == "either":
            return calls(False) | calls((2, None))
        return calls(self.calls == "list")

    def scores(self, example: Example, text: str) -> dict[str, float]:
        calls = read_calls(text, self.syntax)
        golds = example.facts["accepted"]
        if calls is None:
            return dict.fromkeys(("accuracy", "lenient", "satisfied", "name", "arguments"), 0.0)
        names = sorted(name for gold in golds for name in gold)
        return {
            "accuracy": float(right_calls(golds, calls, exact)),
            "lenient": float(right_calls(golds, calls, lenient)),
            "satisfied": float(self._satisfied(example.facts["tools"], calls)),
            "name": float(sorted(call["name"] for call in calls) == names),
            "arguments": share_of_arguments(golds, calls),
        }

    def meaning(self, example: Example, text: str) -> str:
        """Return the calls in canonical form, so that order, blanks and quotes make no difference."""
        calls = read_calls(text, self.syntax)
        return text if calls is None else canonical(calls)

    def _satisfied(self, tools: list[Any], calls: list[Call]) -> bool:
        known = tools_of(json.dumps(tools))
        return bool(calls) and not any(map(known.misfit, calls))
