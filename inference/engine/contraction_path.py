"""Contraction paths, by a cost that takes the structure of operators into account.

A path depends only on labels, sizes and which operands are structured, and is cached. A dense pair costs the product of
its label sizes. A structured operator applied along an axis costs the elements it reads and writes; contracted in any
other way it must be made dense, which the cost makes a last resort.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf, prod

import torch

Labels = tuple[int, ...]
Term = tuple[Labels, tuple[int, ...], bool]  # labels, sizes, structured
Path = tuple[tuple[int, int], ...]

SEARCH_LIMIT = (
    7  # operands up to which every path is searched; while there are more, the cheapest pair is contracted
)
WRITTEN_OUT = 1e3  # the factor on the cost of a step that makes a structured operator dense


def best_path(terms: tuple[Term, ...], out: Labels) -> Path:
    """Return the positions to contract pairwise, each result appended last."""
    if len(terms) <= 2:
        return () if len(terms) == 1 else ((0, 1),)
    if torch.compiler.is_compiling():  # does not see caches
        return _best_path.__wrapped__(terms, out)
    return _best_path(terms, out)


@lru_cache(maxsize=4096)
def _best_path(terms: tuple[Term, ...], out: Labels) -> Path:
    """Return the best path, by branch and bound; operands without a common label are paired only if no two have one."""
    sizes = {label: size for labels, dims, _ in terms for label, size in zip(labels, dims, strict=True)}
    best: tuple[float, Path] = (inf, ())

    def cost(labels: set[int]) -> float:
        return float(prod([sizes[label] for label in labels]))

    def paired(now: list[tuple[set[int], bool]], i: int, j: int) -> tuple[float, set[int]]:
        """Return the cost of a pair, and the labels of the result."""
        (a, a_structured), (b, b_structured) = now[i], now[j]
        kept = set(out).union(*[labels for k, (labels, _) in enumerate(now) if k not in (i, j)])
        result, step = (a | b) & kept, cost(a | b)
        if a_structured and b_structured:
            return step * WRITTEN_OUT**2, result
        if a_structured or b_structured:
            op, x = (a, b) if a_structured else (b, a)
            applies = len(op & x) == 1 and not op & x & kept
            return cost(x) + cost(result) if applies else step * WRITTEN_OUT, result
        return step, result

    def search(now: list[tuple[set[int], bool]], spent: float, path: Path) -> None:
        nonlocal best
        if spent >= best[0]:
            return
        if len(now) == 1:
            best = (spent, path)
            return
        pairs = [(i, j) for i in range(len(now)) for j in range(i + 1, len(now))]
        pairs = [p for p in pairs if now[p[0]][0] & now[p[1]][0]] or pairs
        steps = [(*paired(now, i, j), i, j) for i, j in pairs]
        if len(now) > SEARCH_LIMIT:
            steps = [min(steps, key=lambda step: step[0])]
        for step, result, i, j in steps:
            rest = [term for k, term in enumerate(now) if k not in (i, j)]
            search([*rest, (result, False)], spent + step, (*path, (i, j)))

    search([(set(labels), structured) for labels, _, structured in terms], 0.0, ())
    return best[1]
