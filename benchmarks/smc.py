"""Convergence of the methods to a distribution that is known. (Speed: ``smc_speed.py``.)

    python benchmarks/smc.py [--smoke] [--runs N]

The language model is an HMM (``CircuitLM``), so p(x | constraint) is enumerated; the guide is the same HMM with
its parameters blurred. For each method and number k of particles, over runs with different seeds:

    KL      log Z − E[log Ẑ] in nats: an upper bound on the divergence of one sample from the target (with its standard
            error); where some runs die, their share instead
    TV      total variation between the first two tokens of the weighted particles, averaged over runs, and the target's
"""

import argparse
import itertools
import math
import statistics
from collections.abc import Callable
from typing import Any

import torch

import tractile as tt

V, N, HIDDEN = 5, 7, 6
BLUR = 0.35
PROPOSALS: dict[str, Callable[[set[tuple[int, ...]]], dict[str, Any]]] = {
    "LCD": lambda _: {"proposal": "lcd"},
    "AWRS": lambda prefixes: {
        "proposal": tt.AWRSProposal(prefixes.__contains__, tokens=True, base=tt.LMProposal())
    },
    "GCD": lambda _: {"proposal": "gcd"},
    "mixture w = ½, φ_pgcd": lambda _: {"proposal": "pgcd-mixture"},
    "lookahead, p_lm": lambda _: {"proposal": "pgcd", "potential": tt.PrefixPotential()},
    "lookahead, φ_pgcd": lambda _: {"proposal": "pgcd"},
}


def rare_model() -> tt.HMM:
    """An HMM in which the last two tokens are rare."""
    hmm = tt.HMM.random(HIDDEN, V, seed=5, dtype=torch.float64)
    emission = hmm.emission_probs * torch.tensor([1, 1, 1, 0.12, 0.12], dtype=torch.float64)
    return tt.HMM(hmm.initial_probs, hmm.transition.dense(), emission / emission.sum(dim=1, keepdim=True))


def blurred(hmm: tt.HMM) -> tt.HMM:
    """A worse model of the same text: every distribution a little more like the uniform one."""

    def blur(p: torch.Tensor) -> torch.Tensor:
        return (1 - BLUR) * p + BLUR / p.shape[-1]

    return tt.HMM(blur(hmm.initial_probs), blur(hmm.transition.dense()), blur(hmm.emission_probs))


def contains(words: list[tuple[int, ...]]) -> tt.Automaton:
    """Exactly N tokens that contain every word, in any order."""
    places = list(itertools.product(*(range(len(word) + 1) for word in words)))
    edges = []
    for place, token in itertools.product(places, range(V)):
        after = tuple(_advance(word, n, token) for word, n in zip(words, place, strict=True))
        edges.append((places.index(place), token, places.index(after)))
    return tt.Automaton.from_edges(edges, 0, [len(places) - 1], V)


def _advance(word: tuple[int, ...], matched: int, token: int) -> int:
    """The length of the longest start of ``word`` read so far; all of it once it was read."""
    if matched == len(word):
        return matched
    read = (*word[:matched], token)
    return max(n for n in range(len(read) + 1) if read[len(read) - n :] == word[:n])


def converge(words: list[tuple[int, ...]], sizes: list[int], runs: int) -> None:
    """Print the table of one constraint."""
    hmm, fa = rare_model(), contains(words)
    guide, lm = blurred(hmm), tt.CircuitLM(hmm)
    everything = torch.tensor(list(itertools.product(range(V), repeat=N)))
    accepted = everything[tt.support(fa, everything)]
    log_p = hmm.log_prob(accepted).double()
    log_z = float(log_p.logsumexp(0))
    target = torch.zeros(V, V, dtype=torch.float64)
    target.index_put_((accepted[:, 0], accepted[:, 1]), (log_p - log_z).exp(), accumulate=True)
    prefixes = {tuple(row[:n]) for row in accepted.tolist() for n in range(1, N + 1)}
    print(f"\ncontains {words}: Z = {math.exp(log_z):.5f}, {len(accepted)} of {len(everything)} sequences\n")
    print("| method | " + " | ".join(f"k = {k}: KL, TV" for k in sizes) + " |")
    print("| --- |" + " --- |" * len(sizes))
    for name, settings in PROPOSALS.items():
        cells = []
        for k in sizes:
            estimates, mean = [], torch.zeros_like(target)
            options = settings(prefixes)
            for seed in range(runs):
                post = tt.smc(lm, [], fa, hmm=guide, particles=k, max_new_tokens=N, seed=seed, **options)
                estimates.append(post.log_evidence)
                for tokens, weight in zip(post.token_ids, post.weights.tolist(), strict=True):
                    if weight:
                        mean[tokens[0], tokens[1]] += weight
            dead = sum(math.isinf(value) for value in estimates)
            if dead:
                cells.append(f"dead {100 * dead / runs:.0f} %")
                continue
            tv = 0.5 * float((mean / runs - target).abs().sum())
            kl = log_z - statistics.fmean(estimates)
            error = statistics.stdev(estimates) / math.sqrt(runs)
            cells.append(f"{kl:.2f} ± {error:.2f}, {tv:.2f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="a few runs, to see that it works")
    parser.add_argument("--runs", type=int, default=100, help="runs for each cell")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sizes, runs = ([1, 4], 4) if arguments.smoke else ([1, 4, 16, 64, 256], arguments.runs)
    for words in ([(3, 4)], [(3, 3), (4,)]):
        converge(words, sizes, runs)


if __name__ == "__main__":
    main()
