"""How probable is a row of 0 and 1? Four structures learned from the 8 × 8 digits, by counting, by EM and by gradients.

A pixel is on from half its greatest value: 64 variables, 1,437 rows to learn from and 360 held out, in nats a row. Needs
scikit-learn.

    python examples/density_estimation.py [--quick]
"""

import argparse
from collections.abc import Callable

import torch
from chow_liu import chow_liu, hidden_tree
from sklearn.datasets import load_digits
from torch import Tensor

import tractile as tt
from tractile.circuits import builders

SIDE = 8


def digits() -> tuple[Tensor, Tensor]:
    """Rows to learn from and rows to be tested on."""
    images = torch.from_numpy(load_digits().images >= 8).flatten(1).long()
    images = images[torch.randperm(len(images), generator=torch.Generator().manual_seed(0))]
    return images[360:], images[:360]


def mixture(components: int) -> tt.Circuit:
    """A mixture of distributions whose pixels are independent."""
    random = builders.RandomParameters(seed=0)
    coins = random.categorical(2)
    return builders.cp([coins(v, components) for v in range(SIDE**2)], random.rows(components))


def region_circuit(units: int) -> tt.Circuit:
    """A circuit over the halves of the image, the halves of these, … down to pixels.

    Random rows are sharp: flat ones average each other out on the way to the root.
    """
    random = builders.RandomParameters(seed=0, sharpness=3.0)
    return builders.regions(builders.image_regions(SIDE, SIDE), random.categorical(2), random.rows, units)


def by_gradients(model: tt.Circuit, data: Tensor, epochs: int) -> tt.Circuit:
    """The model with the parameters that Adam finds, on batches of 100 rows."""
    trainable = tt.inference.Trainable(model)
    optimiser, generator = torch.optim.Adam(trainable.parameters(), lr=0.1), torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for batch in torch.randperm(len(data), generator=generator).split(100):
            loss = -tt.log_marginal(trainable(), data[batch]).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return trainable().map(torch.Tensor.detach)


def structures(train: Tensor, states: int, steps: int, epochs: int) -> dict[str, Callable[[], tt.Circuit]]:
    """The name of each structure, and the function that learns it."""

    def em(start: tt.Circuit) -> tt.Circuit:
        return tt.inference.em(start, train, epochs=steps, pseudocount=0.1).model

    return {
        "Chow–Liu tree": lambda: chow_liu(train, 2, pseudocount=1.0),
        f"mixture of {2 * states}, EM": lambda: em(mixture(2 * states)),
        f"hidden Chow–Liu tree, {states} states, EM": lambda: em(hidden_tree(train, 2, states)),
        f"region circuit, {states} units, Adam": lambda: by_gradients(region_circuit(states), train, epochs),
    }


def main() -> None:
    """Print a table, and the lower half of an image given its upper half."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small models and few steps")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    train, test = digits()
    print("| structure | train | test |\n| --- | --- | --- |")
    for name, learn in structures(train, *((4, 5, 1) if quick else (16, 60, 10))).items():
        model = learn()
        means = [tt.log_marginal(model, rows).mean() for rows in (train, test)]
        print(f"| {name} | {means[0]:.3f} | {means[1]:.3f} |")
    upper = {v: int(test[0, v]) for v in range(SIDE**2 // 2)}
    drawn = tt.sample(model, 1, upper, generator=torch.Generator().manual_seed(0))[0].view(SIDE, SIDE)
    print("\n" + "\n".join("".join(" #"[pixel] for pixel in row) for row in drawn.tolist()))


if __name__ == "__main__":
    main()
