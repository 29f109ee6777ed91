"""Random circuits and chains made of every kind of layer, beside what they are in numpy, written down from the definitions.

A *specimen* is (a layer of the library, its matrix or table). A continuous variable stands in the arrays as a variable of
finitely many values: some points, at which it may be observed, and last "not observed": the mass of each unit where sums are
sums, its peak where they are maxima.
"""

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
import oracle
import torch
from hypothesis import strategies as st
from scipy import stats

import tractile as tt
from tractile.layers import (
    Bernoulli,
    Categorical,
    ClassCategorical,
    Dense,
    Gaussian,
    Hadamard,
    Identity,
    Incidence,
    Indicator,
    Kron,
    Kronecker,
    Monarch,
    Sum,
    TokenSets,
)
from tractile.layers.dense_tensor import DenseTensor
from tractile.layers.input import Constant, KhatriRao

POINTS = np.array([-1.0, 0.5, 2.0])  # where a continuous variable may be observed


def tensor(array):
    return torch.tensor(np.asarray(array), dtype=torch.float64)


def weights(rng, *shape, zeros=0.15):
    return (rng.gamma(0.7, size=shape) + 1e-2) * (rng.random(shape) >= zeros)


# ------------------------------------------------------------------------------------------------- operators: cols → rows


def dense(rng, rows, cols, zeros):
    m = weights(rng, rows, cols, zeros=zeros)
    return Dense(tensor(m)), m


def identity(rng, rows, cols, zeros):
    return Identity(cols), np.eye(cols)


def incidence(rng, rows, cols, zeros):
    m = (rng.random((rows, cols)) < 0.6) * 1.0
    m[rng.integers(rows), rng.integers(cols)] = 1
    row, col = np.nonzero(m)
    return Incidence(torch.tensor(row), torch.tensor(col), m.shape), m


