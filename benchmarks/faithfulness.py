"""Faithfulness at equal calls of the model: how far the law of a sample is from p_lm(x | C), which is enumerated.

The language model is a random HMM over three tokens, the guide of P-GCD an HMM that knows it imperfectly (its parameters mixed
with another's), the constraint the sequences of six tokens that contain 0 1 1. Each method may evaluate the model on so many
prefixes:

    law      total variation between the truth and the mean of the runs' posteriors, in the place where 0 1 1 first occurs (four
             places, so that the noise of the repeats is small): the bias of a text drawn from the posterior
    run      mean total variation between the truth and one run's posterior, over texts
    empty    the share of runs that give no text within the calls; the distances are of the others

P-GCD's pilot, once for all runs, is not counted. "exact draws" is the truth itself, one draw for each six calls: what is left of
"law" there is the noise of the repeats.

    python benchmarks/faithfulness.py [--smoke] [--runs N] [--calls 48,192]
"""

import argparse
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

import tractile as tt
from tractile_bench.cars import CARS
from tractile_bench.rejection import rejection_sampling

V, N, WORD = 3, 6, (0, 1, 1)
Law = Mapping[tuple[int, ...], float]


class Counted:
    """A language model that counts the prefixes it is asked about."""

    def __init__(self, lm: Any) -> None:
        self._lm, self.vocab_size, self.eos_token_id, self.calls = lm, lm.vocab_size, lm.eos_token_id, 0
        self.network = lm  # what a pilot found is kept for it

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lm, name)

    def log_probs(self) -> torch.Tensor:
        """The next-token table, counted."""
        table: torch.Tensor = self._lm.log_probs()
        self.calls += len(table)
        return table


def random_hmm(seed: int) -> tuple[torch.Tensor, ...]:
    """Initial, transition and emission probabilities of a peaked random HMM of four states."""
    generator = torch.Generator().manual_seed(seed)
    shapes = ((4,), (4, 4), (4, V))
    return tuple((2 * torch.randn(s, generator=generator, dtype=torch.float64)).softmax(-1) for s in shapes)


OWN, OTHER = random_hmm(0), random_hmm(1)
LM = tt.CircuitLM(tt.HMM(*OWN))
GUIDE = tt.HMM(*(0.7 * a + 0.3 * b for a, b in zip(OWN, OTHER, strict=True)))
FA = tt.Automaton.from_edges(
    [(0, [0, 1, 2], 0), (0, 0, 1), (1, 1, 2), (2, 1, 3), (3, [0, 1, 2], 3)], 0, [3], V
)


def has_word(tokens: Iterable[int]) -> bool:
    """Whether the sequence contains the word."""
    text = tuple(tokens)
    return any(text[i : i + len(WORD)] == WORD for i in range(len(text)))


def possible(tokens: Iterable[int]) -> bool:
    """Whether the word is in the prefix or may still come."""
    text = tuple(tokens)
    if has_word(text):
        return True
    left = N - len(text)
    return any(text[len(text) - i :] == WORD[:i] and left >= len(WORD) - i for i in range(len(WORD)))


def truth() -> tuple[Law, float]:
    """p_lm(x | C), and p_lm(C)."""
    texts = [x for x in itertools.product(range(V), repeat=N) if has_word(x)]
    hmm = tt.HMM(*OWN)
    p = hmm.log_prob(torch.tensor(texts)).exp().tolist()
    return {x: each / sum(p) for x, each in zip(texts, p, strict=True)}, sum(p)


def of(post: tt.Posterior) -> Law:
    """A posterior's normalised weights by text."""
    return {} if post.failed else post.group_by(lambda particle: particle.token_ids)


