"""The thumbnails of the gallery, drawn from its circuits: `python docs/pictures/gallery.py` writes `docs/gallery/thumbnails/`."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import torch
from drawing import BLUE, GREEN, ORANGE, RED
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import tractile as tt
from tractile.circuits import builders
from tractile.layers import Bernoulli, Categorical, Dense, Hadamard, Indicator, Sum

OUT = Path(__file__).resolve().parent.parent / "gallery" / "thumbnails"


def save(name: str, figure: Figure) -> None:
    """Write a figure as the thumbnail of a page; a drawn circuit is packed closer."""
    if max(figure.get_size_inches()) > 4:
        figure.set_size_inches(*0.7 * figure.get_size_inches())
    OUT.mkdir(exist_ok=True)
    figure.savefig(OUT / f"{name}.png", dpi=100, facecolor="white", bbox_inches="tight")


def canvas() -> tuple[Figure, Axes]:
    """An empty figure with two axes lines."""
    figure = Figure((4.0, 2.5), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def circuits() -> None:
    """Circuits and automata, as `draw` shows them."""
    coins = tt.Circuit()
    tosses = [coins.input(Bernoulli(torch.tensor([0.5, 0.9])), t) for t in range(3)]
    coins.sum(Sum(Dense(torch.tensor([[0.5, 0.5]]))), coins.product(Hadamard(), *tosses))
    save("two-coins", coins.draw())

    tables = {(0, v): Dense(torch.tensor([[0.95, 0.05], [0.2, 0.8]])) for v in (1, 2)}
    inputs = {v: Indicator(2) for v in range(3)}
    tree = builders.tree(nx.DiGraph([(0, 1), (0, 2)]), inputs, prior=torch.tensor([0.9, 0.1]), tables=tables)
    save("trees", tree.draw())

    random = builders.RandomParameters(seed=0)
    factors = [Categorical(torch.rand(2, 3)) for _ in range(3)]
    save("tensor-factorisations", builders.tucker(factors, torch.rand(2, 2, 2)).draw())

    transition = Dense(random.rows(2, 2))
    inputs = [Categorical(random.rows(2, 2)) for _ in range(3)]
    save("hmm", builders.hmm_circuit(random.rows(2), [transition] * 2, inputs).draw())
    save("pictures", builders.regions(builders.random_regions(4), random.bernoulli(), random.rows, 3).draw())

    no_two = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 0)], 0, [0, 1], vocab_size=2)
    save("automata", no_two.draw(names=["0", "1"]))
    answered = [(0, [1, 2], 0), (0, 0, 1), (1, [0, 2], 1), (1, 1, 0)]
    save("hmm-dfa", tt.Automaton.from_edges(answered, 0, [0], vocab_size=3).draw(names=["a", "b", "c"]))

    step, ahead = tt.Circuit(), []
    for t in reversed(range(2)):
        pair = step.product(
            Hadamard(),
            step.input(Categorical(random.rows(2, 2)), 3 * t + 1),
            step.input(Categorical(random.rows(2, 3)), 3 * t + 2),
        )
        token = step.input(Categorical(random.rows(2, 4)), 3 * t)
        node = step.product(Hadamard(), token, step.sum(Sum(Dense(random.rows(2, 2))), pair), *ahead)
        ahead = [step.sum(Sum(Dense(random.rows(2 if t else 1, 2))), node)]
    save("hmm-dfa-tree", step.draw())


def curves() -> None:
    """Pages about numbers: densities, learning curves, entropies, weights over time."""
    figure, axes = canvas()
    x = torch.linspace(145, 200, 300)
    for mean, variance, colour in ((165.0, 40.0, BLUE), (178.0, 50.0, ORANGE)):
        normal = torch.distributions.Normal(mean, variance**0.5)
        axes.fill_between(x, normal.log_prob(x).exp(), color=colour, alpha=0.5)
    axes.set_xlabel("height, cm")
    axes.set_yticks([])
    save("continuous", figure)

    figure, axes = canvas()
    random = builders.RandomParameters(1)
    truth = builders.latent_tree(
        builders.random_tree(8, seed=1), 3, random.bernoulli(), builders.RandomParameters(2)
    )
    data = tt.sample(truth, 300, generator=torch.Generator().manual_seed(0))
    for seed, colour in enumerate((BLUE, GREEN, RED)):
        random = builders.RandomParameters(seed=seed)
        model = builders.regions(builders.random_regions(8), random.bernoulli(), random.rows, 4)
        axes.plot(tt.inference.em(model, data, epochs=15, pseudocount=0.1).log_likelihoods, color=colour)
    axes.set_xlabel("steps of EM")
    axes.set_ylabel("log-likelihood")
    save("learning", figure)

    figure, axes = canvas()
    p = torch.linspace(0, 1, 101)
    entropy = torch.special.entr(p) + torch.special.entr(1 - p)
    axes.plot(p, entropy, color=BLUE, lw=2)
    axes.set_xlabel("p")
    axes.set_ylabel("H(p), nats")
    save("information", figure)

    figure, axes = canvas()
    hmm = tt.HMM.random(hidden=6, vocab_size=12, seed=1)
    axes.imshow(hmm.emission_probs, cmap="Blues", aspect="auto")
    axes.set_xlabel("token")
    axes.set_ylabel("state")
    save("more-hmms", figure)


if __name__ == "__main__":
    circuits()
    curves()