def monarch(rng, rows, cols, zeros):
    small = next(d for d in range(int(cols**0.5), 0, -1) if cols % d == 0)
    dims = (small, cols // small)
    factors = [oracle.rows(rng, *dims, d, zeros=zeros) for d in reversed(dims)]
    operator, m = Monarch([tensor(f) for f in factors]), oracle.monarch_matrix(factors)
    return (operator.T, m.T) if rng.random() < 0.5 else (operator, m)


LEAVES = {f.__name__: f for f in (dense, identity, incidence, monarch)}
SQUARE = {"identity", "monarch"}
OPERATORS = (*LEAVES, "kron", "joint")


# ---------------------------------------------------------------------------------- inputs: a table for each way of adding


def categorical(rng, size, zeros):
    b = weights(rng, int(rng.integers(1, 4)), size, zeros=zeros)
    return Categorical(tensor(b)), b


def by_class(rng, size, zeros):
    classes = int(rng.integers(1, size + 1))
    class_of, share = rng.permutation(np.arange(size) % classes), weights(rng, size, zeros=zeros)
    c = weights(rng, int(rng.integers(1, 4)), classes, zeros=zeros)
    return ClassCategorical(tensor(c), torch.tensor(class_of), tensor(share)), c[:, class_of] * share


def grid(rng, size, zeros):
    b = weights(rng, 2, int(rng.integers(1, 3)), size, zeros=zeros)
    return Categorical(tensor(b)), b.reshape(-1, size)


def labels(rng, size, zeros):
    classes = int(rng.integers(1, size + 1))
    token_class = np.append(np.arange(classes), rng.integers(-1, classes, size - classes))
    c = rng.random((int(rng.integers(1, 4)), classes)) < 0.7
    unit, klass = np.nonzero(c)
    layer = TokenSets(torch.tensor(unit), torch.tensor(klass), torch.tensor(token_class), len(c))
    return layer, np.where(token_class >= 0, c[:, token_class], 0) * 1.0


def row_kron(rng, size, zeros):
    (x, a), (y, b) = categorical(rng, size, zeros), labels(rng, size, zeros)
    return KhatriRao(x, y), (a[:, None] * b[None]).reshape(-1, size)


def bernoulli(rng, size, zeros):
    p = np.where(rng.random(2) < zeros, 1.0, rng.random(2))
    return Bernoulli(tensor(p)), np.stack([1 - p, p], 1)


def indicator(rng, size, zeros):
    return Indicator(size), np.eye(size)


def gaussian(rng, size, zeros, mass=None):
    mean, variance = rng.normal(size=2), rng.random(2) + 0.2
    layer = Gaussian(tensor(mean), tensor(variance), None if mass is None else tensor(mass))
    scale, mass = variance[:, None] ** 0.5, np.exp(np.zeros(2) if mass is None else mass)[:, None]
    points = mass * stats.norm.pdf(POINTS, mean[:, None], scale)
    peak = mass * stats.norm.pdf(0, 0, scale)
    return layer, {"total": np.append(points, mass, 1), "best": np.append(points, peak, 1)}


def heavy_gaussian(rng, size, zeros):
    return gaussian(rng, size, zeros, rng.normal(size=2))


def gaussian_product(rng, size, zeros):
    (x, a), (y, b) = gaussian(rng, size, zeros), gaussian(rng, size, zeros)
    m, v, n, w = (t.numpy() for t in (x.mean[:, None], x.variance[:, None], y.mean, y.variance))
    points = (a["total"][:, None, :3] * b["total"][None, :, :3]).reshape(4, 3)
    at = (m * w + n * v) / (v + w)  # the peak of the product
    peak = stats.norm.pdf(at, m, v**0.5) * stats.norm.pdf(at, n, w**0.5)
    mass = stats.norm.pdf(m, n, (v + w) ** 0.5)
    return x.times(y), {
        k: np.append(points, c.reshape(4, 1), 1) for k, c in (("total", mass), ("best", peak))
    }


DISCRETE = {f.__name__: f for f in (categorical, by_class, grid, labels, row_kron, bernoulli, indicator)}
CONTINUOUS = {f.__name__: f for f in (gaussian, heavy_gaussian, gaussian_product)}
INPUTS = {**DISCRETE, **CONTINUOUS}


def read(matrix, mode):
    matrix = matrix[mode if mode == "best" else "total"] if isinstance(matrix, dict) else matrix
    return (matrix > 0) * 1.0 if mode == "paths" else matrix


ADD = {"total": np.sum, "best": np.max, "paths": np.sum}


# ------------------------------------------------------------------------------------------------------------- circuits


@dataclass
class Zoo:
    """A circuit as data: for each node its layer, its children, its unit axes, and what it is in numpy.

    That is (variable, table), a list of matrices for a sum, or the labels of a product, (those of each child, out).
    """

    sizes: dict  # values of each variable
    continuous: frozenset = frozenset()
    nodes: list = field(default_factory=list)

    def add(self, layer, what, *children, dims):
        self.nodes.append((layer, what, children, tuple(dims)))
        return len(self.nodes) - 1

    def table(self, mode):
        """For every x the sum of its path weights, the largest, or how many there are: ``total``, ``best``, ``paths``."""
        variables = sorted(self.sizes)
        shape = [self.sizes[v] for v in variables]
        x = dict(zip(variables, np.indices(shape).reshape(len(shape), -1), strict=True))
        count, values = math.prod(shape), []
        for layer, what, children, dims in self.nodes:
            below = [values[c] for c in children]
            if isinstance(layer, Constant):
                value = np.ones(count)
            elif isinstance(layer, Sum):
                terms = [
                    ADD[mode](read(m, mode)[:, :, None] * y.reshape(1, -1, count), axis=1)
                    for m, y in zip(what, below, strict=True)
                ]
                value = ADD[mode](np.array(terms), axis=0)
            elif isinstance(layer, Hadamard | Kronecker):
                own, out = what
                operands = [item for y, i in zip(below, own, strict=True) for item in (y, [*i, 50])]
                value = np.einsum(*operands, [*out, 50])
            else:
                variable, b = what
                value = read(b, mode)[:, x[variable]]
            values.append(value.reshape(*dims, count))
        return values[-1].reshape(shape)

    def build(self, dtype=torch.float64):
        circuit, variables = tt.Circuit(), sorted(self.sizes)
        for layer, what, children, _ in self.nodes:
            made = layer.map(lambda t: t.to(dtype))
            if isinstance(layer, Constant):
                circuit.input(made)
            elif isinstance(layer, Sum):
                circuit.sum(made, *children)
            elif children:
                circuit.product(made, *children)
            else:
                circuit.input(made, what[0])
        assert list(circuit.variables) == variables
        return circuit


class Keeper:
    """Grows a random smooth and decomposable circuit of which some layers are of the kinds asked for; nodes are shared.

    ``splits``: of each set of variables the kind of its products and the variables of their factors; without it any.
    """

    def __init__(self, rng, sizes, operator, inputs, continuous, zeros, splits=None):
        self.rng, self.operator, self.inputs, self.zeros, self.splits = rng, operator, inputs, zeros, splits
        self.zoo = Zoo(sizes, continuous)
        self.pool = {}  # (scope, units) → nodes that may be shared

    def sum(self, terms, dims=None):
        """A sum node over (specimen, child) terms."""
        dims = terms[0][0][0].row_dims if dims is None else dims
        layer = Sum(*(op for (op, _), _ in terms))
        return self.zoo.add(layer, [m for (_, m), _ in terms], *(c for _, c in terms), dims=dims), dims

    def dense(self, rows, cols):
        return dense(self.rng, rows, cols, self.zeros)

    def joint(self, node, dims, rows):
        w = weights(self.rng, *rows, *dims, zeros=self.zeros)
        return self.sum([((DenseTensor(tensor(w), len(rows)), w.reshape(math.prod(rows), -1)), node)])

    def decorate(self, node, dims):
        """A sum through the operator asked for on top of a node."""
        kind = self.operator
        if kind == "joint":
            return self.joint(node, dims, (2, int(self.rng.integers(1, 3))))
        if kind == "kron":
            if len(dims) == 1:
                node, dims = self.joint(node, dims, (2, 2))
            op, m = None, np.ones((1, 1))
            for d in dims:
                leaf, n = self.leaf(str(self.rng.choice(list(LEAVES))), d)
                op, m = leaf if op is None else Kron(op, leaf), np.kron(m, n)
            return self.sum([((op, m), node)])
        return self.sum([(self.leaf(kind, math.prod(dims)), node)])

    def leaf(self, kind, cols):
        rows = cols if kind in SQUARE else int(self.rng.integers(1, 4))
        return LEAVES[kind](self.rng, rows, cols, self.zeros)

    def grow(self, variables, units):
        """A node over these variables with one axis of units, new or shared; its terms need not split the variables alike."""
        known = self.pool.setdefault((frozenset(variables), units), [])
        if known and self.rng.random() < 0.5:
            return known[int(self.rng.integers(len(known)))]
        blocks = [self.block(variables) for _ in range(int(self.rng.integers(1, 3)))]
        node, _ = self.sum([(self.dense(units, math.prod(dims)), n) for n, dims in blocks])
        known.append(node)
        return node

    def block(self, variables):
        """A node over these variables with any unit axes."""
        made = self.leaf_block(*variables) if len(variables) == 1 else self.product(variables)
        return self.decorate(*made) if self.operator and self.rng.random() < 0.6 else made

    def leaf_block(self, v):
        rng, size = self.rng, self.zoo.sizes[v]
        if v in self.zoo.continuous:
            kind = self.inputs if self.inputs in CONTINUOUS else "gaussian"
        else:
            fits = self.inputs in DISCRETE and (self.inputs != "bernoulli" or size == 2)
            kind = self.inputs if fits and rng.random() < 0.7 else "categorical"
        layer, b = INPUTS[kind](rng, size, self.zeros)
        return self.zoo.add(layer, (v, b), dims=layer.unit_dims), layer.unit_dims

    def split(self, variables):
        """The kind of a product over these variables, and the variables of each factor."""
        rng = self.rng
        if self.splits is not None:
            kind, parts = self.splits[frozenset(variables)]
            return kind, [parts[i] for i in rng.permutation(len(parts))]
        variables = rng.permutation(variables).tolist()
        cut = int(rng.integers(1, len(variables)))
        parts = [variables[:cut], variables[cut:]]
        if cut > 1 and rng.random() < 0.3:
            parts = [variables[:1], variables[1:cut], variables[cut:]]
        return "hadamard" if rng.random() < 0.5 else "kron", parts

    def product(self, variables):
        rng, (kind, parts) = self.rng, self.split(variables)
        if kind == "hadamard":
            units = int(rng.integers(1, 4))
            below, dims = [self.grow(p, units) for p in parts], (units,)
            if self.splits is not None:
                return self.hadamard(below, dims)
            if rng.random() < 0.3:  # a factor over no variable at all
                one = self.zoo.add(Constant(), None, dims=(1,))
                below.append(self.sum([(self.dense(units, 1), one)])[0])
            if rng.random() < 0.3:  # unit axes in pairs
                below, dims = [self.joint(n, dims, (2, 2))[0] for n in below], (2, 2)
            return self.hadamard(below, dims)
        below = [self.block(p) if rng.random() < 0.3 else self.single(p) for p in parts]
        flat = [d for _, dims in below for d in dims]
        numbers = iter(range(len(flat)))
        own = [tuple(next(numbers) for _ in dims) for _, dims in below]
        order = tuple(rng.permutation(len(flat)).tolist()) if rng.random() < 0.5 else None
        out = tuple(range(len(flat))) if order is None else order
        dims = tuple(flat[i] for i in out)
        return self.zoo.add(Kronecker(order), (own, out), *(n for n, _ in below), dims=dims), dims

    def hadamard(self, below, dims):
        own = [tuple(range(len(dims)))] * len(below)
        return self.zoo.add(Hadamard(), (own, own[0]), *below, dims=dims), dims

    def single(self, part):
        units = int(self.rng.integers(1, 3))
        return self.grow(part, units), (units,)

    def root(self):
        blocks = [self.block(sorted(self.zoo.sizes)) for _ in range(int(self.rng.integers(1, 3)))]
        if self.operator:  # at least once
            blocks[0] = self.decorate(*blocks[0])
        self.sum([(self.dense(1, math.prod(dims)), n) for n, dims in blocks])
        return self.zoo


def random_zoo(rng, operator=None, inputs=None, variables=3, zeros=0.15):
    """A :class:`Zoo` with the operator at its root at least, and nearly always with the input layer."""
    sizes = {v: 2 + v % 2 for v in range(variables)}
    continuous = frozenset()
    if inputs in CONTINUOUS:
        continuous = frozenset({0} if rng.random() < 0.5 else {0, variables - 1})
        sizes |= dict.fromkeys(continuous, len(POINTS) + 1)
    return Keeper(rng, sizes, operator, inputs, continuous, zeros).root()


@st.composite
def zoos(draw, operator=None, inputs=None):
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    return random_zoo(rng, operator, inputs, draw(st.integers(1, 4)))


# ----------------------------------------------------------------------------------- circuits that split by a tree of variables


def random_plan(rng, vtree, sizes, zeros=0.15):
    """A :class:`Zoo` of dense sums over tables and sets of tokens, whose products split the variables of the vtree as it says.

    A vtree is a nested tuple of variables, each inner node marked with its kind of product: ("hadamard" | "kron", children…).
    Two circuits over one vtree are compatible.
    """
    sizes = {v: sizes[v] for v in sorted(leaves(vtree))}
    return Keeper(rng, sizes, None, "labels", frozenset(), zeros, splits_of(vtree)).root()


def leaves(vtree):
    return [vtree] if isinstance(vtree, int) else [v for child in vtree[1:] for v in leaves(child)]


def splits_of(vtree):
    if isinstance(vtree, int):
        return {}
    kind, *children = vtree
    found = {frozenset(leaves(vtree)): (kind, [leaves(child) for child in children])}
    for child in children:
        found |= splits_of(child)
    return found


@st.composite
def vtrees(draw, max_variables=4):
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))

    def grow(variables):
        if len(variables) == 1:
            return variables[0]
        parts = int(rng.integers(2, min(3, len(variables)) + 1))
        cuts = sorted(rng.choice(np.arange(1, len(variables)), parts - 1, replace=False).tolist())
        groups = [variables[a:b] for a, b in itertools.pairwise([0, *cuts, len(variables)])]
        return (str(rng.choice(["hadamard", "kron"])), *(grow(g) for g in groups))

    return grow(rng.permutation(draw(st.integers(1, max_variables))).tolist())


