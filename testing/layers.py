"""What layers promise: that a matrix, a table or a product is what each of its methods says it is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import ShapeError
from ..inference import Boolean, Counting, Log, MaxProduct, MinPlus, Real, Semiring
from ..inference.engine import contract
from ..layers import AxisOperator, InputLayer, Operator
from ..layers.gaussian import Continuous
from ..layers.inner import Product
from .comparison import promise, same, unbiased

SEMIRINGS: tuple[type[Semiring[Any]], ...] = (Real, Log, Boolean, Counting, MaxProduct, MinPlus)
Layer = Operator | InputLayer | Product


def check_layer(
    layer: Layer, *, seed: int = 0, draws: int = 2000, error: float = 1e-5, tolerance: float = 1e-5
) -> None:
    """Check a layer against its matrix, its table or its labels, written out.

    An operator is applied to random vectors in every semiring, transposed, restricted and copied; where ⊕ is a maximum
    or a count only if no units are hidden inside it. An input layer gives the columns of one table however it is asked. A product
    is that of its children's units. A density over a real variable has the mass, the peak and the draws that it says.

    Parameters
    ----------
    layer
        An instance of a class that derives from ``Operator``, ``InputLayer`` (``Continuous`` too) or ``Product`` of
        :mod:`tractile.layers`.
    seed
        The seed of random vectors and of draws.
    draws
        Of densities: how many values are drawn of each unit.
    error
        Of densities: the probability with which a right one is refused, at most.
    tolerance
        The largest difference of two numbers that should be equal, relative to the larger of 1 and their size.

    Raises
    ------
    AssertionError
        If a promise is broken; it says which.

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import Categorical, Dense, Kron, Monarch
    >>> from tractile.testing import check_layer
    >>> check_layer(Categorical(torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]])))
    >>> check_layer(Kron(Dense(torch.rand(2, 3)), Dense(torch.rand(4, 2))))
    >>> class Turned(Dense):
    ...     @property
    ...     def T(self):
    ...         return self
    >>> check_layer(Turned(torch.tensor([[0.9, 0.1], [0.3, 0.7]])))
    Traceback (most recent call last):
        ...
    AssertionError: Turned(2, 2): T is the transposed matrix: at (0, 1) it is 0.1, not 0.3
    """
    generator = torch.Generator().manual_seed(seed)
    if isinstance(layer, Operator):
        _check_operator(layer, generator, tolerance)
    elif isinstance(layer, Continuous):
        _check_density(layer, generator, draws, error)
    elif isinstance(layer, InputLayer):
        _check_table(layer, generator, tolerance)
    else:
        _check_product(layer, generator, tolerance)


def _random(generator: torch.Generator, *shape: int) -> Tensor:
    """Return random weights, a quarter of which are zero."""
    kept = torch.rand(shape, generator=generator) < 0.75
    return torch.rand(shape, generator=generator, dtype=torch.float64) * kept


def _times(semiring: type[Semiring[Any]], matrix: Tensor, x: Tensor) -> Tensor:
    """Compute the logarithm of M·x by the definition of each semiring."""
    if semiring in (Boolean, Counting):
        matrix, x = (matrix > 0).double(), (x > 0).double()
    products = matrix[:, :, None] * x[None]
    if semiring in (MaxProduct, MinPlus):
        return products.amax(1).log()
    total = products.sum(1)
    return ((total > 0).double() if semiring is Boolean else total).log()


def _check_copies(layer: Layer, written: Tensor | None, said: str, tolerance: float) -> None:
    """Check ``map`` and ``parameters``: a copy has new parameters, and the layer keeps its own."""
    before = [p.clone() for p in layer.parameters()]
    copy = layer.map(torch.clone)
    promise(type(copy) is type(layer), f"{said}: map() makes a layer of the same class")
    promise(len(copy.parameters()) == len(before), f"{said}: map() keeps the number of parameters")
    for old, new, was in zip(layer.parameters(), copy.parameters(), before, strict=True):
        promise(old is not new, f"{said}: map() gives each parameter to the function")
        same(new, was, f"{said}: map() by a copy changes no parameter", 0.0)
    if written is not None:
        again = copy.dense() if isinstance(copy, Operator) else copy.table()  # type: ignore[union-attr]
        same(again, written, f"{said}: a copy is the same layer", tolerance)


def _check_operator(operator: Operator, generator: torch.Generator, tolerance: float) -> None:
    said, matrix = repr(operator), operator.dense().detach()
    promise(tuple(matrix.shape) == operator.shape, f"{said}: dense() has its shape, {operator.shape}")
    promise(bool((matrix >= 0).all()), f"{said}: no weight is negative")
    same(operator.T.dense(), matrix.T, f"{said}: T is the transposed matrix", tolerance)
    promise(
        (operator.T.row_dims, operator.T.col_dims) == (operator.col_dims, operator.row_dims),
        f"{said}: the axes of T are those of the operator, exchanged",
    )
    for one in (operator, operator.T):
        matrix = one.dense().double()
        x = _random(generator, matrix.shape[1], 3)
        hides = any(isinstance(leaf, AxisOperator) and not leaf.monomial for leaf in one.leaves())
        for semiring in SEMIRINGS:
            sr = semiring()
            if hides and not sr.additive:  # maxima and counts are of the paths through its factors
                continue
            lifted = sr.lift(x.view(*one.col_dims, 3).to(one.dense().dtype), batched=True)
            y = contract.apply(sr, one, lifted)
            promise(
                tuple(sr.shape(y)) == (*one.row_dims, 3),
                f"{said}: its units are {one.row_dims}, in {semiring.__name__}",
            )
            expected = _times(semiring, matrix, x).view(*one.row_dims, 3)
            same(sr.log(y), expected, f"{one!r}: M·x in {semiring.__name__}", tolerance)
    rows, cols = ([torch.arange(0, d, 2) for d in dims] for dims in (operator.row_dims, operator.col_dims))
    flat_rows, flat_cols = (
        torch.arange(n).view(dims)[torch.meshgrid(*index, indexing="ij")].flatten()
        for n, dims, index in zip(
            operator.shape, (operator.row_dims, operator.col_dims), (rows, cols), strict=True
        )
    )
    kept = operator.take(tuple(rows), tuple(cols)).dense()
    same(kept, operator.dense()[flat_rows][:, flat_cols], f"{said}: take() keeps rows and columns", tolerance)
    _check_copies(operator, operator.dense().detach(), said, tolerance)


def _check_table(layer: InputLayer, generator: torch.Generator, tolerance: float) -> None:
    said, table = repr(layer), layer.table().detach().double()
    dims, size = tuple(layer.unit_dims), layer.vocab_size
    promise(tuple(table.shape) == (*dims, size), f"{said}: table() is of {(*dims, size)}")
    promise(bool((table >= 0).all()), f"{said}: no weight is negative")
    tokens = torch.tensor([size - 1, 0, 0])
    out, *others = layer.columns(tokens)
    for block in others:
        out = out[(..., *[None] * (block.ndim - 1), slice(None))] * block
    same(out, table[..., tokens], f"{said}: columns() are those of the table", tolerance)
    weights = _random(generator, size)
    same(layer.value(), table.sum(-1), f"{said}: value() sums the columns", tolerance)
    same(layer.value(weights), table @ weights, f"{said}: value(weights) sums weighted columns", tolerance)
    every = torch.arange(layer.num_units)
    logs = table.flatten(0, -2).log()
    same(layer.log_rows(every), logs, f"{said}: log_rows() are those of the table", tolerance)
    same(
        layer.reweighted(weights).table(),
        table * weights,
        f"{said}: reweighted() weighs the columns",
        tolerance,
    )
    units = tuple(torch.arange(0, d, 2) for d in dims)
    kept = table[torch.meshgrid(*units, indexing="ij")]
    same(layer.take(units).table(), kept, f"{said}: take() keeps units", tolerance)
    for semiring in (Real, Log):
        sr = semiring()
        one = sr.lift(torch.ones(*dims, len(tokens), dtype=torch.float64), batched=True)
        seen = contract.observe(sr, layer, one, tokens)
        same(sr.log(seen), table[..., tokens].log(), f"{said}: observed in {semiring.__name__}", tolerance)
    _check_copies(layer, table, said, tolerance)


def _check_density(layer: Continuous, generator: torch.Generator, draws: int, error: float) -> None:
    """Check draws against the density: over half of them, the mean of 1 / density is the length of the interval."""
    said = repr(layer)
    values, halves, expected = [], [], []
    for unit in range(layer.num_units):
        x = layer.draw(torch.full((2 * draws,), unit), generator).double()
        low, high = x[draws:].quantile(0.25), x[draws:].quantile(0.75)
        log_mass = layer.log_mass().flatten()[unit].double()
        density = layer.log_density(x[:draws]).reshape(layer.num_units, -1)[unit].double()
        promise(not bool(density.isnan().any()), f"{said}: log_density() is no NaN where values are drawn")
        peak = layer.log_peak().flatten()[unit]
        promise(bool((density <= peak + 1e-6).all()), f"{said}: log_peak() is the largest log-density")
        mode = layer.mode(torch.tensor([unit]))
        at = layer.log_density(mode).reshape(layer.num_units, -1)[unit, 0]
        same(at, peak, f"{said}: the density at its mode is its peak")
        inside = (x[:draws] >= low) & (x[:draws] <= high)
        values.append(torch.where(inside, (log_mass - density).exp(), 0.0))
        expected.append(high - low)
        halves.append(inside)
    unbiased(torch.stack(values, 1), torch.stack(expected), f"{said}: draw() has the density", error)
    _check_copies(layer, None, said, 0.0)


def _check_product(layer: Product, generator: torch.Generator, tolerance: float) -> None:
    for children in ([(3,), (3,)], [(2,), (2,), (2,)], [(2, 3), (2, 3)], [(2, 3), (2, 4)], [(2,), (3,)]):
        try:
            dims = layer.unit_dims(list(children))
        except ShapeError:
            continue
        below, out = layer.labels(list(children))
        sizes = {
            label: d
            for own, shape in zip(below, children, strict=True)
            for label, d in zip(own, shape, strict=True)
        }
        said = f"{layer!r} of {children}"
        promise(len(set(out)) == len(out), f"{said}: each label of the output comes once")
        promise(set(out) == set(sizes), f"{said}: the labels of the output are those of the children")
        promise(dims == tuple(sizes[label] for label in out), f"{said}: unit_dims() are those of its labels")
        units = torch.arange(int(torch.tensor(dims).prod()))
        values = [_random(generator, *shape) for shape in children]
        arguments = [item for x, own in zip(values, below, strict=True) for item in (x, list(own))]
        expected = torch.einsum(*arguments, list(out)).flatten()
        chosen = layer.parts(units, list(children))
        found = torch.stack([x.flatten()[i] for x, i in zip(values, chosen, strict=True)]).prod(0)
        same(found, expected, f"{said}: a unit is the product of its parts", tolerance)
