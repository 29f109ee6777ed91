"""Samplers beside each other: total variation to the enumerated truth, by the number of texts that the model reads.

    python benchmarks/tempering.py [TARGET …] [--smoke] [--runs N]

The model is an HMM over five tokens, texts have seven, and the truth is summed over all 78,125 of them. Each cell is the mean
over runs of the total variation between the weighted samples of one run and the truth, over a partition of the texts, with its
standard error: bias and noise together. Reading a text is seven model calls, one for each token; a Metropolis–Hastings move
reads a whole text, a sweep of particle Gibbs one for each particle and one for its move.

*mirror*: no constraint; the potential, asked at the end alone, is 2^(−5 · places that differ from the place mirrored). *rare*:
it is 6^(number of rare tokens), of which most draws have none. *ending*: it is 40^(rare tokens among the last four). *word*: the
text contains two rare tokens in a row; the guide is the HMM, blurred. *word, gcd*: the same without a guide.
"""

import argparse
import itertools
import math
import statistics
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from convergence import N, V, blurred, contains, rare_model

import tractile as tt

READS = [64, 256, 1024]
CHAINS, SMALL = 4, 8  # of particle Gibbs: chains and particles; mcmc has as many chains
Sequence = tuple[int, ...]


class Target(NamedTuple):
    """What to sample, by which proposal, the cell of each text, and the share of each cell."""

    lm: tt.CircuitLM
    fa: tt.Automaton | None
    proposal: str | tt.inference.smc.Proposal
    hmm: tt.HMM | None
    potential: Callable[[str], float] | None
    cell: Callable[[Sequence], int]
    truth: torch.Tensor


def differences(tokens: Iterable[int]) -> int:
    """The number of places whose token differs from that at the same place from the end."""
    x = list(tokens)
    return sum(a != b for a, b in zip(x[: len(x) // 2], x[::-1], strict=False))


POTENTIALS: dict[str, Callable[[list[int]], float]] = {
    "mirror": lambda x: -5 * math.log(2) * differences(x),
    "rare": lambda x: math.log(6) * sum(token >= 3 for token in x),
    "ending": lambda x: math.log(40) * sum(token >= 3 for token in x[-4:]),
}
"""The logarithm of the potential of a text."""


def target(name: str) -> Target:
    """The target of this name, its truth by enumeration."""
    hmm = rare_model()
    texts = torch.tensor(list(itertools.product(range(V), repeat=N)))
    log_p = hmm.log_prob(texts).double()
    potential = POTENTIALS.get(name)
    fa = None if potential else contains([(3, 4)])
    if fa is None:
        log_p += torch.tensor(
            [-5 * math.log(2) * differences(x) for x in texts.tolist()], dtype=torch.float64
        )
    else:
        log_p = log_p.masked_fill(~tt.support(fa, texts), -math.inf)
    cells = texts[:, 0] * V + texts[:, N - 2]
    truth = torch.zeros(V * V, dtype=torch.float64).index_add_(0, cells, log_p.softmax(0))
    return Target(
        tt.CircuitLM(hmm),
        fa,
        {"word": tt.inference.smc.LookaheadProposal(), "word, gcd": "gcd"}.get(name, "lm"),
        blurred(hmm),
        potential and (lambda text: math.exp(potential([int(token) for token in text.split()]))),
        lambda x: x[0] * V + x[N - 2],
        truth,
    )


def distance(chosen: Target, weighted: Iterable[tuple[Sequence, float]]) -> float:
    """Total variation between weighted samples and the truth, over the cells; 1 if there is no sample."""
    share = torch.zeros_like(chosen.truth)
    for tokens, weight in weighted:
        if weight:
            share[chosen.cell(tokens)] += weight
    return float((share - chosen.truth).abs().sum()) / 2 if float(share.sum()) else 1.0


def of_posterior(chosen: Target, post: tt.Posterior) -> float:
    """The distance of a posterior."""
    return distance(chosen, zip(post.token_ids, post.weights.tolist(), strict=True))


def smc(chosen: Target, reads: int, seed: int) -> float:
    """Plain SMC: each particle reads one text."""
    options = {"potential": chosen.potential, "seed": seed}
    lm, fa, proposal, hmm = chosen[:4]
    return of_posterior(chosen, tt.smc(lm, [], fa, proposal, hmm, reads, N, **options))


def annealed(chosen: Target, reads: int, seed: int) -> float:
    """A ladder found by a pilot of 64 texts for each rung, which is not counted; each particle reads a text for each rung."""
    lm, fa, proposal, hmm = chosen[:4]
    options = {"potential": chosen.potential}
    ladder = tt.inference.smc.annealed(lm, [], fa, proposal, hmm, 64, N, 1_000_000, **options).ladder
    particles = max(1, reads // (1 + len(ladder)))
    post = tt.inference.smc.annealed(lm, [], fa, proposal, hmm, particles, N, seed, ladder=ladder, **options)
    return of_posterior(chosen, post)


def gibbs(chosen: Target, reads: int, seed: int) -> float:
    """Particle Gibbs: a quarter of the sweeps left out."""
    lm, fa, proposal, hmm = chosen[:4]
    sweeps = max(1, reads // (CHAINS * (SMALL + 1)))
    settings = {"potential": chosen.potential, "chains": CHAINS, "sweeps": sweeps, "seed": seed}
    return of_posterior(
        chosen, tt.inference.smc.particle_gibbs(lm, [], fa, proposal, hmm, SMALL, N, **settings).posterior()
    )


def mcmc(chosen: Target, reads: int, seed: int) -> float:
    """Markov chains: a quarter of the moves left out."""
    lm, fa, proposal, hmm = chosen[:4]
    moves = reads // CHAINS
    settings = {"burn_in": moves // 4, "chains": CHAINS, "potential": chosen.potential, "seed": seed}
    found = tt.inference.smc.mcmc(lm, [], fa, proposal, hmm, CHAINS * (moves - moves // 4), N, **settings)
    return distance(chosen, ((draw.token_ids, 1 / len(found.samples)) for draw in found.samples))


METHODS = {"SMC": smc, "annealed": annealed, "particle Gibbs": gibbs, "Markov chains": mcmc}


def main() -> None:
    """Print a table for each target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "targets", nargs="*", help="of mirror, rare, ending, word and word, gcd; default: all"
    )
    parser.add_argument("--smoke", action="store_true", help="a few runs, to see that it works")
    parser.add_argument("--runs", type=int, default=20, help="for each cell")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    reads, runs = ([64], 2) if arguments.smoke else (READS, arguments.runs)
    names = arguments.targets or (
        ["mirror"] if arguments.smoke else ["mirror", "rare", "ending", "word", "word, gcd"]
    )
    for name in names:
        chosen = target(name)
        print(
            f"\n{name}; {runs} runs for each cell\n\n| texts read | " + " | ".join(METHODS) + " |", flush=True
        )
        print("| --- |" + " --- |" * len(METHODS))
        for count in reads:
            row = []
            for method in METHODS.values():
                found = [method(chosen, count, seed) for seed in range(runs)]
                row.append(f"{statistics.fmean(found):.3f} ± {statistics.stdev(found) / math.sqrt(runs):.3f}")
            print(f"| {count} | " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