@st.composite
def plans(draw, vtree=None, max_variables=4, zeros=0.15):
    vtree = draw(vtrees(max_variables)) if vtree is None else vtree
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    return random_plan(rng, vtree, {v: 2 + v % 2 for v in leaves(vtree)}, zeros)


# --------------------------------------------------------------------------------------------------------------- chains


@dataclass
class ZooChain:
    """A chain as data: (layer, matrix) for L, B and R, and a vector for each axis of the state at both ends."""

    initial: list
    left: tuple
    inputs: tuple
    right: tuple
    final: list
    continuous: bool = False
    deterministic = False

    @property
    def vocab_size(self):
        """The number of values in the arrays."""
        return read(self.inputs[1], "total").shape[1]

    def _table(self, n, mode):
        start, end = (
            read(_outer(v), mode) for v in (self.initial, self.right[1] @ _outer(self.final)[:, None])
        )
        left, b, right = (read(part[1], mode) for part in (self.left, self.inputs, self.right))
        end, alpha = end.reshape(-1), start[None]
        for t in range(n):
            units = ADD[mode](alpha[:, :, None] * left[None], axis=1)
            units = (units[:, None, :] * b.T[None]).reshape(-1, len(b))
            alpha = units if t == n - 1 else ADD[mode](units[:, :, None] * right[None], axis=1)
        return ADD[mode](alpha * end, axis=1).reshape((self.vocab_size,) * n)

    def total(self, n):
        return self._table(n, "total")

    def best(self, n):
        return self._table(n, "best")

    def paths(self, n):
        return self._table(n, "paths")

    def build(self, dtype=torch.float64):
        ends = [tuple(tensor(v) for v in vectors) for vectors in (self.initial, self.final)]
        chain = tt.circuits.Chain(ends[0], self.left[0], self.inputs[0], self.right[0], ends[1])
        return chain.map(lambda t: t.to(dtype))


