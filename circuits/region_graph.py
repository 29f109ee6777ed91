"""Circuits over a tree of regions (Peharz et al. 2020): a region is a variable or a tuple of regions with no variable in common.

``((0, 1), (2, 3))`` splits four variables twice. Each region has K units; a *join* computes the units of a region from the
units of its parts:

    cp_join        y = Π_c W_c x_c            sums, then a product unit by unit
    tucker_join    y = W (x_1 ⊗ x_2 ⊗ …)      every combination of units, then a sum
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import ShapeError
from ..layers import Dense, Hadamard, InputLayer, Kronecker, Sum
from .circuit import Circuit

Region = int | tuple["Region", ...]
Inputs = Callable[[int, int], InputLayer]  # (variable, number of units) → layer
Weights = Callable[[int, int], Float[Tensor, "rows cols"]]  # (rows, cols) → weights
Join = Callable[[Circuit, Sequence[int], int, Weights], int]


def random_regions(variables: Sequence[int] | int, seed: int = 0) -> Region:
    """Draw a random binary tree over ``variables``, ids or their number: each level splits them into halves.

    Examples
    --------
    >>> import tractile as tt
    >>> tt.circuits.builders.random_regions(5, seed=0)
    ((4, 0), (1, (3, 2)))
    """
    count = variables if isinstance(variables, int) else len(variables)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()

    def split(part: list[int]) -> Region:
        half = len(part) // 2
        return part[0] if len(part) == 1 else (split(part[:half]), split(part[half:]))

    return split(order if isinstance(variables, int) else [variables[i] for i in order])


def image_regions(height: int, width: int) -> Region:
    """Return a tree of regions of an image's pixels, cut in halves across the longer side each time.

    The pixel in a row and a column is the variable row · width + column.

    Examples
    --------
    >>> import tractile as tt
    >>> tt.circuits.builders.image_regions(height=2, width=3)
    ((0, 3), ((1, 2), (4, 5)))
    """

    def cut(top: int, left: int, rows: int, columns: int) -> Region:
        if rows == columns == 1:
            return top * width + left
        if rows >= columns:
            half = rows // 2
            return cut(top, left, half, columns), cut(top + half, left, rows - half, columns)
        half = columns // 2
        return cut(top, left, rows, half), cut(top, left + half, rows, columns - half)

    if height < 1 or width < 1:
        raise ShapeError(f"image_regions: an image has at least one pixel, not {height} × {width}")
    return cut(0, 0, height, width)


def cp_join(circuit: Circuit, children: Sequence[int], units: int, weights: Weights) -> int:
    """Join regions unit by unit: y = Π_c W_c x_c, a sum over each child and a product of the sums; return its node.

    ``children``: nodes of the circuit over disjoint variables, each with one unit axis. ``units``: the number of units of y.
    ``weights(rows, columns)`` makes each W_c, (units, units of c); rows that are distributions keep y normalised. For two
    children of K units that is 2 · units · K weights, where :func:`tucker_join` has units · K².

    Examples
    --------
    >>> import tractile as tt
    >>> random, c = tt.circuits.builders.RandomParameters(), tt.Circuit()
    >>> parts = [c.input(random.bernoulli()(v, 4), v) for v in range(2)]
    >>> c.unit_dims(tt.circuits.builders.cp_join(c, parts, 3, random.rows))
    (3,)
    >>> sum(p.numel() for p in c.parameters())  # two inputs of 4, two matrices of 3 × 4
    32
    """
    sums = [circuit.sum(Sum(Dense(weights(units, circuit.unit_dims(c)[0]))), c) for c in children]
    return circuit.product(Hadamard(), *sums)


def tucker_join(circuit: Circuit, children: Sequence[int], units: int, weights: Weights) -> int:
    """Join regions by every combination of their units: y = W (x_1 ⊗ x_2 ⊗ …); return its node.

    Arguments as in :func:`cp_join`; ``weights`` is called once, for W.

    Examples
    --------
    >>> import tractile as tt
    >>> random, c = tt.circuits.builders.RandomParameters(), tt.Circuit()
    >>> parts = [c.input(random.bernoulli()(v, 4), v) for v in range(2)]
    >>> c.unit_dims(tt.circuits.builders.tucker_join(c, parts, 3, random.rows))
    (3,)
    >>> sum(p.numel() for p in c.parameters())  # two inputs of 4, one matrix of 3 × 16
    56
    """
    product = circuit.product(Kronecker(), *children)
    size = torch.Size(circuit.unit_dims(product)).numel()
    return circuit.sum(Sum(Dense(weights(units, size))), product)


def regions(
    region: Region,
    inputs: Inputs,
    weights: Weights,
    num_units: int,
    num_inputs: int | None = None,
    join: Join = cp_join,
) -> Circuit:
    """Build a circuit over a tree of regions, with ``num_units`` units for each region.

    Input layers have ``num_inputs`` units (default: ``num_units``). ``inputs(variable, units)`` makes the input layers,
    ``weights(rows, cols)`` the weights of sums, and ``join`` the units of a region from the units of its parts:
    :func:`cp_join`, :func:`tucker_join` or a function of the same arguments.

    Examples
    --------
    >>> import tractile as tt
    >>> random = tt.circuits.builders.RandomParameters(seed=0)
    >>> model = tt.circuits.builders.regions(((0, 1), (2, 3)), random.bernoulli(), random.rows, num_units=2)
    >>> model
    Circuit(14 layers, variables [0, 1, 2, 3])
    >>> round(tt.partition(model).exp().item(), 4)
    1.0
    """
    circuit, nodes = Circuit(), list[int]()
    # a region waits on the stack until its parts are done
    steps: list[tuple[Region, bool]] = [(region, False)]
    while steps:
        part, done = steps.pop()
        if isinstance(part, int):
            nodes.append(circuit.input(inputs(part, num_inputs or num_units), part))
        elif done:
            nodes[-len(part) :] = [join(circuit, nodes[-len(part) :], num_units, weights)]
        else:
            steps += [(part, True), *((child, False) for child in reversed(part))]
    (top,) = nodes
    circuit.sum(Sum(Dense(weights(1, circuit.unit_dims(top)[0]))), top)
    return circuit
