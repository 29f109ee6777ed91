"""Sweeps over a circuit: upward, the value of every node; downward, the root's derivative with respect to every node.

A group of nodes (:mod:`tractile.inference.engine.folding`) is one contraction. With one variable open, the root as a function of
this variable is Bᵀ times the derivative at the variable's input layers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from typing import Any

import torch

from ...circuits.circuit import Circuit
from ...layers import InputLayer, Product, Sum
from ..queries.evidence import Evidence
from ..semirings.base import Semiring
from .contract import apply_many, contract, outer, ungroup
from .filter import checkpointed
from .folding import FoldedCircuit, Group, Plan, Slot, folded
from .inputs import input_values, join, open_values, same_batch, split

SR = Semiring[Any]
FOLD, BATCH = -2, -1  # labels beside those of a product's unit axes


class Values:
    """A value for each node, (*unit_dims, batch), stored by groups: (fold, *unit_dims, batch)."""

    def __init__(self, semiring: SR, plan: Plan) -> None:
        self.semiring, self.plan = semiring, plan
        self.groups: list[Any] = [None] * len(plan.groups)
        self._entries: dict[int, list[Any]] = {}

    def __getitem__(self, node: int) -> Any:
        """Return the value of a node, (*unit_dims, batch)."""
        return self.semiring.merge(self.entry(*self.plan.place[node]), 0, 2)

    def entry(self, group: int, i: int) -> Any:
        """Return one entry of a group, (1, *unit_dims, batch); the group is split once for all its entries."""
        semiring, size = self.semiring, len(self.plan.groups[group].nodes)
        if size == 1:
            return self.groups[group]
        if group not in self._entries:
            self._entries[group] = split(semiring, self.groups[group])
        return self._entries[group][i]

    def at(self, slot: Slot) -> Any:
        """Return the values of the children in a slot, (fold, *unit_dims, batch)."""
        if len(slot.index) == 1:
            return self.entry(slot.groups[0], slot.index[0])
        found = same_batch(self.semiring, [self.groups[g] for g in slot.groups])
        x = found[0] if len(found) == 1 else join(self.semiring, found)
        if slot.whole:
            return x
        return self.semiring.gather(x, torch.tensor(slot.index, device=self.semiring.device(x)), 0)

    def collect(self, group: int, pieces: Sequence[tuple[Sequence[int], Any]]) -> None:
        """Set a group from pieces (entries, value); pieces of one entry, a child of several nodes, are ⊕-added."""
        semiring, size = self.semiring, len(self.plan.groups[group].nodes)
        entries = [i for own, _ in pieces for i in own]
        x = join(semiring, same_batch(semiring, [value for _, value in pieces]))
        if entries != list(range(size)):
            index = torch.tensor(entries, device=semiring.device(x))
            once = len(entries) == len(set(entries)) == size
            x = semiring.gather(x, index.argsort(), 0) if once else semiring.segment_sum(x, index, size, 0)
        self.groups[group] = x


def upward(circuit: Circuit, semiring: SR, evidence: Evidence, checkpoint: int | None = None) -> Values:
    """Compute the value of every node from the inputs up to the root, each (*unit_dims, batch).

    ``checkpoint`` (if not None): for derivatives, keep only the values of groups and recompute what lies between.
    """
    known = folded(circuit)
    values = Values(semiring, known.plan)
    for g in range(len(known.plan.groups)):
        run = _group_value, known, g, values, evidence
        values.groups[g] = checkpointed(*run) if checkpoint else run[0](*run[1:])
    return values


def _group_value(known: FoldedCircuit, g: int, values: Values, evidence: Evidence) -> Any:
    """Compute the value of one group from those of its children."""
    semiring, layers, group = values.semiring, known.layers[g], known.plan.groups[g]
    if isinstance(layers[0], InputLayer):
        return input_values(semiring, layers, known.variables[g], evidence)
    below = [values.at(slot) for slot in group.slots]
    if isinstance(layers[0], Sum):
        pairs = zip(known.operators[g], below, strict=True)
        return reduce(semiring.add, [apply_many(semiring, operators, x) for operators, x in pairs])
    if group.by_unit:
        return reduce(semiring.mul, below)
    own, out = _labels(group)
    return contract(semiring, list(zip(same_batch(semiring, below), own, strict=True)), out)


def downward(circuit: Circuit, semiring: SR, values: Values) -> Values:
    """Compute the derivative of the root with respect to every node, each (*unit_dims, batch), from the upward ``values``."""
    known, plan, derivatives = folded(circuit), values.plan, Values(semiring, values.plan)
    pieces: list[list[tuple[Sequence[int], Any]]] = [[] for _ in plan.groups]
    device = semiring.device(values.groups[-1])
    seeds = tuple(torch.ones(d, device=device) for d in plan.groups[-1].dims)
    top = outer(semiring, seeds, semiring.shape(values.groups[-1])[-1])
    pieces[-1].append(((0,), semiring.split(top, 0, (1, len(seeds[0])))))  # nothing is as deep as the root
    for g, group in reversed(list(enumerate(plan.groups))):
        derivatives.collect(g, pieces[g])
        d = derivatives.groups[g]
        for slot, x in zip(group.slots, _passed(known, g, d, values), strict=True):
            begin = 0
            for child in slot.groups:
                size = len(plan.groups[child].nodes)
                here = [k for k, i in enumerate(slot.index) if begin <= i < begin + size]
                part = x
                if len(here) < len(slot.index):
                    part = semiring.gather(x, torch.tensor(here, device=semiring.device(x)), 0)
                pieces[child].append(([slot.index[k] - begin for k in here], part))
                begin += size
    return derivatives


def _passed(known: FoldedCircuit, g: int, d: Any, values: Values) -> Iterator[Any]:
    """Yield what a group with derivative ``d`` contributes to the derivatives of its children, slot by slot."""
    semiring, layers, group = values.semiring, known.layers[g], known.plan.groups[g]
    if isinstance(layers[0], Sum):
        for operators, slot in zip(known.operators[g], group.slots, strict=True):
            down = apply_many(semiring, operators, d, transposed=True)
            dims = known.plan.groups[slot.groups[0]].dims
            yield ungroup(semiring, down, dims, operators[0].col_dims, first=1)
    elif isinstance(layers[0], Product):
        below = [values.at(slot) for slot in group.slots]
        own, out = _labels(group)
        for i, mine in enumerate(own):
            others = [x for j, x in enumerate(below) if j != i]
            if group.by_unit:
                yield reduce(semiring.mul, [d, *others])
                continue
            labels = [out, *own[:i], *own[i + 1 :]]
            yield contract(semiring, list(zip(same_batch(semiring, [d, *others]), labels, strict=True)), mine)


def _labels(group: Group) -> tuple[list[Any], Any]:
    """Return the labels of a product's children and of its output, with those of fold and batch."""
    return [(FOLD, *labels, BATCH) for labels in group.labels], (FOLD, *group.out, BATCH)


def open_variables(
    circuit: Circuit, semiring: SR, evidence: Evidence, asked: Collection[int]
) -> dict[int, Any]:
    """Return the root as a function of each of some discrete variables, (vocab, batch), given the evidence on all others.

    Evidence on the variable itself does not enter: it is no factor of the root's derivatives at the variable's inputs.
    """
    derivatives = downward(circuit, semiring, upward(circuit, semiring, evidence))
    known = folded(circuit)
    terms: dict[int, list[Any]] = {v: [] for v in asked}
    for layers, variables, x in zip(known.layers, known.variables, derivatives.groups, strict=True):
        entries = [i for i, v in enumerate(variables) if v in asked and isinstance(layers[i], InputLayer)]
        if entries:
            if len(entries) < len(layers):
                x = semiring.gather(x, torch.tensor(entries, device=semiring.device(x)), 0)
            tables = open_values(semiring, [layers[i] for i in entries], x)
            for i, table in zip(entries, split(semiring, tables), strict=True):
                terms[variables[i]].append(semiring.merge(table, 0, 2))
    return {v: reduce(semiring.add, same_batch(semiring, found)) for v, found in terms.items()}