def _outer(vectors):
    if isinstance(vectors, np.ndarray):
        return vectors
    out = np.ones(1)
    for v in vectors:
        out = np.kron(out, v)
    return out


def random_chain(rng, operator=None, inputs=None, vocab_size=3, zeros=0.15):
    """A :class:`ZooChain` with L and R of the kind asked for; where the input layer has several axes, Kronecker products."""
    kind = inputs if inputs and (inputs != "bernoulli" or vocab_size == 2) else "categorical"
    layer, b = INPUTS[kind](rng, vocab_size, zeros)
    leaves, kinds = [], list(LEAVES)
    for units in layer.unit_dims:
        name = operator if operator in LEAVES else str(rng.choice(kinds)) if operator == "kron" else "dense"
        cut = units if name in SQUARE else int(rng.integers(1, 4))
        leaves.append((LEAVES[name](rng, cut, units, zeros), LEAVES[name](rng, units, cut, zeros), cut))
    left, right = (_krons([leaf[i] for leaf in leaves]) for i in (0, 1))
    initial, final = ([weights(rng, cut, zeros=zeros) for *_, cut in leaves] for _ in range(2))
    return ZooChain(initial, left, (layer, b), right, final, kind in CONTINUOUS)


def _krons(specimens):
    op, m = specimens[0]
    for other, n in specimens[1:]:
        op, m = Kron(op, other), np.kron(m, n)
    return op, m


