"""Contraction paths in opt_einsum's format, by a cost that takes the structure of operators into account.

A plan depends only on labels, sizes and which operands are structured, and is cached. A dense pair costs the product of
its label sizes. A structured operator applied along an axis costs the elements it reads and writes; contracted in any
other way it must be made dense, which the cost makes a last resort.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf, prod
from typing import Any

import opt_einsum

Labels = tuple[int, ...]
Term = tuple[Labels, tuple[int, ...], bool]  # labels, sizes, structured
Path = tuple[tuple[int, ...], ...]

SEARCH_LIMIT = 7  # operands; for more, opt_einsum's own search is used
WRITTEN_OUT = 1e3  # the factor on the cost of a step that makes a structured operator dense


class StructuredPath(opt_einsum.paths.PathOptimizer):  # type: ignore[misc]
    """A branch-and-bound search over pairwise paths, which pairs operands without a common label only if no two have one."""

    def __init__(self, structured: frozenset[int]) -> None:
        self.structured = structured

    def __call__(
        self, inputs: list[Any], output: Any, size_dict: Any, memory_limit: int | None = None
    ) -> Any:
        out = frozenset(output)
        best: tuple[float, list[tuple[int, int]]] = (inf, [])

        def size(labels: frozenset[Any]) -> float:
            return float(prod(size_dict[i] for i in labels))

        def search(
            terms: list[tuple[frozenset[Any], bool]], cost: float, path: list[tuple[int, int]]
        ) -> None:
            nonlocal best
            if cost >= best[0]:
                return
            if len(terms) == 1:
                best = (cost, path)
                return
            pairs = [(i, j) for i in range(len(terms)) for j in range(i + 1, len(terms))]
            for i, j in [p for p in pairs if terms[p[0]][0] & terms[p[1]][0]] or pairs:
                (a, a_structured), (b, b_structured) = terms[i], terms[j]
                rest = [t for k, t in enumerate(terms) if k not in (i, j)]
                kept = out.union(*(labels for labels, _ in rest))
                result = (a | b) & kept
                step = size(a | b)
                if a_structured and b_structured:
                    step *= WRITTEN_OUT**2
                elif a_structured or b_structured:
                    op, x = (a, b) if a_structured else (b, a)
                    applies = len(op & x) == 1 and not op & x & kept
                    step = size(x) + size(result) if applies else step * WRITTEN_OUT
                search([*rest, (result, False)], cost + step, [*path, (i, j)])

        search([(frozenset(labels), k in self.structured) for k, labels in enumerate(inputs)], 0.0, [])
        return best[1]


def plan(terms: tuple[Term, ...], out: Labels) -> Path:
    """Return the positions to contract pairwise, each result appended last (opt_einsum's path format)."""
    return _plan(terms, out)


# What `torch.compiler.assume_constant_result` sets; calling it imports `torch._dynamo`, which takes three seconds.
vars(plan)["_dynamo_marked_constant"] = True


@lru_cache(maxsize=4096)
def _plan(terms: tuple[Term, ...], out: Labels) -> Path:
    if len(terms) == 1:
        return ()
    if len(terms) == 2:
        return ((0, 1),)
    names = {
        label: opt_einsum.get_symbol(i)
        for i, label in enumerate(dict.fromkeys(i for t, *_ in terms for i in t))
    }
    sides = ",".join("".join(names[i] for i in labels) for labels, *_ in terms)
    equation = f"{sides}->{''.join(names[i] for i in out)}"
    optimizer: Any = StructuredPath(frozenset(k for k, term in enumerate(terms) if term[2]))
    path, _ = opt_einsum.contract_path(
        equation,
        *(sizes for _, sizes, _ in terms),
        shapes=True,
        optimize=optimizer if len(terms) <= SEARCH_LIMIT else "auto",
    )
    return tuple(tuple(step) for step in path)
