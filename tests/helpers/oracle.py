"""Brute-force oracles in numpy, sharing no code with the engine, and random models to hold against it.

An oracle model answers ``total(n)``, ``best(n)`` and ``paths(n)``: arrays of shape (V,)*n with, for every sequence, the sum
of its path weights, the largest, and how many are positive; ``path_weights(n)`` lists every path. A path of an HMM is
z_1 … z_n, one of an automaton the states after each token; a product's paths are pairs. ``build()`` makes the model of
the library. Everything else (evidence, conditionals, masks) is a sum, a maximum or a count over those arrays.
"""

import itertools
import math
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import torch
from hypothesis import strategies as st
from scipy import stats

import tractile as tt
from tractile.layers import Monarch

# ----------------------------------------------------------------------------------------------------------- models


@dataclass
class OracleHMM:
    """p(x, z) = π(z_1) B(z_1, x_1) Π A(z_{t−1}, z_t) B(z_t, x_t); ``monarch`` holds the factors of A, if it has any."""

    initial: np.ndarray
    transition: np.ndarray
    emission: np.ndarray
    monarch: list = field(default_factory=list)
    deterministic = False

    @property
    def vocab_size(self):
        return self.emission.shape[1]

    def _table(self, n, add, initial, transition, emission):
        if not n:  # the empty sequence, for which no state is chosen
            return np.ones(())
        alpha = initial[None]  # (sequences, hidden): all paths to z_t, x_t not yet emitted
        for t in range(n):
            alpha = (alpha[:, None, :] * emission.T[None]).reshape(-1, alpha.shape[1])
            if t + 1 < n:
                alpha = add(alpha[:, :, None] * transition[None], axis=1)
        return add(alpha, axis=1).reshape((self.vocab_size,) * n)

    def total(self, n):
        return self._table(n, np.sum, self.initial, self.transition, self.emission)

    def best(self, n):
        return self._table(n, np.max, self.initial, self.transition, self.emission)

    def paths(self, n):
        return self._table(
            n, np.sum, *((a > 0) * 1.0 for a in (self.initial, self.transition, self.emission))
        )

    def path_weights(self, n):
        hidden = range(len(self.initial))
        out = {}
        for x in itertools.product(range(self.vocab_size), repeat=n):
            weights = []
            for z in itertools.product(hidden, repeat=n):
                w = self.initial[z[0]] * math.prod(self.emission[i, v] for i, v in zip(z, x, strict=True))
                weights.append(w * math.prod(self.transition[i, j] for i, j in itertools.pairwise(z)))
            out[x] = weights
        return out

    def build(self, dtype=torch.float64):
        transition = (
            Monarch([torch.tensor(w, dtype=dtype) for w in self.monarch])
            if self.monarch
            else torch.tensor(self.transition, dtype=dtype)
        )
        return tt.HMM(
            torch.tensor(self.initial, dtype=dtype), transition, torch.tensor(self.emission, dtype=dtype)
        )


@dataclass
class OracleFSA:
    """Accepting paths of an edge list [(source, token, target)], by recursion over the first edge of the path."""

    edges: list
    start: list
    accept: list
    vocab_size: int

    def __post_init__(self):
        self.edges = sorted(set(self.edges))
        self._memo = {}

    @property
    def deterministic(self):
        return len(self.start) == 1 and len({(s, v) for s, v, _ in self.edges}) == len(self.edges)

    def _from(self, state, n):
        if (state, n) not in self._memo:
            table = np.zeros((self.vocab_size,) * n)
            if n == 0:
                table = np.array(1.0 if state in self.accept else 0.0)
            else:
                for s, v, d in self.edges:
                    if s == state:
                        table[v] += self._from(d, n - 1)
            self._memo[state, n] = table
        return self._memo[state, n]

    def total(self, n):
        return sum(self._from(s, n) for s in set(self.start))

    def best(self, n):
        return (self.total(n) > 0) * 1.0

    def paths(self, n):
        return self.total(n)

    def path_weights(self, n):
        out = {x: [] for x in itertools.product(range(self.vocab_size), repeat=n)}

        def walk(state, prefix):
            if len(prefix) == n:
                out[prefix] += [1.0] if state in self.accept else []
                return
            for s, v, d in self.edges:
                if s == state:
                    walk(d, (*prefix, v))

        for s in set(self.start):
            walk(s, ())
        return out

    def states(self, x):
        states = set(self.start)
        for v in x:
            states = {d for s, token, d in self.edges if s in states and token == v}
        return states

    def accepts(self, x):
        return bool(self.states(x) & set(self.accept))

    def build(self, dtype=torch.float64):
        grouped = {}
        for s, v, d in self.edges:
            grouped.setdefault((s, d), []).append(v)
        edges = [(s, tokens if len(tokens) > 1 else tokens[0], d) for (s, d), tokens in grouped.items()]
        fsa = tt.Automaton.from_edges(edges, self.start, self.accept, self.vocab_size)
        return fsa.map(lambda t: t.to(dtype))


