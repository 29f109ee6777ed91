"""Builders: small pure functions from parameters to circuits. The i-th layer given is over variable i.

    factorised      Π_v B_v[x_v]
    cp              Σ_r w_r Π_v B_v[r, x_v]
    tucker          Σ_{r_1 … r_n} C[r_1 … r_n] Π_v B_v[r_v, x_v]
    chain           initialᵀ Π_t L_t diag(B_t[x_t]) R_t final
    chow_liu        the tree of variables that makes data the most likely; hidden_tree: a latent state at each
    tree            one latent state for each variable, p(z_v | z_parent) B_v[z_v, x_v]
    regions         a circuit over a tree of regions, its products joined by ``cp_join`` or ``tucker_join``

Parameters are tensors; a tensor given at several places is tied. :class:`RandomParameters` draws them by seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import CircuitError, ShapeError
from ..layers import Bernoulli, Categorical, Dense, Hadamard, Identity, InputLayer, Kronecker, Operator, Sum
from ..layers.input import Constant
from .chain import Chain
from .circuit import Circuit
from .graph_transforms import kron
from .learned_trees import chow_liu_tables, chow_liu_tree
from .region_graph import Inputs, cp_join, image_regions, random_regions, regions, tucker_join

if TYPE_CHECKING:
    import networkx as nx

ChainSteps = Sequence[tuple[Operator, InputLayer, Operator]]  # L_t, B_t, R_t


class RandomParameters:
    """A source of random parameters, drawn by seed in the order of the calls; every row is a distribution.

    ``sharpness`` is the standard deviation of the logits: deep circuits learn faster from rows that differ more.

    Examples
    --------
    >>> import tractile as tt
    >>> random = tt.circuits.builders.RandomParameters(seed=0)
    >>> random.rows(2, 3).sum(-1)
    tensor([1., 1.])
    >>> random.categorical(vocab_size=5)(0, 4)  # a layer of four units for variable 0
    Categorical(units=(4,), vocab_size=5)
    """

    def __init__(self, seed: int = 0, dtype: torch.dtype = torch.float32, *, sharpness: float = 1.5) -> None:
        self.generator, self.dtype = torch.Generator().manual_seed(seed), dtype
        self.sharpness = sharpness

    def rows(self, *shape: int) -> Float[Tensor, "*shape"]:
        """Draw distributions along the last axis of a tensor of this shape."""
        noise = torch.randn(*shape, generator=self.generator, dtype=torch.float64)
        return torch.softmax(self.sharpness * noise, -1).to(self.dtype)

    def categorical(self, vocab_size: int) -> Inputs:
        """Return a function (variable, units) → random categorical layer over ``vocab_size`` values."""
        return lambda variable, units: Categorical(self.rows(units, vocab_size))

    def bernoulli(self) -> Inputs:
        """Return a function (variable, units) → random Bernoulli layer."""
        return lambda variable, units: Bernoulli(self.rows(units, 2)[:, 1])


def factorised(layers: Sequence[InputLayer]) -> Circuit:
    """Build a circuit of independent variables: Π_v B_v[x_v]. With layers of K units the root has K units, for a sum to mix.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> coins = tt.circuits.builders.factorised([tt.layers.Bernoulli(torch.tensor([p])) for p in (0.5, 0.9)])
    >>> tt.log_marginal(coins, torch.tensor([[1, 1]])).exp()
    tensor([0.4500], dtype=torch.float64)
    """
    circuit = Circuit()
    nodes = [circuit.input(layer, v) for v, layer in enumerate(layers)]
    if len(nodes) > 1:
        circuit.product(Hadamard(), *nodes)
    return circuit


def cp(layers: Sequence[InputLayer], weights: Float[Tensor, " rank"]) -> Circuit:
    """Build a CP decomposition, a mixture of R fully factorised distributions: Σ_r w_r Π_v B_v[r, x_v].

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> coins = tt.layers.Bernoulli(torch.tensor([0.5, 0.9]))  # a fair coin and a biased one
    >>> three = tt.circuits.builders.cp([coins, coins, coins], torch.tensor([0.5, 0.5]))  # the same coin three times
    >>> tt.log_marginal(three, torch.tensor([[1, 1, 1]])).exp()  # ½ · 0.5³ + ½ · 0.9³
    tensor([0.4270], dtype=torch.float64)
    """
    circuit = factorised(layers)
    circuit.sum(Sum(Dense(weights[None])), circuit.root)
    return circuit


def tucker(layers: Sequence[InputLayer], core: Float[Tensor, "*ranks"]) -> Circuit:
    """Build a Tucker decomposition: Σ C[r_1 … r_n] Π_v B_v[r_v, x_v]; the core has one axis for each variable.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> coins = tt.layers.Bernoulli(torch.tensor([0.0, 1.0]))  # always 0, always 1
    >>> pair = tt.circuits.builders.tucker([coins, coins], torch.tensor([[0.4, 0.1], [0.2, 0.3]]))
    >>> tt.log_marginal(pair, torch.tensor([[0, 1], [1, 1]])).exp()  # entries of the core
    tensor([0.1000, 0.3000], dtype=torch.float64)
    """
    ranks = tuple(layer.num_units for layer in layers)
    if tuple(core.shape) != ranks:
        raise ShapeError(f"tucker: the core has shape {tuple(core.shape)}, but the layers have units {ranks}")
    circuit = Circuit()
    product = circuit.product(Kronecker(), *(circuit.input(layer, v) for v, layer in enumerate(layers)))
    circuit.sum(Sum(Dense(core.reshape(1, -1))), product)
    return circuit


def chain_circuit(
    initial: Float[Tensor, " states"], steps: ChainSteps, final: Float[Tensor, " states"] | None = None
) -> Circuit:
    """Build the circuit initialᵀ Π_t L_t diag(B_t[x_t]) R_t final, whose steps may differ in operators, units and inputs.

    The last R leads to ``final`` (default: ones). Steps may mix Gaussian and categorical inputs, dense and Monarch transitions.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.layers import Bernoulli, Dense, Gaussian, Identity
    >>> coin, noise = Bernoulli(torch.tensor([0.0, 1.0])), Gaussian(torch.tensor([-1.0, 1.0]), torch.ones(2))
    >>> stay, copy = Identity(2), Dense(torch.tensor([[0.9, 0.1], [0.1, 0.9]]))
    >>> hybrid = tt.circuits.builders.chain_circuit(torch.tensor([0.5, 0.5]), [(stay, coin, copy), (stay, noise, stay)])
    >>> tt.conditional(hybrid, {1: 2.0}, 0).exp()  # x_1 = 2 makes x_0 = 1 likely
    tensor([[0.1144, 0.8856]], dtype=torch.float64)
    """
    circuit = Circuit()
    (size,) = steps[-1][2].col_dims
    end = initial.new_ones(size) if final is None else final
    node = circuit.sum(Sum(Dense(end[:, None])), circuit.input(Constant()))
    for t in reversed(range(len(steps))):
        left, layer, right = steps[t]
        ahead = node if isinstance(right, Identity) else circuit.sum(Sum(right), node)
        node = circuit.product(Hadamard(), circuit.input(layer, t), ahead)
        node = node if isinstance(left, Identity) else circuit.sum(Sum(left), node)
    circuit.sum(Sum(Dense(initial[None])), node)
    return circuit


def hmm_circuit(
    initial: Float[Tensor, " hidden"], transitions: Sequence[Operator], layers: Sequence[InputLayer]
) -> Circuit:
    """Build an inhomogeneous HMM: a transition for each of n − 1 steps and an emission for each of n variables.

    A :class:`~tractile.HMM` is homogeneous and of any length. Raises :class:`ShapeError` unless there is one emission more
    than there are transitions.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.layers import Categorical, Dense
    >>> first, last = Categorical(torch.tensor([[0.9, 0.1], [0.2, 0.8]])), Categorical(torch.eye(2, 3))  # 2 values, then 3
    >>> two = tt.circuits.builders.hmm_circuit(torch.tensor([0.5, 0.5]), [Dense(torch.eye(2))], [first, last])
    >>> tt.log_marginal(two, torch.tensor([[0, 0], [0, 1]])).exp()
    tensor([0.4500, 0.1000], dtype=torch.float64)
    """
    if len(transitions) != len(layers) - 1:
        raise ShapeError(
            f"hmm_circuit: {len(layers)} emissions need {len(layers) - 1} transitions, not {len(transitions)}"
        )
    stay = [Identity(layer.num_units) for layer in layers]
    return chain_circuit(initial, list(zip(stay, layers, [*transitions, stay[-1]], strict=True)))


def factorial_hmm(
    initials: Sequence[Float[Tensor, " hidden"]],
    transitions: Sequence[Operator],
    emission: Float[Tensor, "*hidden vocab"],
) -> Chain:
    """Build a factorial HMM: k independent hidden chains with one joint emission, a chain whose state has k axes.

    ``initials`` (H_i,) and ``transitions`` H_i × H_i, one for each hidden chain; ``emission`` (H_1, …, H_k, V). Raises
    :class:`ShapeError` if their sizes do not fit.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.layers import Dense
    >>> slow, fast = Dense(torch.tensor([[0.9, 0.1], [0.1, 0.9]])), Dense(torch.full((3, 3), 1 / 3))
    >>> starts = [torch.full((2,), 1 / 2), torch.full((3,), 1 / 3)]
    >>> model = tt.circuits.builders.factorial_hmm(starts, [slow, fast], torch.full((2, 3, 4), 1 / 4))
    >>> model
    Chain(states=(2, 3), units=(2, 3), vocab_size=4)
    >>> round(tt.partition(model, n=6).exp().item(), 4)
    1.0
    """
    dims = tuple(len(initial) for initial in initials)
    if tuple(emission.shape[:-1]) != dims or tuple(t.shape for t in transitions) != tuple(
        (d, d) for d in dims
    ):
        raise ShapeError(
            f"factorial_hmm: for hidden sizes {dims} the transitions have shapes {[t.shape for t in transitions]} "
            f"and the emission {tuple(emission.shape)}"
        )
    ones = tuple(torch.ones_like(initial) for initial in initials)
    stay = kron([Identity(d) for d in dims])
    return Chain(tuple(initials), stay, Categorical(emission), kron(list(transitions)), ones)


def tree(
    graph: nx.DiGraph,
    layers: Mapping[int, InputLayer],
    prior: Float[Tensor, " states"],
    tables: Mapping[tuple[int, int], Operator],
) -> Circuit:
    """Build a tree of latent states z_v, one for each variable.

    ``prior`` is p(z_root), ``tables[parent, child]`` p(z_child | z_parent), ``layers[v]`` the input layer B_v[z_v, x_v]. With
    :class:`~tractile.layers.Indicator` inputs the states are the variables themselves. Raises :class:`CircuitError` unless
    every variable but one has one parent and all are connected.

    Examples
    --------
    >>> import networkx as nx
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.layers import Dense, Indicator
    >>> copy, value = Dense(torch.tensor([[0.9, 0.1], [0.1, 0.9]])), Indicator(2)
    >>> graph = nx.DiGraph([(0, 1), (0, 2)])  # x_1 and x_2 are noisy copies of x_0
    >>> prior = torch.tensor([0.5, 0.5])
    >>> model = tt.circuits.builders.tree(graph, {v: value for v in graph}, prior, {edge: copy for edge in graph.edges})
    >>> tt.conditional(model, {1: 1, 2: 1}, 0).exp()
    tensor([[0.0122, 0.9878]], dtype=torch.float64)
    """
    import networkx as nx

    if not nx.is_arborescence(graph):
        raise CircuitError(
            "tree: the graph must be a tree directed away from its root (networkx: an arborescence)"
        )
    circuit, nodes = Circuit(), dict[int, int]()
    (root,) = (v for v, degree in graph.in_degree() if not degree)
    for v in nx.dfs_postorder_nodes(graph, root):
        below = [circuit.sum(Sum(tables[v, child]), nodes[child]) for child in graph.successors(v)]
        nodes[v] = circuit.input(layers[v], v)
        if below:
            nodes[v] = circuit.product(Hadamard(), nodes[v], *below)
    circuit.sum(Sum(Dense(prior[None])), nodes[root])
    return circuit


def latent_tree(graph: nx.DiGraph, states: int, inputs: Inputs, random: RandomParameters) -> Circuit:
    """Build a :func:`tree` with ``states`` latent states at each variable v, inputs ``inputs(v, states)``, random parameters.

    Examples
    --------
    >>> import tractile as tt
    >>> random = tt.circuits.builders.RandomParameters(seed=0)
    >>> tree = tt.circuits.builders.random_tree(4)
    >>> model = tt.circuits.builders.latent_tree(tree, 3, random.categorical(5), random)
    >>> sum(p.numel() for p in model.parameters())  # a prior of 3, tables of 3 · 9, inputs of 4 · 15
    90
    """
    layers = {v: inputs(v, states) for v in graph}
    tables: dict[tuple[int, int], Operator] = {
        edge: Dense(random.rows(states, states)) for edge in graph.edges
    }
    return tree(graph, layers, random.rows(states), tables)


def chow_liu(data: Int[Tensor, "rows variables"], values: int, pseudocount: float = 0.0) -> Circuit:
    """Build the tree of variables that makes data the most likely, with the data's frequencies as its tables.

    ``data`` has values 0 … ``values`` − 1; ``pseudocount`` further rows are spread over all values. Raises :class:`ShapeError`
    for other data. Exact (Chow and Liu 1968).

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> x = torch.tensor([[0, 1, 0], [1, 0, 1], [1, 1, 1], [0, 0, 0]])  # the last copies the first
    >>> tt.conditional(tt.circuits.builders.chow_liu(x, 2), {0: 1}, 2).exp()
    tensor([[0., 1.]], dtype=torch.float64)
    """
    return tree(*chow_liu_tables(data, values, pseudocount))


def hidden_tree(data: Int[Tensor, "rows variables"], values: int, states: int, seed: int = 0) -> Circuit:
    """Build the tree of :func:`chow_liu` with a latent state at each variable and random parameters: a start for EM.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> x = torch.tensor([[0, 1, 0], [1, 0, 1], [1, 1, 1], [0, 0, 0]])
    >>> start = tt.circuits.builders.hidden_tree(x, 2, states=4)
    >>> fit = tt.inference.em(start, x, epochs=20)
    >>> fit.log_likelihoods[-1] > fit.log_likelihoods[0]
    True
    """
    random = RandomParameters(seed)
    return latent_tree(chow_liu_tree(data, values), states, random.categorical(values), random)


def random_tree(num_variables: int, seed: int = 0) -> nx.DiGraph:
    """Draw a tree uniformly from all labelled trees of the variables, directed away from variable 0.

    Examples
    --------
    >>> import tractile as tt
    >>> tree = tt.circuits.builders.random_tree(6, seed=0)
    >>> tree.number_of_edges(), tree.in_degree(0)  # directed away from variable 0
    (5, 0)
    """
    import networkx as nx

    return nx.bfs_tree(nx.random_labeled_tree(num_variables, seed=seed), 0)


__all__ = [
    "RandomParameters",
    "chain_circuit",
    "chow_liu",
    "chow_liu_tree",
    "cp",
    "cp_join",
    "factorial_hmm",
    "factorised",
    "hidden_tree",
    "hmm_circuit",
    "image_regions",
    "latent_tree",
    "random_regions",
    "random_tree",
    "regions",
    "tree",
    "tucker",
    "tucker_join",
]
