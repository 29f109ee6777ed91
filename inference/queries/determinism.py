"""Determinism: which units can be positive at once, by Boolean contractions of a circuit with itself.

    O(n, m)[u, v] = is there an x with unit u of node n and unit v of node m both positive?

If n or m is a sum, O is a Boolean matrix product; if both are products that split their scope alike, O is the "and" of
their children's; for two inputs over one variable O = [A Bᵀ > 0]. If products split differently, "overlap in every
variable" is an upper bound of O. A sum is deterministic if, for each unit that some x uses, no two terms of positive weight
overlap: for the unrolled circuit of an automaton that is unambiguity (Vergari et al. 2021, Dang et al. 2026, Thm 4.3).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import prod

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.chain import Chain
from ...circuits.checks import check_tractable
from ...circuits.circuit import Circuit
from ...errors import CircuitError
from ...layers import InputLayer, Operator, Product, Sum
from ...layers.input import Constant

Model = Chain | Circuit
Units = Bool[Tensor, " units"]
LIMIT = 1 << 26  # the most entries of an operator or input layer that is made dense


def check_deterministic(model: Model) -> None:
    """Raise :class:`CircuitError` at the first sum that adds two terms for some x (of any length, for a chain).

    Exact for chains and structured-decomposable circuits. In other circuits, terms whose supports overlap in every
    variable taken alone count as overlapping, and the message says so.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.inference.queries.determinism import check_deterministic
    >>> try:
    ...     check_deterministic(tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]]))
    ... except tt.errors.CircuitError as error:
    ...     print(error)
    HMM(states=(2,), units=(2,), vocab_size=2) is not unambiguous: two paths of one sequence are in states 0 and 1
    """
    if isinstance(model, Chain):
        check_unambiguous(model)
    else:
        check_tractable(model)
        SupportAnalysis(model).check()


def is_deterministic(model: Model) -> bool:
    """Return whether every sum adds at most one term for each x (of any length, for a chain).

    Exact for chains and structured-decomposable circuits. In others False also where terms overlap in every variable taken
    alone, which does not show that they overlap.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.inference import is_deterministic
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> is_deterministic(one), is_deterministic(tt.HMM.random(hidden=2, vocab_size=2))
    (True, False)
    """
    try:
        check_deterministic(model)
    except CircuitError:
        return False
    return True


class SupportAnalysis:
    """The supports of the nodes of a smooth and decomposable circuit; unit axes are flattened, overlaps cached.

    ``possible[n][u]``: whether unit u of node n is positive for some x; ``values[n][v][u, a]``: whether for some x with x_v = a
    (an upper bound). ``exact`` is False once an overlap has been bounded from above only.
    """

    def __init__(self, circuit: Circuit) -> None:
        self.circuit, self.exact = circuit, True
        self.operators = {
            n: [_positive(op) for op in layer.operators]
            for n in circuit.nodes()
            if isinstance(layer := circuit.layer(n), Sum)
        }
        self.parts = {
            n: self._parts(n)
            for n in circuit.nodes()
            if n not in self.operators and not isinstance(circuit.layer(n), InputLayer)
        }
        self.values: dict[int, dict[int, Bool[Tensor, "units values"]]] = {}
        self.possible: dict[int, Units] = {}
        for node in circuit.nodes():
            self._upward(node)
        self._overlaps: dict[tuple[int, int], Bool[Tensor, "units units"]] = {}

    def _parts(self, node: int) -> list[tuple[int, Int[Tensor, " units"]]]:
        """Return each child of a product with the child's unit that each unit of the product multiplies."""
        layer, children = self.circuit.layer(node), self.circuit.children(node)
        assert isinstance(layer, Product)
        every = torch.arange(prod(self.circuit.unit_dims(node)))
        parts = layer.parts(every, [self.circuit.unit_dims(c) for c in children])
        return list(zip(children, parts, strict=True))

    def _upward(self, node: int) -> None:
        """Compute ``possible`` and ``values`` of a node from its children's."""
        layer, children = self.circuit.layer(node), self.circuit.children(node)
        if isinstance(layer, Constant):
            self.possible[node], self.values[node] = torch.ones(1, dtype=torch.bool), {}
        elif isinstance(layer, InputLayer):
            (variable,) = self.circuit.scope(node)
            densities = torch.ones(layer.num_units, 1, dtype=torch.bool)
            values = _positive(layer) if layer.vocab_size else densities
            self.possible[node], self.values[node] = values.any(1), {variable: values}
        elif node in self.operators:
            terms = list(zip(self.operators[node], children, strict=True))
            self.possible[node] = _any([_product(m, self.possible[c][:, None])[:, 0] for m, c in terms])
            self.values[node] = {
                v: _any([_product(m, self.values[c][v]) for m, c in terms]) for v in self.circuit.scope(node)
            }
        else:
            possible = torch.stack([self.possible[c][u] for c, u in self.parts[node]]).all(0)
            self.possible[node] = possible
            self.values[node] = {
                v: t[u] & possible[:, None] for c, u in self.parts[node] for v, t in self.values[c].items()
            }

    def used(self) -> dict[int, Units]:
        """Return which units of each node contribute to the root for some x."""
        used = {n: torch.zeros_like(p) for n, p in self.possible.items()}
        used[self.circuit.root] = self.possible[self.circuit.root].clone()
        for node in reversed(list(self.circuit.nodes())):
            for k, child in enumerate(self.circuit.children(node)):
                if node in self.operators:
                    used[child] |= (self.operators[node][k] & used[node][:, None]).any(0) & self.possible[
                        child
                    ]
                else:
                    used[child][self.parts[node][k][1][used[node]]] = True
        return used

    def overlap(self, n: int, m: int) -> Bool[Tensor, "units units"]:
        """Return O(n, m): whether a unit of n and a unit of m, nodes of one scope, can be positive for one x."""
        if (n, m) not in self._overlaps:
            self._overlaps[n, m] = self.overlap(m, n).T if m < n else self._overlap(n, m)
        return self._overlaps[n, m]

    def _overlap(self, n: int, m: int) -> Bool[Tensor, "units units"]:
        children = self.circuit.children
        if not self.circuit.scope(n):
            return self.possible[n][:, None] & self.possible[m][None]
        if n in self.operators:
            terms = zip(self.operators[n], children(n), strict=True)
            return _any([_product(op, self.overlap(c, m)) for op, c in terms])
        if m in self.operators:
            terms = zip(self.operators[m], children(m), strict=True)
            return _any([_product(op, self.overlap(c, n)) for op, c in terms]).T
        if isinstance(self.circuit.layer(n), InputLayer) and isinstance(self.circuit.layer(m), InputLayer):
            (variable,) = self.circuit.scope(n)
            return _product(self.values[n][variable], self.values[m][variable].T)
        return self._products(n, m)

    def _products(self, n: int, m: int) -> Bool[Tensor, "units units"]:
        every = {k: torch.arange(len(self.possible[k])) for k in (n, m)}  # an input is a product of itself
        ours, theirs = (
            {self.circuit.scope(c): (c, u) for c, u in self.parts.get(k, [(k, every[k])])} for k in (n, m)
        )
        result = self.possible[n][:, None] & self.possible[m][None]
        for scope in ours.keys() & theirs.keys():
            (c, u), (d, v) = ours[scope], theirs[scope]
            result = result & self.overlap(c, d)[u][:, v]
        if set(ours) - {frozenset()} != set(theirs) - {frozenset()}:
            for variable in self.circuit.scope(n):
                result = result & _product(self.values[n][variable], self.values[m][variable].T)
            self.exact &= not bool(result.any())
        return result

    def check(self) -> None:
        """Raise :class:`CircuitError` at the first sum of which two terms overlap."""
        used = self.used()
        for node, operators in self.operators.items():
            children = self.circuit.children(node)
            for i, (a, child) in enumerate(zip(operators, children, strict=True)):
                for b, other in list(zip(operators, children, strict=True))[i:]:
                    apart = self.overlap(child, other)
                    if a is b:
                        apart = apart & ~torch.eye(len(apart), dtype=torch.bool)
                    clash = (_product(a, apart) & b).any(1) & used[node]
                    if bool(clash.any()):
                        self._refuse(node, int(clash.nonzero()[0]), child, other)

    def _refuse(self, node: int, unit: int, child: int, other: int) -> None:
        what = (
            "overlap"
            if self.exact
            else "could not be shown to be disjoint (products split their scope differently)"
        )
        raise CircuitError(
            f"node {node} ({self.circuit.layer(node)!r}) is not deterministic: the supports of the terms of its unit {unit} "
            f"in nodes {child} and {other} {what}"
        )


