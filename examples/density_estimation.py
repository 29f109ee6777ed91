"""Density estimation on binary data: five structures, learned by counting, by EM and by gradients.

Two data sets. *Ising*: spins on a 4 × 4 torus, drawn from a distribution that can be written out (65,536 states), so that its
entropy says how good a model can be, and test figures are exact expectations. *Digits*: the 8 × 8 digits of scikit-learn, a
pixel being on from half its greatest value.

Each structure is also learned without Tractile, from the same start by the same steps: Chow–Liu and the mixture in NumPy, the
others by cirkit where it is installed (pip install libcirkit). In nats a row; needs scikit-learn (pip install -e ".[test]").

    python examples/density_estimation.py [--quick]
"""

import argparse
import importlib.util
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse.csgraph import minimum_spanning_tree
from sklearn.datasets import load_digits
from torch import Tensor

import tractile as tt
from tractile.circuits import builders
from tractile.layers import Categorical, Sum


class Data(NamedTuple):
    """Rows of 0 and 1: to learn from, and to be tested on, each with its weight in the mean."""

    train: Tensor
    test: Tensor
    weights: Tensor


def digits() -> Data:
    """1,437 and 360 of the 1,797 digits."""
    images = torch.from_numpy(load_digits().images >= 8).flatten(1).long()
    images = images[torch.randperm(len(images), generator=torch.Generator().manual_seed(0))]
    return Data(images[360:], images[:360], torch.full((360,), 1 / 360, dtype=torch.float64))


def ising(side: int = 4, coupling: float = 0.4, rows: int = 2000) -> Data:
    """p(s) ∝ exp(J Σ s_i s_j) over neighbours on a torus, s = ±1; tested on every state, weighted by its probability."""
    states = torch.cartesian_prod(*[torch.tensor([0, 1])] * side**2)
    spins = 2.0 * states.view(-1, side, side).double() - 1
    energy = sum((spins * spins.roll(1, axis)).sum((1, 2)) for axis in (1, 2))
    p = torch.softmax(coupling * torch.as_tensor(energy), 0)
    chosen = torch.multinomial(p, rows, replacement=True, generator=torch.Generator().manual_seed(0))
    return Data(states[chosen], states, p)


def mean_log_p(model: tt.Circuit, rows: Tensor, weights: Tensor | None = None) -> float:
    """The mean of log p, in nats."""
    log_p = torch.cat([tt.log_marginal(model, part) for part in rows.split(8192)])
    return float(log_p.mean() if weights is None else weights @ log_p)


# ---- The structures. Rows of random weights are sharp: flat ones average each other out on the way to the root.


def rows(seed: int) -> Callable[..., Tensor]:
    """Random distributions along the last axis."""
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.softmax(3 * torch.randn(*shape, generator=generator), -1)


def mixture(variables: int, components: int) -> tt.Circuit:
    """A mixture of distributions whose variables are independent."""
    random = builders.RandomParameters(seed=0)
    coins = random.categorical(2)
    return builders.cp([coins(v, components) for v in range(variables)], random.rows(components))


def blocks(top: int, left: int, height: int, width: int, side: int) -> Any:
    """A region of an image, cut in two across its longer side until single pixels are left."""
    if height == width == 1:
        return side * top + left
    if height >= width:
        half = height // 2
        below = blocks(top + half, left, height - half, width, side)
        return blocks(top, left, half, width, side), below
    half = width // 2
    return blocks(top, left, height, half, side), blocks(top, left + half, height, width - half, side)


def region_circuit(side: int, units: int) -> tt.Circuit:
    """A CP circuit over the cuts of an image."""
    random = rows(seed=0)
    return builders.regions(
        blocks(0, 0, side, side, side), lambda variable, n: Categorical(random(n, 2)), random, units
    )


# ---- Learning by gradients; by EM it is one line, `tt.em(model, data)`.


def descend(
    log_p: Callable[[Tensor], Tensor], parameters: Any, data: Tensor, epochs: int, batch_size: int = 100
) -> None:
    """Adam on batches of rows in an order that is always the same."""
    optimiser, generator = torch.optim.Adam(parameters, lr=0.1), torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for batch in torch.randperm(len(data), generator=generator).split(batch_size):
            loss = -log_p(data[batch]).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()


def by_gradients(model: tt.Circuit, data: Tensor, epochs: int) -> tt.Circuit:
    """The model with the parameters that Adam finds."""
    trainable = tt.inference.Trainable(model)
    descend(lambda batch: tt.log_marginal(trainable(), batch), trainable.parameters(), data, epochs)
    return trainable().map(torch.Tensor.detach)