@dataclass
class OracleProduct:
    """x ↦ Π_k model_k(x); a path is one path of each."""

    models: list
    deterministic = False

    @property
    def vocab_size(self):
        return self.models[0].vocab_size

    def total(self, n):
        return math.prod(m.total(n) for m in self.models)

    def best(self, n):
        return math.prod(m.best(n) for m in self.models)

    def paths(self, n):
        return math.prod(m.paths(n) for m in self.models)

    def path_weights(self, n):
        lists = [m.path_weights(n) for m in self.models]
        return {
            x: [math.prod(ws) for ws in itertools.product(*(paths[x] for paths in lists))] for x in lists[0]
        }

    def build(self, dtype=torch.float64):
        return reduce(tt.multiply, (m.build(dtype) for m in self.models))


def monarch_matrix(weights):
    """The Monarch product by its definition: factor s rewrites index k−1−s of (i_1 … i_k) given all the others."""
    dims = weights[0].shape[:-1]
    size = math.prod(dims)
    out = np.zeros((size, size))
    for row, start in enumerate(itertools.product(*map(range, dims))):
        for col, end in enumerate(itertools.product(*map(range, dims))):
            index, weight = list(start), 1.0
            for s, w in enumerate(weights):
                axis = len(dims) - 1 - s
                weight *= w[(*index, end[axis])]
                index[axis] = end[axis]
            out[row, col] = weight
    return out


# --------------------------------------------------------------------------------------------------- random models


def rows(rng, *shape, zeros=0.0):
    """Random distributions along the last axis, with a share of zeros (but no row of zeros)."""
    w = rng.gamma(0.7, size=shape) + 1e-3
    w[rng.random(shape) < zeros] = 0
    w[..., 0] += (w.sum(-1) == 0) * 1.0
    return w / w.sum(-1, keepdims=True)


def random_hmm(rng, hidden, vocab_size, dims=(), zeros=0.0):
    """An HMM; ``dims`` (with product ``hidden``) makes its transition a Monarch matrix."""
    monarch = [rows(rng, *dims, d, zeros=zeros) for d in reversed(dims)]
    transition = monarch_matrix(monarch) if dims else rows(rng, hidden, hidden, zeros=zeros)
    return OracleHMM(
        rows(rng, hidden, zeros=zeros), transition, rows(rng, hidden, vocab_size, zeros=zeros), monarch
    )


def random_fsa(rng, states, vocab_size, deterministic, density=0.5):
    """An automaton; the edges may leave states unreachable or dead, as they do in life."""
    if deterministic:
        edges = [
            (s, v, int(rng.integers(states)))
            for s in range(states)
            for v in range(vocab_size)
            if rng.random() < max(density, 0.6)
        ]
    else:
        edges = [
            (s, v, d)
            for s, v, d in itertools.product(range(states), range(vocab_size), range(states))
            if rng.random() < density
        ]
    accept = [s for s in range(states) if rng.random() < 0.6] or [states - 1]
    start = [0] if deterministic or rng.random() < 0.7 else sorted({0, int(rng.integers(states))})
    return OracleFSA(edges, start, accept, vocab_size)


MONARCH_DIMS = [(2, 2), (1, 3), (2, 1), (2, 1, 2), (2, 2, 2)]
SHAPES = [(2, 7), (2, 6), (3, 5), (4, 4), (3, 3), (4, 3), (1, 4), (4, 1), (2, 2)]  # (vocabulary, length)


@st.composite
def fsas(draw, vocab_size, deterministic=None):
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    deterministic = draw(st.booleans()) if deterministic is None else deterministic
    return random_fsa(
        rng, draw(st.integers(1, 4)), vocab_size, deterministic, draw(st.sampled_from([0.3, 0.6]))
    )


@st.composite
def hmms(draw, vocab_size):
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    zeros = draw(st.sampled_from([0.0, 0.4]))
    if draw(st.booleans()):
        dims = draw(st.sampled_from(MONARCH_DIMS))
        return random_hmm(rng, math.prod(dims), vocab_size, dims, zeros)
    return random_hmm(rng, draw(st.integers(1, 4)), vocab_size, (), zeros)


@st.composite
def chains(
    draw, shapes=SHAPES, kinds=("hmm", "fsa", "hmm*fsa", "fsa*hmm", "fsa*fsa", "hmm*fsa*fsa", "hmm*hmm")
):
    """(oracle model, length)."""
    vocab_size, n = draw(st.sampled_from(shapes))
    make = {"hmm": hmms, "fsa": fsas}
    parts = [draw(make[kind](vocab_size)) for kind in draw(st.sampled_from(kinds)).split("*")]
    return (parts[0] if len(parts) == 1 else OracleProduct(parts)), n


# -------------------------------------------------------------------------------------------------------- evidence