@st.composite
def zoo_chains(draw, operator=None, inputs=None):
    """(chain, length)."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    size = 2 if inputs == "bernoulli" else draw(st.sampled_from([2, 3]))
    if operator == "kron" and inputs is None:
        inputs = draw(st.sampled_from(["grid", "row_kron"]))
    return random_chain(rng, operator, inputs, size), draw(st.integers(1, 4))


# ------------------------------------------------------------------------------------------------------------- evidence


@st.composite
def evidence(draw, sizes, continuous=frozenset(), batch=None):
    """:func:`oracle.evidence` with continuous variables beside the others: a number, none, or rows of both."""
    if not continuous:
        return draw(oracle.evidence(sizes, batch))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    rows = draw(st.sampled_from([1, 3])) if batch is None else batch
    discrete = {v: size for v, size in sizes.items() if v not in continuous}
    index = {v: rng.integers(0, len(POINTS) + 1, rows) for v in continuous}
    values = {v: np.append(POINTS, np.nan)[i] for v, i in index.items()}
    if draw(st.booleans()):  # the whole as one tensor of floats
        tokens = {v: rng.integers(-1, size, rows) for v, size in discrete.items()}
        columns = {v: np.where(t < 0, np.nan, t) for v, t in tokens.items()} | values
        table = torch.tensor(np.stack([columns[v] for v in sizes], 1))
        known = {v: oracle.onehot(t, discrete[v]) for v, t in tokens.items()}
    else:
        table, known = dict.fromkeys(discrete), {v: np.ones((1, size)) for v, size in discrete.items()}
        if discrete:
            some, weighed = draw(oracle.evidence(discrete, rows))
            columns = some.unbind(1) if isinstance(some, torch.Tensor) else some
            table = dict(zip(discrete, columns, strict=True)) if not isinstance(some, dict) else dict(some)
            known = dict(zip(discrete, weighed, strict=True))
        for v in continuous:
            kind = draw(st.sampled_from(["none", "number", "rows"]))
            if kind != "rows":
                index[v] = index[v][:1] * 0 + (len(POINTS) if kind == "none" else min(index[v][0], 2))
            table[v] = {
                "none": None,
                "number": float(POINTS[index[v][0] % len(POINTS)]),
                "rows": torch.tensor(values[v]),
            }[kind]
    known |= {v: np.eye(len(POINTS) + 1)[i] for v, i in index.items()}
    count = max(len(w) for w in known.values())
    return table, [np.broadcast_to(known[v], (count, sizes[v])) for v in sizes]


def place(x, continuous):
    """The positions in the arrays of values (row of a result): of a continuous variable, "not observed" for any other value."""
    out = []
    for v, value in enumerate(x):
        near = np.flatnonzero(np.isclose(POINTS, value)) if v in continuous else [int(value)]
        out.append(int(near[0]) if len(near) else len(POINTS))
    return tuple(out)


def every(sizes):
    return itertools.product(*(range(s) for s in sizes.values()))