def particles(proposal: Any, **options: Any) -> Callable[[Any, int, int], Law]:
    """SMC; particles share the prefixes they have in common, so twice as many as texts that the calls would pay."""
    return lambda lm, calls, seed: of(tt.smc(lm, [], FA, proposal, GUIDE, 2 * calls // N, N, seed, **options))


def cars(lm: Any, calls: int, seed: int) -> Law:
    """Constrained adaptive rejection sampling until the calls are used."""
    learned, found, tries = CARS(), Counter[tuple[int, ...]](), 0
    while lm.calls < calls:
        seed_of_try, tries = 10_000 * seed + tries, tries + 1
        post = rejection_sampling(lm, [], FA, 1, N, seed_of_try, 1, cars=learned).posterior
        found.update(post.token_ids)
    return {x: n / found.total() for x, n in found.items()}


def rejection(lm: Any, calls: int, seed: int) -> Law:
    """Plain rejection sampling until the calls are used."""
    found, tries = Counter[tuple[int, ...]](), 0
    while lm.calls < calls:
        seed_of_try, tries = 10_000 * seed + tries, tries + 1
        found.update(rejection_sampling(lm, [], FA, 1, N, seed_of_try, 1).posterior.token_ids)
    return {x: n / found.total() for x, n in found.items()}


def mcmc(lm: Any, calls: int, seed: int) -> Law:
    """One Metropolis–Hastings chain of GCD's suffixes; its first quarter is left out."""
    moves = max(2, calls // 12)  # a move evaluates the old text and the new rest
    samples = tt.inference.smc.mcmc(
        lm, [], FA, "gcd", None, moves - moves // 4, N, seed, chains=1, burn_in=moves // 4
    ).samples
    return {x: n / len(samples) for x, n in Counter(s.token_ids for s in samples).items()}


METHODS: dict[str, Callable[[Any, int, int], Law]] = {
    "GCD": particles("gcd"),
    "P-GCD, the default": particles("pgcd"),
    "AWRS": particles(tt.inference.smc.AWRSProposal(possible, has_word, tokens=True)),
    "MCMC, GCD's suffixes": mcmc,
    "rejection sampling": rejection,
    "CARS": cars,
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="a few runs, to see that it works")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--calls", default="48,192")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.runs, arguments.calls = 2, "12"
    torch.set_num_threads(1)
    target, z = truth()
    print(f"p_lm(C) = {z:.3f}, {len(target)} texts, {arguments.runs} runs\n")
    print(
        "| | calls allowed | used | law | run | empty, % | CPU, ms |\n| --- | --- | --- | --- | --- | --- | --- |"
    )
    for calls in map(int, arguments.calls.split(",")):
        for name, method in METHODS.items():
            method(Counted(LM), N, 0)  # finds the strength
            used, laws, begun = 0, [], time.process_time()
            for seed in range(arguments.runs):
                lm = Counted(LM)
                laws.append(method(lm, calls, seed))
                used += lm.calls
            took = 1e3 * (time.process_time() - begun) / len(laws)
            found = f"{used / len(laws):.0f} | {distances(laws, target)}"
            print(f"| {name} | {calls} | {found} | {took:.0f} |", flush=True)
        generator = torch.Generator().manual_seed(0)
        p, texts = torch.tensor(list(target.values())), list(target)
        drawn = torch.multinomial(
            p.expand(arguments.runs, -1), calls // N, True, generator=generator
        ).tolist()
        exact = [{texts[i]: n / len(row) for i, n in Counter(row).items()} for row in drawn]
        print(f"| exact draws | {calls} | – | {distances(exact, target)} | – |")


def places(law: Law) -> list[float]:
    """The law of the place where the word first occurs."""
    found = [0.0] * (N - len(WORD) + 1)
    for x, p in law.items():
        found[next(i for i in range(len(found)) if x[i : i + len(WORD)] == WORD)] += p
    return found


def distances(laws: Sequence[Law], target: Law) -> str:
    """The cells "law", "run" and "empty"."""
    some = [law for law in laws if law]
    if not some:
        return "– | – | 100"
    mean = [sum(each) / len(some) for each in zip(*map(places, some), strict=True)]
    law = sum(abs(a - b) for a, b in zip(mean, places(target), strict=True)) / 2
    run = sum(sum(abs(one.get(x, 0.0) - p) for x, p in target.items()) / 2 for one in some) / len(some)
    return f"{law:.3f} | {run:.3f} | {100 * (1 - len(some) / len(laws)):.0f}"


if __name__ == "__main__":
    main()