def check_unambiguous(chain: Chain) -> None:
    """Raise :class:`CircuitError` if some sequence of some length has two latent paths (units and the states between them)."""
    if isinstance(chain, Automaton):
        if not chain.is_unambiguous:
            raise CircuitError(f"{chain!r} is not unambiguous: determinise it")
        return
    left, right, tokens = _positive(chain.left), _positive(chain.right), _positive(chain.inputs)
    meet = _product(tokens, tokens.T)  # pairs of units with a common token

    def ahead(pairs: Tensor) -> Tensor:  # pairs of states → pairs of units → pairs of states, one token later
        return _product(_product(right.T, _product(_product(left.T, pairs), left) & meet), right)

    def behind(pairs: Tensor) -> Tensor:
        return _product(_product(left, _product(_product(right, pairs), right.T) & meet), left.T)

    initial, final = (reduce(torch.kron, vectors).cpu() > 0 for vectors in (chain.initial, chain.final))
    forward = _closure(initial[:, None] & initial[None], ahead)
    backward = _closure(final[:, None] & final[None], behind)
    states = forward & behind(backward) & ~torch.eye(len(initial), dtype=torch.bool)
    units = _product(_product(left.T, forward), left) & meet & _product(_product(right, backward), right.T)
    for what, pairs in (("states", states), ("units", units & ~torch.eye(len(meet), dtype=torch.bool))):
        if bool(pairs.any()):
            pair = pairs.nonzero()[0].tolist()
            raise CircuitError(
                f"{chain!r} is not unambiguous: two paths of one sequence are in {what} {pair[0]} and {pair[1]}"
            )


def _positive(part: Operator | InputLayer) -> Bool[Tensor, "rows cols"]:
    """Return where an operator or table is positive; raise :class:`CircuitError` if it has more than ``LIMIT`` entries."""
    rows, cols = part.shape if isinstance(part, Operator) else (part.num_units, part.vocab_size)
    if rows * cols > LIMIT:
        raise CircuitError(f"support analysis: {part!r} has {rows:,} × {cols:,} entries, too many to decide")
    dense = part.dense() if isinstance(part, Operator) else part.table().flatten(0, -2)
    return dense.cpu() > 0


def _closure(pairs: Tensor, step: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the least superset of ``pairs`` that is closed under ``step``."""
    while True:
        more = pairs | step(pairs)
        if bool((more == pairs).all()):
            return pairs
        pairs = more


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Return the Boolean matrix product."""
    return (a.float() @ b.float()) > 0


def _any(tables: list[Tensor]) -> Tensor:
    return torch.stack(tables).any(0)
