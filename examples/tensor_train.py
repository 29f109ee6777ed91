"""A tensor train as a circuit: T[x_1 … x_n] = G_1[:, x_1, :] ⋯ G_n[:, x_n, :], a product of matrices.

Norms and inner products are partition functions of products, so a tensor of 4¹⁰⁰ entries is never written out.

    python examples/tensor_train.py
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor
from torch.distributions.transforms import ExpTransform

import tractile as tt
from tractile.circuits import builders
from tractile.layers import Categorical, Incidence


def tensor_train(cores: Sequence[Tensor]) -> tt.Circuit:
    """The circuit of non-negative cores (rank, values, next rank); the first rank and the last are 1.

    The units of step t are the pairs (a, b) of a row and a column of G_t[:, x, :].
    """
    steps = []
    for core in cores:
        a, values, b = core.shape
        pairs = torch.arange(a * b)
        left, right = Incidence(pairs // b, pairs, (a, a * b)), Incidence(pairs, pairs % b, (a * b, b))
        steps.append((left, Categorical(core.permute(0, 2, 1).reshape(a * b, values)), right))
    one = cores[0].new_ones(1)
    return builders.chain(one, steps, one)


def random_train(length: int, values: int, rank: int, seed: int = 0) -> tt.Circuit:
    """A train with random cores."""
    generator = torch.Generator().manual_seed(seed)
    ranks = [1, *[rank] * (length - 1), 1]
    return tensor_train(
        [torch.rand(a, values, b, generator=generator, dtype=torch.float64) for a, b in pairwise(ranks)]
    )


def fit(train: tt.Circuit, data: Tensor, steps: int) -> list[float]:
    """Fit p(x) = T[x] / Σ T to rows of data by gradients; return the loss of each step, in nats a row."""
    trainable = tt.inference.Trainable(
        train, rows=ExpTransform()
    )  # weights stay positive, rows are not normalised
    optimiser, losses = torch.optim.Adam(trainable.parameters(), lr=0.05), []
    for _ in range(steps):
        loss = tt.partition(trainable()) - tt.log_marginal(trainable(), data).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    return losses


def main() -> None:
    """A norm and an inner product of large tensors, and a small train fitted to data."""
    a, b = (random_train(100, 4, 8, seed) for seed in range(2))
    norms = [tt.partition(train * train) / 2 for train in (a, b)]  # log of the Frobenius norm
    cosine = tt.partition(a * b) - sum(norms)
    print(f"100 axes of 4: log norms {norms[0]:.3f} and {norms[1]:.3f}, cosine {cosine.exp():.4f}")
    coins = torch.randint(2, (200, 3), generator=torch.Generator().manual_seed(0))
    data = coins.repeat_interleave(2, 1)  # each coin twice: 3 log 2 = 2.08 nats a row
    losses = fit(random_train(6, 2, 3), data, 40)
    print(f"a train of rank 3: {losses[0]:.3f} nats a row, after 40 steps {losses[-1]:.3f}")


if __name__ == "__main__":
    main()