@st.composite
def evidence(draw, sizes, batch=None):
    """(evidence as the library takes it, the oracle's list of (batch, V) weights, one for each variable).

    Every kind, mixed over variables: nothing, observed (with −1), one of a set (set or booleans), soft; and the
    whole as a tensor of token ids, a tensor of weights, a sequence or a mapping.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    batch = draw(st.sampled_from([1, 3])) if batch is None else batch
    variables = list(sizes)
    form = draw(st.sampled_from(["tokens", "weights", "sequence", "mapping", "mapping"]))
    if form == "tokens":
        tokens = np.array([[rng.integers(-1, sizes[v]) for v in variables] for _ in range(batch)])
        return torch.tensor(tokens), [onehot(tokens[:, i], sizes[v]) for i, v in enumerate(variables)]
    if form == "weights" and len(set(sizes.values())) == 1:
        w = rng.random((batch, len(variables), sizes[variables[0]])) * 2
        w *= rng.random(w.shape) < 0.8
        return torch.tensor(w), [w[:, i] for i in range(len(variables))]
    items, weights = {}, []
    for v in variables:
        size = sizes[v]
        kind = draw(st.sampled_from(["none", "int", "ids", "set", "bool", "soft", "soft rows"]))
        if kind == "none":
            item, w = None, np.ones((1, size))
        elif kind == "int":
            item = int(rng.integers(-1, size))
            w = onehot([item], size)
        elif kind == "ids":
            ids = rng.integers(-1, size, batch)
            item, w = torch.tensor(ids), onehot(ids, size)
        elif kind == "set":
            item = {int(rng.integers(size)) for _ in range(2)}
            w = np.array([[float(i in item) for i in range(size)]])
        elif kind == "bool":
            w = (rng.random((batch, size)) < 0.7) * 1.0
            item = torch.tensor(w > 0)
        elif kind == "soft":
            w = rng.random((1, size)) * 3
            item = torch.tensor(w[0])
        else:
            w = rng.random((batch, size)) * (rng.random((batch, size)) < 0.8)
            item = torch.tensor(w)
        items[v] = item
        weights.append(w)
    count = max(len(w) for w in weights)
    weights = [np.broadcast_to(w, (count, w.shape[1])) for w in weights]
    return (list(items.values()) if form == "sequence" else items), weights


def onehot(ids, size):
    return np.array([np.ones(size) if i < 0 else np.eye(size)[i] for i in ids])


def weigh(table, weights, row, skip=()):
    """table · Π_v w_v for one row of the evidence; variables in ``skip`` keep weight one."""
    for axis, w in enumerate(weights):
        if axis not in skip:
            shape = [1] * table.ndim
            shape[axis] = -1
            table = table * w[row].reshape(shape)
    return table


def sums(table, weights):
    """Σ_x table(x) w(x) for each row."""
    return np.array([weigh(table, weights, row).sum() for row in range(len(weights[0]))])


def log(x):
    with np.errstate(divide="ignore"):
        return np.log(x)


def assert_log_close(actual, expected, tolerance=1e-10):
    """Logarithms: equal up to ``tolerance`` relative (absolute within ±1), infinities in the same places."""
    actual, expected = np.asarray(actual, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(actual), finite)
    np.testing.assert_array_equal(actual[~finite], expected[~finite])
    error = np.abs(actual[finite] - expected[finite]) / np.maximum(1, np.abs(expected[finite]))
    assert error.size == 0 or error.max() <= tolerance, (error.max(), actual, expected)


# ------------------------------------------------------------------------------------------------ next-token oracle


def next_token(table, prefix):
    """Σ over continuations of prefix + v, for every v, from a table of shape (V,)*n."""
    return table[prefix].reshape(table.shape[len(prefix)], -1).sum(1)


def bits(mask):
    """Booleans (batch, V) packed by hand into signed 32-bit words, token v in bit v % 32 of word v // 32."""
    words = np.zeros((mask.shape[0], -(-mask.shape[1] // 32)), dtype=np.int64)
    for row, token in zip(*np.nonzero(mask), strict=True):
        words[row, token // 32] |= 1 << (token % 32)
    return words.astype(np.uint32).view(np.int32)


def alive(fsa, states, length=None):
    """Whether acceptance can be reached from a set of states in exactly ``length`` tokens; at any length without one."""
    states, seen = set(states), set()
    for step in itertools.count():
        if length is None and states & set(fsa.accept):
            return True
        if length == step:
            return bool(states & set(fsa.accept))
        seen |= states
        states = {d for s, _, d in fsa.edges if s in states}
        if length is None:
            states -= seen
            if not states:
                return False


def feasible_tokens(fsa, prefix, length=None):
    """The tokens after which acceptance can be reached in exactly ``length`` more tokens; at any length without one."""
    states = fsa.states(prefix)
    return np.array(
        [
            alive(fsa, {d for s, t, d in fsa.edges if s in states and t == v}, length)
            for v in range(fsa.vocab_size)
        ]
    )


def chi_square(samples, table):
    """The p-value of samples (samples, variables) against a table of weights; every sample must have positive weight."""
    flat = np.ravel_multi_index(np.asarray(samples).T, table.shape)
    counts, p = np.bincount(flat, minlength=table.size), table.flatten() / table.sum()
    assert counts[p == 0].sum() == 0, "a sample outside the support"
    expected = p * counts.sum()
    few = expected < 5  # are merged
    counts, expected = (np.append(a[~few], a[few].sum()) for a in (counts, expected))
    counts, expected = counts[expected > 0], expected[expected > 0]
    return stats.chisquare(counts, expected).pvalue if len(counts) > 1 else 1.0
