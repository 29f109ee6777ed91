"""Circuit: a directed acyclic graph of layers over variables.

    c = Circuit()
    a = c.input(Categorical(p), variable=0)
    b = c.input(Categorical(q), variable=1)
    c.sum(Sum(Dense(w)), c.product(Hadamard(), a, b))        # the node added last is the root

Each node carries its layer, its children in order, its scope (the variables below it) and its unit axes. Shapes are
checked as nodes are added; smoothness and decomposability by :mod:`tractile.circuits.properties`, before a query runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import CircuitError
from ..layers import InputLayer, Sum
from ..layers.operator import TensorMap
from .checks import check_tractable
from .graph import Graph, Layer, check_variables
from .io.draw import Node, Picture, ranges
from .io.file_format import Writer, write
from .io.summary import Described, SummaryTable
from .product import multiply_nodes


class Circuit(Graph, Described):
    """A directed acyclic graph of layers, as a model: ``input``, ``product`` and ``sum`` add nodes, the last one is the root.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.layers import Bernoulli, Dense, Hadamard, Sum
    >>> coins = Bernoulli(torch.tensor([0.5, 0.9]))  # two units: a fair coin and another
    >>> c = tt.Circuit()
    >>> both = c.product(Hadamard(), c.input(coins, 0), c.input(coins, 1))
    >>> root = c.sum(Sum(Dense(torch.tensor([[0.5, 0.5]]))), both)
    >>> round(tt.log_marginal(c, torch.tensor([[1, 1]])).exp().item(), 3)  # ½ · 0.25 + ½ · 0.81
    0.53
    """

    @property
    def variables(self) -> tuple[int, ...]:
        """The variables of the root, sorted."""
        return tuple(sorted(self.scope(self.root))) if self.num_layers else ()

    def vocab_sizes(self) -> dict[int, int]:
        """Return the number of values of each variable (0: a real number), by variable in ascending order.

        Raises :class:`CircuitError` if layers over one variable differ.
        """
        sizes: dict[int, int] = {}
        for node in self.nodes():
            layer = self.layer(node)
            if isinstance(layer, InputLayer) and self.scope(node):
                (variable,) = self.scope(node)
                if sizes.setdefault(variable, layer.vocab_size) != layer.vocab_size:
                    raise CircuitError(
                        f"variable {variable} has layers of {sizes[variable]} and of {layer.vocab_size} values"
                    )
        return dict(sorted(sizes.items()))

    def vocab_size(self, variable: int) -> int:
        """Return the number of values of a variable (0: a real number)."""
        sizes = self.vocab_sizes()
        if variable not in sizes:
            raise CircuitError(f"variable {variable} is not in the circuit; it has {list(sizes)}")
        return sizes[variable]

    def map(self, fn: TensorMap) -> Circuit:
        """Return a copy with ``fn`` applied to every parameter tensor, once to each: tied tensors stay tied."""
        once = for_each_tensor(fn)
        return self.map_layers(lambda layer: layer.map(once))

    @property
    def device(self) -> torch.device:
        """The device of the parameters; the CPU for a circuit without any."""
        return next((p.device for p in self.parameters()), torch.device("cpu"))

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Circuit:
        """Return a copy with the parameters on another device or in another precision; tied tensors stay tied."""
        return self.map(lambda t: t.to(device=device, dtype=dtype))

    def map_layers(self, fn: Callable[[Layer], Layer]) -> Circuit:
        """Return a copy whose layers are replaced by ``fn``, with equal units; a layer shared by several nodes stays shared."""
        out, mapped = Circuit(), dict[int, Layer]()
        for node in self._nodes:
            if id(node.layer) not in mapped:
                mapped[id(node.layer)] = fn(node.layer)
            out._nodes.append(node._replace(layer=mapped[id(node.layer)]))
        out.root = self.root
        return out

    def relabel(self, variables: Mapping[int, int]) -> Circuit:
        """Return a copy over other variables, given as ``{old: new}``; variables not named stay, layers are shared.

        Raises :class:`CircuitError` for an unknown variable, if two variables would become one, and for a variable that is not
        a whole number from 0 on.

        Examples
        --------
        >>> import torch
        >>> import tractile as tt
        >>> coins = tt.circuits.builders.factorised([tt.layers.Bernoulli(torch.tensor([p])) for p in (0.5, 0.9)])
        >>> coins.relabel({0: 7}).variables
        (1, 7)
        """
        new = {v: variables.get(v, v) for v in self.variables}
        if set(variables) - set(new) or len(set(new.values())) < len(new):
            raise CircuitError(
                f"relabel: {dict(variables)} must give distinct variables to some of {list(self.variables)}"
            )
        check_variables(new.values())
        out = Circuit()
        for node in self._nodes:
            out._nodes.append(node._replace(scope=frozenset(variables.get(v, v) for v in node.scope)))
        out.root = self.root
        return out

    def parameters(self) -> list[Tensor]:
        """Return the real-valued parameter tensors; a tensor shared by several layers comes once."""
        found = {id(p): p for node in self.nodes() for p in self.layer(node).parameters()}
        return list(found.values())

    def __mul__(self, other: Circuit) -> Circuit:
        """Multiply two circuits: x ↦ a(x)·b(x). Raises :class:`CircuitError` unless compatible (:func:`~tractile.multiply`)."""
        check_circuit(other, "multiply")
        for circuit in (self, other):
            check_tractable(circuit)
        out = Circuit()
        # working copies: nodes are added
        left, right = (c.map_layers(lambda layer: layer) for c in (self, other))
        out.root = multiply_nodes(left, right, out)
        return out

    def save(self, directory: str | Path) -> None:
        """Write ``config.json`` and ``model.safetensors`` into a directory; ``tt.load`` reads them."""
        write(directory, self._config)

    def _config(self, writer: Writer) -> dict[str, Any]:
        number: dict[int, int] = {}
        layers, nodes = list[Any](), list[Any]()
        for node in range(self.num_layers):
            layer = self.layer(node)
            if id(layer) not in number:
                number[id(layer)] = len(layers)
                layers.append(writer.write(layer))
            variable = next(iter(self.scope(node)), None) if isinstance(layer, InputLayer) else None
            nodes.append([number[id(layer)], list(self.children(node)), variable])
        return {"layers": layers, "nodes": nodes, "root": self.root}

    def table(self) -> SummaryTable:
        """Return a table with a row for each node, children before parents."""
        rows = [
            [
                str(node),
                type(self.layer(node)).__name__,
                ranges(sorted(self.scope(node))) or "–",
                " × ".join(map(str, self.unit_dims(node))),
                ", ".join(map(str, self.children(node))) or "–",
                f"{sum(p.numel() for p in self.layer(node).parameters()):,}",
            ]
            for node in self.nodes()
        ]
        total = sum(p.numel() for p in self.parameters())
        over = f"{self.num_nodes():,} layers over {len(self.variables)} variables"
        footer = f"{over}, {total:,} parameters (tied ones counted once)"
        return SummaryTable(["node", "layer", "variables", "units", "children", "parameters"], rows, footer)

    def num_nodes(self) -> int:
        """Count the root and the nodes below it."""
        return len(self.nodes())

    def picture(self, names: Sequence[str] | None = None) -> Picture:
        """Return a picture with a node for each layer and an edge for each child."""
        nodes = []
        for node in self.nodes():
            layer, units = self.layer(node), "×".join(map(str, self.unit_dims(node)))
            kind = (
                "input" if isinstance(layer, InputLayer) else "sum" if isinstance(layer, Sum) else "product"
            )
            variable = f" x{min(self.scope(node))}" if kind == "input" and self.scope(node) else ""
            nodes.append(Node(node, f"{type(layer).__name__}{variable}\n{units}", kind))
        return Picture(nodes, [(node, child, "") for node in self.nodes() for child in self.children(node)])

    def __repr__(self) -> str:
        return f"Circuit({self.num_layers} layers, variables {list(self.variables)})"


def for_each_tensor(fn: TensorMap) -> TensorMap:
    """Return a version of ``fn`` that is evaluated once for each tensor object, so that tied tensors stay tied."""
    known: dict[int, tuple[Tensor, Tensor]] = {}  # holds the tensors, so that no id is used again

    def once(tensor: Tensor) -> Tensor:
        if id(tensor) not in known:
            known[id(tensor)] = tensor, fn(tensor)
        return known[id(tensor)][1]

    return once


def check_circuit(model: object, operation: str) -> None:
    """Raise :class:`CircuitError` unless ``model`` is a circuit; a chain is none, since it has no numbered variables."""
    if not isinstance(model, Circuit):
        raise CircuitError(f"{operation}: takes a Circuit, not {model!r}; unroll(n) makes one of a chain")
