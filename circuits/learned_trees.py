"""Trees of variables learned from data: of all trees, the one that makes the data the most likely (Chow and Liu 1968).

p(x) = p(x_root) Π_v p(x_v | x_parent(v)),    the edges a maximum spanning tree of the mutual information of pairs
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..argument_checks import not_negative, whole, whole_numbers
from ..errors import ShapeError
from ..layers import Dense, Indicator

if TYPE_CHECKING:
    import networkx as nx


def pair_frequencies(
    data: Int[Tensor, "rows variables"], values: int, pseudocount: float = 0.0
) -> Float[Tensor, "variables values variables values"]:
    """Return the frequencies of pairs of values; ``pseudocount`` further rows are spread over all values.

    Raises :class:`ShapeError` for data that is not (rows, variables) with values in 0 … ``values`` − 1.
    """
    data, values = whole_numbers(data, "data", ShapeError), whole(values, "values", 1, ShapeError)
    if data.ndim != 2 or not data.numel() or int(data.min()) < 0 or int(data.max()) >= values:
        raise ShapeError(
            f"a tree is learned from (rows, variables) of values in 0 … {values - 1}, not from {tuple(data.shape)}"
        )
    extra = not_negative(pseudocount, "pseudocount")
    onehot = torch.nn.functional.one_hot(data, values).flatten(1).double()
    counts = onehot.T @ onehot + extra / values**2
    return counts.view(data.shape[1], values, data.shape[1], values) / (len(data) + extra)


def chow_liu_tree(data: Int[Tensor, "rows variables"], values: int, pseudocount: float = 0.0) -> nx.DiGraph:
    """Return the best tree over the variables, directed away from variable 0; arguments are those of :func:`chow_liu`.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> x = torch.tensor([[0, 1, 0], [1, 0, 1], [1, 1, 1], [0, 0, 0]])  # the last copies the first
    >>> (0, 2) in tt.circuits.builders.chow_liu_tree(x, 2).edges
    True
    """
    import networkx as nx

    joint = pair_frequencies(data, values, pseudocount)
    apart = joint.sum(3, keepdim=True) * joint.sum(1, keepdim=True)
    information = torch.special.xlogy(joint, torch.where(joint > 0, joint / apart, 1)).sum((1, 3))
    graph = nx.from_numpy_array(information.fill_diagonal_(0).numpy() + 1e-12)  # a weight of zero is no edge
    tree = nx.maximum_spanning_tree(graph)
    tree.remove_edges_from(list(nx.selfloop_edges(tree)))
    return nx.bfs_tree(tree, 0)


def chow_liu_tables(
    data: Int[Tensor, "rows variables"], values: int, pseudocount: float = 0.0
) -> tuple[nx.DiGraph, dict[int, Indicator], Tensor, dict[tuple[int, int], Dense]]:
    """Return the best tree with the frequencies of the data as its tables: the arguments of :func:`.builders.tree`."""
    graph, joint = chow_liu_tree(data, values, pseudocount), pair_frequencies(data, values, pseudocount)
    single = torch.stack([joint[v, :, v].sum(1) for v in range(len(joint))])

    def table(parent: int, child: int) -> Dense:
        counts = joint[parent, :, child]
        rows = torch.where(counts.sum(1, keepdim=True) > 0, counts, single[child])
        return Dense(rows / rows.sum(1, keepdim=True))

    return (
        graph,
        dict.fromkeys(graph, Indicator(values)),
        single[0],
        {edge: table(*edge) for edge in graph.edges},
    )
