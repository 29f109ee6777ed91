"""Trees of variables for builders: given, random or learned from data.

A tree is a networkx DiGraph over variables with an edge from each parent to each child. Chow and Liu (1968): of all trees
the one with the largest sum of mutual information along its edges has the largest likelihood.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import ShapeError

if TYPE_CHECKING:
    import networkx as nx


def pair_frequencies(
    data: Int[Tensor, "rows variables"], vocab_size: int, pseudocount: float = 0.0
) -> Float[Tensor, "variables vocab variables vocab"]:
    """Count the pairs of values of each pair of variables; −1 is missing, and ``pseudocount`` rows are spread evenly."""
    if data.ndim != 2 or data.is_floating_point() or not data.numel():
        raise ShapeError(
            f"data must be a (rows, variables) tensor of whole numbers, not {data.dtype} {tuple(data.shape)}"
        )
    if int(data.max()) >= vocab_size:
        raise ShapeError(f"data holds the value {int(data.max())}; there are {vocab_size} values")
    n = data.shape[1]
    counts = torch.full((n * vocab_size,) * 2, pseudocount / vocab_size**2, dtype=torch.float64)
    for rows in data.split(max(1, (1 << 24) // (n * vocab_size))):
        onehot = torch.nn.functional.one_hot(rows + 1, vocab_size + 1)[..., 1:].flatten(1).float()
        counts += (onehot.T @ onehot).double()
    return counts.view(n, vocab_size, n, vocab_size)


def mutual_information(
    frequencies: Float[Tensor, "variables vocab variables vocab"],
) -> Float[Tensor, "variables variables"]:
    """Compute the mutual information Σ_ab p(a, b) log p(a, b) / p(a) p(b) of each pair of variables, in nats."""
    joint = frequencies / frequencies.sum((1, 3), keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    apart = joint.sum(3, keepdim=True) * joint.sum(1, keepdim=True)
    terms: Tensor = torch.special.xlogy(joint, torch.where(joint > 0, joint / apart, 1))
    return terms.sum((1, 3))


def chow_liu_tree(
    data: Int[Tensor, "rows variables"],
    vocab_size: int | None = None,
    pseudocount: float = 0.0,
    root: int = 0,
) -> nx.DiGraph:
    """Find the tree of the largest likelihood over the variables of ``data``, directed away from ``root`` (Chow and Liu 1968).

    ``data`` holds values 0 … ``vocab_size`` − 1 (by default, up to the largest one), −1 for missing values; ``pseudocount`` is
    a number of rows spread evenly over all values. Raises :class:`ShapeError` for other data.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> data = torch.tensor([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1], [0, 1, 0]])
    >>> list(tt.circuits.builders.chow_liu_tree(data).edges)
    [(0, 1), (0, 2)]
    """
    import networkx as nx

    size = int(data.max()) + 1 if vocab_size is None else vocab_size
    information = mutual_information(pair_frequencies(data, size, pseudocount))
    graph = nx.from_numpy_array(information.fill_diagonal_(0).numpy() + 1e-12)  # a weight of zero is no edge
    return _directed(nx.maximum_spanning_tree(graph), root)


def random_tree(num_variables: int, seed: int = 0, root: int = 0) -> nx.DiGraph:
    """Draw a tree uniformly from all labelled trees of the variables, directed away from ``root``.

    Examples
    --------
    >>> import tractile as tt
    >>> tree = tt.circuits.builders.random_tree(6, seed=0)
    >>> tree.number_of_edges(), tree.in_degree(0)  # directed away from variable 0
    (5, 0)
    """
    import networkx as nx

    return _directed(nx.random_labeled_tree(num_variables, seed=seed), root)


def path_tree(num_variables: int) -> nx.DiGraph:
    """Return the path 0 → 1 → … → n − 1 as a tree.

    Examples
    --------
    >>> import tractile as tt
    >>> list(tt.circuits.builders.path_tree(4).edges)
    [(0, 1), (1, 2), (2, 3)]
    """
    import networkx as nx

    return nx.path_graph(num_variables, create_using=nx.DiGraph)


def _directed(tree: nx.Graph, root: int) -> nx.DiGraph:
    import networkx as nx

    tree.remove_edges_from(nx.selfloop_edges(tree))
    return nx.bfs_tree(tree, root)
