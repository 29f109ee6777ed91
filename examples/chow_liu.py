"""The most likely tree: variables of which each depends on one other, learned from data (Chow and Liu 1968).

    p(x) = p(x_root) Π_v p(x_v | x_parent(v))

Of all trees the one whose edges carry the most mutual information makes the data the most likely. With a latent state at each
variable instead of its value, the tree is a good structure for EM.

    python examples/chow_liu.py
"""

import networkx as nx
import torch
from torch import Tensor

import tractile as tt
from tractile.circuits import builders
from tractile.layers import Dense, Indicator


def pair_frequencies(data: Tensor, values: int, pseudocount: float = 0.0) -> Tensor:
    """Frequencies (variables, values, variables, values) of pairs; ``pseudocount`` rows are spread over all values."""
    n = data.shape[1]
    onehot = torch.nn.functional.one_hot(data, values).flatten(1).double()
    counts = onehot.T @ onehot + pseudocount / values**2
    return counts.view(n, values, n, values) / (len(data) + pseudocount)


def mutual_information(joint: Tensor) -> Tensor:
    """Σ_ab p(a, b) log p(a, b) / p(a) p(b) of each pair of variables, in nats."""
    apart = joint.sum(3, keepdim=True) * joint.sum(1, keepdim=True)
    return torch.special.xlogy(joint, torch.where(joint > 0, joint / apart, 1)).sum((1, 3))


def chow_liu_tree(data: Tensor, values: int, pseudocount: float = 0.0) -> nx.DiGraph:
    """The best tree over the variables of ``data`` (rows, variables), directed away from variable 0."""
    information = mutual_information(pair_frequencies(data, values, pseudocount)).fill_diagonal_(0)
    graph = nx.from_numpy_array(information.numpy() + 1e-12)  # a weight of zero is no edge
    tree = nx.maximum_spanning_tree(graph)
    tree.remove_edges_from(list(nx.selfloop_edges(tree)))
    return nx.bfs_tree(tree, 0)


def chow_liu(data: Tensor, values: int, pseudocount: float = 0.0) -> tt.Circuit:
    """The best tree with the frequencies of the data as its tables, as a circuit."""
    graph, joint = chow_liu_tree(data, values, pseudocount), pair_frequencies(data, values, pseudocount)
    single = torch.stack([joint[v, :, v].sum(1) for v in range(data.shape[1])])

    def table(parent: int, child: int) -> Dense:
        counts = joint[parent, :, child]
        seen = counts.sum(1, keepdim=True) > 0
        rows = torch.where(seen, counts, single[child])
        return Dense(rows / rows.sum(1, keepdim=True))

    tables = {edge: table(*edge) for edge in graph.edges}
    return builders.tree(graph, dict.fromkeys(graph, Indicator(values)), single[0], tables)


def hidden_tree(data: Tensor, values: int, states: int, seed: int = 0) -> tt.Circuit:
    """The best tree with a latent state at each variable, its parameters random: a start for EM."""
    random = builders.RandomParameters(seed)
    return builders.latent_tree(chow_liu_tree(data, values), states, random.categorical(values), random)


def main() -> None:
    """Influenza, fever and cough: the tree that the data come from is found again."""
    bit = Indicator(2)
    flu = builders.tree(
        nx.DiGraph([(0, 1), (0, 2)]),
        dict.fromkeys(range(3), bit),
        prior=torch.tensor([0.9, 0.1]),
        tables={
            (0, 1): Dense(torch.tensor([[0.95, 0.05], [0.2, 0.8]])),
            (0, 2): Dense(torch.tensor([[0.9, 0.1], [0.4, 0.6]])),
        },
    )
    data = tt.sample(flu, 2000, generator=torch.Generator().manual_seed(0))
    learned = chow_liu(data, 2)
    fit = tt.inference.em(hidden_tree(data, 2, states=3), data, epochs=30, pseudocount=0.1)
    print(f"edges: {list(chow_liu_tree(data, 2).edges)}")
    for name, model in (("truth", flu), ("tree", learned), ("hidden tree", fit.model)):
        print(f"{name}: {tt.log_marginal(model, data).mean():.4f} nats a row")
    print(f"KL divergence of the tree: {tt.inference.kl_divergence(flu, learned):.5f} nats")


if __name__ == "__main__":
    main()
