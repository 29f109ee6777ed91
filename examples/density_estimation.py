"""How probable is a row of 0 and 1? Structures learned from the 8 × 8 digits: the best tree by counting, others by EM.

    p(x) = p(x_root) Π_v p(x_v | x_parent(v))

Of all trees of the variables the one whose edges carry the most mutual information makes the data the most likely (Chow and
Liu 1968). With a latent state at each variable instead of its value the tree is a good structure for EM. A pixel is on from
half its greatest value: 64 variables, 1,437 rows to learn from and 360 held out, in nats a row. Needs scikit-learn.

    python examples/density_estimation.py [--quick]
"""

import sys

import torch
from sklearn.datasets import load_digits
from torch import Tensor

import tractile as tt
from tractile.circuits import builders

SIDE = 8


def mixture(components: int) -> tt.Circuit:
    """A mixture of distributions whose pixels are independent, its parameters random."""
    random = builders.RandomParameters(seed=0)
    coins = random.categorical(2)
    return builders.cp([coins(v, components) for v in range(SIDE**2)], random.rows(components))


def digits() -> tuple[Tensor, Tensor]:
    """Rows to learn from and rows to be tested on."""
    images = torch.from_numpy(load_digits().images >= 8).flatten(1).long()
    images = images[torch.randperm(len(images), generator=torch.Generator().manual_seed(0))]
    return images[360:], images[:360]


def structures(train: Tensor, states: int, steps: int) -> dict[str, tt.Circuit]:
    """A circuit of each structure, learned."""
    starts = {
        f"mixture of {2 * states}, EM": mixture(2 * states),
        f"hidden Chow–Liu tree, {states} states, EM": builders.hidden_tree(train, 2, states),
    }
    return {"Chow–Liu tree": builders.chow_liu(train, 2, pseudocount=1.0)} | {
        name: tt.inference.em(start, train, epochs=steps, pseudocount=0.1).model
        for name, start in starts.items()
    }


def main() -> None:
    """Print a table, and the lower half of an image given its upper half."""
    torch.set_num_threads(1)
    train, test = digits()
    print("| structure | train | test |\n| --- | --- | --- |")
    for name, model in structures(train, *((4, 5) if "--quick" in sys.argv else (16, 60))).items():
        means = [tt.log_marginal(model, rows).mean() for rows in (train, test)]
        print(f"| {name} | {means[0]:.3f} | {means[1]:.3f} |")
    upper = {v: int(test[0, v]) for v in range(SIDE**2 // 2)}
    drawn = tt.sample(model, 1, upper, generator=torch.Generator().manual_seed(0))[0].view(SIDE, SIDE)
    print("\n" + "\n".join("".join(" #"[pixel] for pixel in row) for row in drawn.tolist()))


if __name__ == "__main__":
    main()
