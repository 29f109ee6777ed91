"""Data science in Python: a question with a sample of data → code that passes the question's test (DS-1000, Lai et al. 2023;
the second paper, §3.1 and appendix E.4).

The code is RUN, in the sandbox of ``sandbox.py``, whose docstring says what is guaranteed and what is not. The potential is
the paper's: the longest prefix of whole statements is run on the test's data (without the test's verdict), and the potential
is zero if the run raises or takes too much time or memory. As in the paper, the constraint is no grammar of Python: an answer
is text up to one of the marks that end a solution in DS-1000's prompts, or text without such a mark.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from tractile.constraints import Constraint, any_of
from tractile.constraints.regex.constraint import regex
from tractile.errors import FormatError, TractileError
from tractile.inference.smc import FunctionPotential, every_statement
from tractile.inference.smc.boundaries import Boundary

from ..base import Example, Task
from ..files import find, read_jsonl
from .sandbox import ExecutionNotAllowed, Limits, Outcome, run
from .statements import parsed, whole_statements

MODULES = {
    "Pandas": "pandas", "Numpy": "numpy", "Sklearn": "sklearn", "Scipy": "scipy", "Tensorflow": "tensorflow", "Pytorch": "torch",
    "Matplotlib": "matplotlib",
}  # fmt: skip
"""The modules to import, by DS-1000's names of the libraries."""
PAPER = "Pandas,Numpy,Sklearn,Scipy,Tensorflow,Pytorch"
END_MARKS = ("</code>", "END SOLUTION", "SOLUTION END", "```")
RESULTS_KEPT = 1 << 14

INPUTS = "\n_inputs = [generate_test_case(_case + 1)[0] for _case in range({cases})]\n"
ON_INPUTS = """
for _input in _inputs:
    exec({program}, {{"test_input": _input}})
"""
PART = 'exec_context.split("[insert]", 1)[0] + {code!r}'
WHOLE = 'exec_context.replace("[insert]", {code!r})'


class DataScience(Task):
    """DS-1000: ``data`` is its .jsonl file (ds1000.jsonl, plain or compressed) or the folder that contains it.

    ``allow_code_execution`` must be True. ``libraries``: whose problems to use, by default the paper's six; problems of a
    library that is not installed are left out and listed in :attr:`dropped`. A run takes at most ``seconds`` and ``memory``
    bytes of address space; ``processes`` run at a time.

    Scores: "accuracy", the test passes; "runs", the code raises nothing on the test's data. Raises
    :class:`ExecutionNotAllowed`.
    """

    name = "data-science"
    metric = "accuracy"
    max_new_tokens = 256

    def __init__(
        self,
        data: Path,
        *,
        allow_code_execution: bool = False,
        libraries: str = PAPER,
        seconds: float = 10.0,
        memory: int = 4 << 30,
        processes: int = 2,
    ) -> None:
        if allow_code_execution is not True:
            raise ExecutionNotAllowed(
                "data-science runs the Python code that the model writes, within limits but on this machine; if you want that, "
                "say allow_code_execution=True (--allow-code-execution)"
            )
        self.data, self.limits, self.processes = Path(data), Limits(seconds, memory), processes
        self.libraries = {library.strip().lower() for library in libraries.split(",")}
        self._dropped: dict[str, list[str]] = {}
        self._run = lru_cache(RESULTS_KEPT)(lambda parts: run(parts, self.limits))

    @property
    def dropped(self) -> Mapping[str, Sequence[str]]:
        return self._dropped

    def examples(self, split: str = "test") -> Iterator[Example]:
        """Yield the problems, all of them in the split "test". See :meth:`Task.examples`."""
        self._dropped = {}
        if split == "train":
            return
        path = find(self.data, "ds1000.jsonl", "test.jsonl")
        for index, item in enumerate(read_jsonl(path)):
            try:
                about = item["metadata"]
                id, library = str(about["problem_id"]), str(about["library"])
                cases = int(about.get("test_case_cnt", 1))
                context, prompt, reference = item["code_context"], item["prompt"], item["reference_code"]
                if "def test_execution(" not in context or "exec_context" not in context:
                    raise ValueError("its code_context has no test_execution")
            except (KeyError, TypeError, ValueError) as error:
                raise FormatError(f"{path}, item {index}: no problem of DS-1000: {error!r}") from error
            if library.lower() not in self.libraries:
                self._dropped.setdefault(f"{library} is not among the libraries asked for", []).append(id)
            elif find_spec(MODULES.get(library, "sys")) is None:
                self._dropped.setdefault(f"{library} is not installed", []).append(id)
            else:
                yield Example(id, prompt, reference, {"code_context": context, "cases": cases})

    def constraint(self, example: Example) -> Constraint:
        return well_formed()

    def potential(self, example: Example) -> FunctionPotential:
        return FunctionPotential(
            self._on_each(lambda text: self.part_runs(example, text)),
            every_statement,
            final=self._on_each(lambda text: self.runs(example, text)),
            batched=True,
            name=f"data-science {example.id}",
        )

    def align(self, example: Example) -> Boundary:
        """Return the boundary after each whole statement, as in the paper (§2)."""
        return every_statement

    def _on_each(self, function: Callable[[str], float]) -> Callable[[list[str]], list[float]]:
        def batched(texts: list[str]) -> list[float]:
            with ThreadPoolExecutor(self.processes) as pool:
                return list(pool.map(function, texts))

        return batched

    def part_runs(self, example: Example, text: str) -> float:
        """Return 1 if the whole statements of an unfinished solution run on the test's data, 0 if they fail."""
        code = whole_statements(solution(text))
        return 1.0 if not code else self._runs(example, PART.format(code=code))

    def runs(self, example: Example, text: str) -> float:
        """Return 1 if a finished solution runs on the test's data, 0 if it fails."""
        return self._runs(example, WHOLE.format(code=solution(text)))

    def _runs(self, example: Example, program: str) -> float:
        setup = example.facts["code_context"] + INPUTS.format(cases=example.facts["cases"])
        return float(not self._outcome(example, setup, ON_INPUTS.format(program=program)).problem)

    def _outcome(self, example: Example, setup: str, program: str) -> Outcome:
        outcome = self._run((setup, program))
        if not outcome.done:
            raise TractileError(f"the test of problem {example.id} does not run here: it {outcome.problem}")
        return outcome

    def scores(self, example: Example, text: str) -> dict[str, float]:
        code, context = solution(text), example.facts["code_context"]
        tests = ["test_execution", *(["test_string"] if "def test_string(" in context else [])]
        program = "".join(f"{test}({code!r})\n" for test in tests)
        passed = not self._outcome(example, context, program).problem
        return {"accuracy": float(passed), "runs": 1.0 if passed else self.runs(example, text)}

    def meaning(self, example: Example, text: str) -> str:
        """Return the syntax tree as text, so that comments and blanks make no difference."""
        code = solution(text)
        body = parsed(code)
        return code if body is None else ast.dump(ast.Module(body, []))


def solution(text: str) -> str:
    """Return the text up to the first mark that ends a solution."""
    return re.split("|".join(map(re.escape, END_MARKS)), text, maxsplit=1)[0]


@lru_cache(1)
def well_formed() -> Constraint:
    """Return the constraint of printable text in which an end mark may occur at the end but nowhere else."""
    printable = r"[\t\n\x20-\x7e\u00a0-\U0010ffff]"
    text, more = regex(f"{printable}*"), regex(f"{printable}+")
    return text & ~(text + any_of(*END_MARKS) + more)
