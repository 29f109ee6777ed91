"""Contraction paths in opt_einsum's format, by a cost that takes the structure of operators into account.

A plan depends only on labels, sizes and which operands are structured, and is cached. A dense pair costs the product of
its label sizes. A structured operator applied along an axis costs the elements it reads and writes; contracted in any
other way it must be made dense, which the cost makes a last resort.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf

import opt_einsum
import torch

Labels = tuple[int, ...]
Term = tuple[Labels, tuple[int, ...], bool]  # labels, sizes, structured
Path = tuple[tuple[int, ...], ...]

SEARCH_LIMIT = 7  # operands; for more, opt_einsum's own search is used
WRITTEN_OUT = 1e3  # the factor on the cost of a step that makes a structured operator dense


def plan(terms: tuple[Term, ...], out: Labels) -> Path:
    """Return the positions to contract pairwise, each result appended last (opt_einsum's path format)."""
    if len(terms) <= 2:
        return () if len(terms) == 1 else ((0, 1),)
    if torch.compiler.is_compiling():  # does not see caches
        return _plan.__wrapped__(terms, out)
    return _plan(terms, out)


@lru_cache(maxsize=4096)
def _plan(terms: tuple[Term, ...], out: Labels) -> Path:
    if len(terms) <= SEARCH_LIMIT:
        return _search(terms, out)
    names = {
        label: opt_einsum.get_symbol(i)
        for i, label in enumerate(dict.fromkeys(i for t, *_ in terms for i in t))
    }
    sides = ",".join("".join(names[i] for i in labels) for labels, *_ in terms)
    equation = f"{sides}->{''.join(names[i] for i in out)}"
    path, _ = opt_einsum.contract_path(
        equation, *(sizes for _, sizes, _ in terms), shapes=True, optimize="auto"
    )
    return tuple(tuple(step) for step in path)


def _search(terms: tuple[Term, ...], out: Labels) -> Path:
    """Return the best path, by branch and bound; operands without a common label are paired only if no two have one."""
    sizes = {label: size for labels, dims, _ in terms for label, size in zip(labels, dims, strict=True)}
    best: tuple[float, Path] = (inf, ())

    def cost(labels: set[int]) -> float:
        found = 1.0
        for label in labels:
            found *= sizes[label]
        return found

    def search(now: list[tuple[set[int], bool]], spent: float, path: Path) -> None:
        nonlocal best
        if spent >= best[0]:
            return
        if len(now) == 1:
            best = (spent, path)
            return
        pairs = [(i, j) for i in range(len(now)) for j in range(i + 1, len(now))]
        for i, j in [p for p in pairs if now[p[0]][0] & now[p[1]][0]] or pairs:
            (a, a_structured), (b, b_structured) = now[i], now[j]
            rest = [term for k, term in enumerate(now) if k not in (i, j)]
            kept = set(out).union(*[labels for labels, _ in rest])
            result = (a | b) & kept
            step = cost(a | b)
            if a_structured and b_structured:
                step *= WRITTEN_OUT**2
            elif a_structured or b_structured:
                op, x = (a, b) if a_structured else (b, a)
                applies = len(op & x) == 1 and not op & x & kept
                step = cost(x) + cost(result) if applies else step * WRITTEN_OUT
            search([*rest, (result, False)], spent + step, (*path, (i, j)))

    search([(set(labels), structured) for labels, _, structured in terms], 0.0, ())
    return best[1]