# ---- The same without Tractile.


def tree_by_hand(train: np.ndarray, counts: np.ndarray, test: np.ndarray, pseudocount: float) -> np.ndarray:
    """log p of the test rows under the Chow–Liu tree: Σ_v log p(x_v) + Σ_{uv} log p(x_u, x_v) / p(x_u) p(x_v)."""
    n = train.shape[1]
    on = np.stack([1 - train, train], 2).reshape(len(train), -1).astype(float)
    pair = (on.T @ (on * counts[:, None])).reshape(n, 2, n, 2) + pseudocount / 4
    pair /= counts.sum() + pseudocount
    single = np.einsum("uavb->ua", pair) / n
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(pair) - np.log(single)[:, :, None, None] - np.log(single)[None, None]
        information = np.where(pair > 0, pair * ratio, 0).sum((1, 3))
        np.fill_diagonal(information, 0)
        log_p = np.log(single)[np.arange(n), test].sum(1)
        for u, v in zip(*minimum_spanning_tree(-information - 1e-12).nonzero(), strict=True):
            log_p += ratio[u, test[:, u], v, test[:, v]]
    return log_p


def mixture_by_hand(
    start: tt.Circuit, train: np.ndarray, test: np.ndarray, epochs: int, pseudocount: float
) -> np.ndarray:
    """log p of the test rows after EM from the same start."""
    layers = [start.layer(node) for node in start.nodes()]
    on = np.stack([layer.parameters()[0][:, 1].numpy() for layer in layers if isinstance(layer, Categorical)])
    (weights,) = (layer.operators[0].parameters()[0][0].numpy() for layer in layers if isinstance(layer, Sum))

    def joint(x: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(weights) + x @ np.log(on) + (1 - x) @ np.log1p(-on)

    for _ in range(epochs):
        posterior = joint(train)
        posterior = np.exp(posterior - np.logaddexp.reduce(posterior, 1, keepdims=True))
        total = posterior.sum(0)
        on = (train.T @ posterior + pseudocount) / (total + 2 * pseudocount)
        weights = (total + pseudocount) / (total + pseudocount).sum()
    return np.logaddexp.reduce(joint(test), 1)


def in_cirkit(model: tt.Circuit, softmax: bool) -> Any:
    """The circuit in cirkit, compiled; with ``softmax`` its rows of weights are the softmax of parameters."""
    from cirkit.pipeline import PipelineContext
    from cirkit.symbolic.circuit import Circuit
    from cirkit.symbolic.initializers import ConstantTensorInitializer
    from cirkit.symbolic.layers import CategoricalLayer, HadamardLayer, SumLayer
    from cirkit.symbolic.parameters import Parameter, SoftmaxParameter, TensorParameter
    from cirkit.utils.scope import Scope

    def parameter(weight: Tensor) -> Any:
        start = ConstantTensorInitializer((weight.log() if softmax else weight).numpy())
        leaf = TensorParameter(*weight.shape, initializer=start)
        return (
            Parameter.from_unary(SoftmaxParameter(weight.shape), leaf)
            if softmax
            else Parameter.from_input(leaf)
        )

    made: dict[int, Any] = {}
    below: dict[Any, list[Any]] = {}
    for node in model.nodes():
        layer, children = model.layer(node), model.children(node)
        if isinstance(layer, Categorical):
            (table,) = layer.parameters()
            scope, (units, size) = Scope(model.scope(node)), table.shape
            made[node] = CategoricalLayer(scope, units, num_categories=size, probs=parameter(table))
            continue
        if isinstance(layer, Sum):
            (weight,) = layer.operators[0].parameters()
            made[node] = SumLayer(weight.shape[1], weight.shape[0], weight=parameter(weight))
        else:
            made[node] = HadamardLayer(model.unit_dims(node)[0], len(children))
        below[made[node]] = [made[child] for child in children]
    context = PipelineContext(backend="torch", semiring="lse-sum", fold=True, optimize=True)
    return context.compile(Circuit(list(made.values()), below, [made[model.root]]))


def cirkit_by_gradients(start: tt.Circuit, train: Tensor, test: Tensor, epochs: int) -> np.ndarray:
    """log p of the test rows after the same steps of Adam."""
    circuit = in_cirkit(start, softmax=True)
    descend(lambda batch: circuit(batch).flatten(), circuit.parameters(), train, epochs)
    return log_p_in_cirkit(circuit, test)


def cirkit_by_em(
    start: tt.Circuit, train: Tensor, test: Tensor, epochs: int, pseudocount: float
) -> np.ndarray:
    """log p of the test rows after the same steps of EM, the counts from its derivatives."""
    circuit = in_cirkit(start, softmax=False)
    for _ in range(epochs):
        circuit.zero_grad()
        circuit(train).sum().backward()
        for weight in circuit.parameters():
            counts = weight.data * weight.grad + pseudocount
            weight.data = counts / counts.sum(-1, keepdim=True)
    return log_p_in_cirkit(circuit, test)


@torch.no_grad()
def log_p_in_cirkit(circuit: Any, test: Tensor) -> np.ndarray:
    """log p of the rows."""
    return torch.cat([circuit(part).flatten() for part in test.split(8192)]).numpy()


class Row(NamedTuple):
    """What a structure reached, in nats a row, in how many seconds; `peer`: without Tractile."""

    name: str
    train: float
    test: float
    peer: float | None
    by: str
    seconds: float


def compare(data: Data, side: int, states: int, em_epochs: int, epochs: int) -> list[Row]:
    """Learn every structure, and again without Tractile."""
    train, test, weights = data
    x, y = train.numpy(), test.numpy()
    mixed, hidden = mixture(side**2, 2 * states), builders.hidden_chow_liu(train, states, 2)
    regions = region_circuit(side, states)
    em: dict[str, Any] = {"epochs": em_epochs, "pseudocount": 0.1, "tolerance": -math.inf}  # for all epochs
    runs: list[tuple[str, str, Callable[[], tt.Circuit], Callable[[], np.ndarray]]] = [
        (
            "Chow–Liu tree", "numpy",
            lambda: builders.chow_liu(train, 2, pseudocount=1.0),
            lambda: tree_by_hand(x, np.ones(len(x)), y, 1.0),
        ),
        (
            f"mixture of {2 * states}, EM", "numpy",
            lambda: tt.em(mixed, train, **em).model,
            lambda: mixture_by_hand(mixed, x, y, em_epochs, 0.1),
        ),
        (
            f"hidden Chow–Liu tree, {states} states, EM", "cirkit",
            lambda: tt.em(hidden, train, **em).model,
            lambda: cirkit_by_em(hidden, train, test, em_epochs, 0.1),
        ),
        (
            "the same, Adam", "cirkit",
            lambda: by_gradients(hidden, train, epochs),
            lambda: cirkit_by_gradients(hidden, train, test, epochs),
        ),
        (
            f"region circuit, {states} units, Adam", "cirkit",
            lambda: by_gradients(regions, train, epochs),
            lambda: cirkit_by_gradients(regions, train, test, epochs),
        ),
    ]  # fmt: skip
    found: list[Row] = []
    for name, by, learn, again in runs:
        began = time.perf_counter()
        model = learn()
        seconds = time.perf_counter() - began
        peer = float(weights.numpy() @ again()) if importlib.util.find_spec(by) else None
        found.append(Row(name, mean_log_p(model, train), mean_log_p(model, test, weights), peer, by, seconds))
    return found


def table(found: list[Row]) -> str:
    """The Markdown table."""
    lines = ["| structure | train | test | without Tractile | s |", "| --- | --- | --- | --- | --- |"]
    for row in found:
        peer = f"{row.by} is not installed" if row.peer is None else f"{row.peer:.3f} ({row.by})"
        lines.append(f"| {row.name} | {row.train:.3f} | {row.test:.3f} | {peer} | {row.seconds:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small models and few steps")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    side, states, em_epochs, epochs = (3, 4, 5, 1) if quick else (4, 16, 60, 10)

    spins = ising(side)
    y, p = spins.test.numpy(), spins.weights.numpy()
    truth, tree = float(p @ np.log(p)), float(p @ tree_by_hand(y, p, y, 0))
    print(
        f"Ising, {side} × {side}, {len(spins.train):,} rows: truth {truth:.3f} nats a row, best tree {tree:.3f}.\n"
    )
    print(table(compare(spins, side, states, em_epochs, epochs)))

    images = digits()
    print(f"\nDigits: {len(images.train):,} rows, {len(images.test):,} held out.\n")
    print(table(compare(images, 8, states, em_epochs, epochs)))


if __name__ == "__main__":
    main()
