"""Circuits in exact rationals, from the definitions of their layers: what every dtype must answer."""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np

from tractile.layers import ClassCategorical, Kron, Monarch, Sum
from tractile.layers.input import Constant, KhatriRao


def exact(t):
    """The numbers of a tensor as an array of fractions."""
    values = [Fraction(x) for x in t.double().flatten().tolist()]
    return np.array([*values, None], object)[:-1].reshape(tuple(t.shape))


def matrix(op):
    """The matrix of an operator (rows, cols)."""
    if isinstance(op, Kron):
        return np.kron(matrix(op.a), matrix(op.b))
    if isinstance(op, Monarch):
        return monarch(op).T if op.transposed else monarch(op)
    weight = exact(op.weight if hasattr(op, "weight") else op.dense())
    return weight.reshape(math.prod(op.row_dims), -1)


def monarch(op):
    """Factor s rewrites index ``axes[s]`` of (i_1, …, i_k) given all the others: a sum over what is rewritten twice."""
    dims, weights = op.dims, [exact(w) for w in op.weights]
    out = np.full((math.prod(dims),) * 2, Fraction(0))
    for row, start in enumerate(itertools.product(*map(range, dims))):
        reached = {start: Fraction(1)}
        for w, axis in zip(weights, op.axes, strict=True):
            after = {}
            for index, share in reached.items():
                for new in range(dims[axis]):
                    to = (*index[:axis], new, *index[axis + 1 :])
                    after[to] = after.get(to, 0) + share * w[(*index, new)]
            reached = after
        for index, share in reached.items():
            out[row, np.ravel_multi_index(index, dims)] = share
    return out


def table(layer):
    """The table of an input layer (units, values)."""
    if isinstance(layer, ClassCategorical):
        return exact(layer.class_weight)[:, layer.class_of.numpy()] * exact(layer.share)
    if isinstance(layer, KhatriRao):
        a, b = table(layer.a), table(layer.b)
        return (a[:, None] * b[None]).reshape(-1, a.shape[1])
    return exact(layer.table()).reshape(layer.num_units, -1)


class Exact:
    """A circuit with fractions for weights. Values of variables are given by a dict: v → weights of its values."""

    def __init__(self, circuit):
        self.sizes = circuit.vocab_sizes()
        self.nodes = []
        for node in circuit.nodes():
            layer, children = circuit.layer(node), circuit.children(node)
            dims = [circuit.unit_dims(c) for c in children]
            what = None
            if isinstance(layer, Sum):
                what = [matrix(op) for op in layer.operators]
            elif children:
                what = (*layer.labels(dims), dims)
            elif not isinstance(layer, Constant):
                what = (*circuit.scope(node), table(layer))
            self.nodes.append((node, layer, children, what))

    def root(self, weights, best=False):
        """Σ_x of the weights of all paths times the weights of values, or with ``best`` the largest of one path."""
        add = (lambda terms: max(terms, default=Fraction(0))) if best else sum
        found = {}
        for node, layer, children, what in self.nodes:
            below = [found[c] for c in children]
            if isinstance(layer, Constant):
                value = [Fraction(1)]
            elif isinstance(layer, Sum):
                value = [
                    add(
                        [
                            w * y
                            for m, x in zip(what, below, strict=True)
                            for w, y in zip(m[r], x, strict=True)
                        ]
                    )
                    for r in range(len(what[0]))
                ]
            elif children:
                own, out, dims = what
                size = {
                    k: d
                    for labels, shape in zip(own, dims, strict=True)
                    for k, d in zip(labels, shape, strict=True)
                }
                value = []
                for index in itertools.product(*(range(size[k]) for k in out)):
                    at, term = dict(zip(out, index, strict=True)), Fraction(1)
                    for labels, shape, x in zip(own, dims, below, strict=True):
                        flat = 0
                        for k, d in zip(labels, shape, strict=True):
                            flat = flat * d + at[k]
                        term *= x[flat]
                    value.append(term)
            else:
                v, b = what
                w = weights.get(v, [1] * b.shape[1])
                value = [add([x * y for x, y in zip(row, w, strict=True)]) for row in b]
            found[node] = value
        (value,) = found[node]
        return value


def one_hot(value, size):
    return [Fraction(int(i == value)) for i in range(size)]


def log(x):
    """The natural logarithm of a fraction, to nearly all digits of float64."""
    x = Fraction(x)
    if not x:
        return -math.inf
    near = x.numerator.bit_length() - x.denominator.bit_length()
    return math.log(float(x / Fraction(2) ** near)) + near * math.log(2)


class ExactChain:
    """A chain of n tokens with fractions for weights."""

    def __init__(self, chain, n):
        self.n, self.sizes = n, dict.fromkeys(range(n), chain.vocab_size)
        self.left, self.right, self.inputs = matrix(chain.left), matrix(chain.right), table(chain.inputs)
        self.initial, self.final = (
            functools.reduce(np.kron, [exact(v) for v in vectors]) for vectors in (chain.initial, chain.final)
        )

    def root(self, weights, best=False, last=None, through=None):
        """As :meth:`Exact.root`; a path ends at its last unit, of weight ``last`` or that of R · final.

        ``through``: (position, unit) through which all paths go that count.
        """
        add = (lambda terms: max(terms, default=Fraction(0))) if best else sum
        after = self.right @ self.final if last is None else [last] * len(self.inputs)
        for t in reversed(range(self.n)):
            w = weights.get(t, [1] * self.sizes[t])
            emitted = [add([x * y for x, y in zip(row, w, strict=True)]) for row in self.inputs]
            if through is not None and t == through[0]:
                emitted = [x if unit == through[1] else Fraction(0) for unit, x in enumerate(emitted)]
            units = [x * y for x, y in zip(emitted, after, strict=True)]
            states = [add([x * y for x, y in zip(row, units, strict=True)]) for row in self.left]
            after = [add([x * y for x, y in zip(row, states, strict=True)]) for row in self.right]
        return add([x * y for x, y in zip(self.initial, states, strict=True)])
