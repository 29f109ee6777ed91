"""Distillation: how fast an EM step is.

One EM step (H = 256, V = 1,000, T = 64, B = 64, float32, one thread) beside the same written by hand in torch and, where they are
installed, hmmlearn, dynamax and pomegranate; and a Monarch transition of 4,096 states beside a dense one. Rounds of the race
are interleaved and medians of CPU time are reported; the ratio is the other's time over ours in the same round.

    python benchmarks/distillation.py [--smoke]
"""

import argparse
import statistics
from collections.abc import Callable
from importlib.util import find_spec

import torch
from peers.circuits import ENGINES, Problem, plain_em
from torch import Tensor

import tractile as tt
from circuits import race

PEERS = ("hmmlearn", "dynamax", "pomegranate")  # those that are installed


def by_hand(problem: Problem) -> list[Tensor]:
    """One EM step by scaled forward and backward messages, step by step, as one would write it."""
    (initial, transition, emission), tokens = problem.parameters, problem.tokens
    batch, length = tokens.shape
    alphas, scales = [], []
    message = initial.expand(batch, -1)
    for t in range(length):
        seen = message * emission[:, tokens[:, t]].T
        scales.append(seen.sum(1, keepdim=True))
        alphas.append(seen / scales[-1])
        message = alphas[-1] @ transition
    beta, moves, emits = torch.ones_like(message), torch.zeros_like(transition), torch.zeros_like(emission)
    for t in range(length - 1, -1, -1):
        emits.index_add_(1, tokens[:, t], (alphas[t] * beta).T)
        if t:
            after = beta * emission[:, tokens[:, t]].T / scales[t]
            moves += alphas[t - 1].T @ after
            beta = after @ transition.T
    counts = [(alphas[0] * beta).sum(0), transition * moves, emits]
    return [c / c.sum(-1, keepdim=True) for c in counts]


def speed(smoke: bool) -> None:
    """The EM step beside others, and Monarch beside dense."""
    hidden, vocab_size, length, batch = (16, 50, 8, 4) if smoke else (256, 1000, 64, 64)
    problem = Problem.random(hidden, vocab_size, length, batch)
    hmm, tokens = problem.hmm, problem.tokens

    def ours() -> list[Tensor]:
        step, _ = tt.inference.em_step(hmm, tokens)
        return [step.initial_probs, *step.transition.parameters(), step.emission_probs]

    for other in (by_hand(problem), plain_em(*problem.parameters, tokens)):
        for a, b in zip(ours(), other, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)
    calls: dict[str, Callable[[], object]] = {
        "Tractile": ours,
        "torch by hand": lambda: by_hand(problem),
        "torch by autograd": lambda: plain_em(*problem.parameters, tokens),
    }
    times = race(calls, 3 if smoke else 15, 120)
    for name in PEERS:
        package, make = ENGINES[name]
        if find_spec(package) is None:
            continue
        other = make(problem).em
        assert other is not None
        other()  # compiles, if it does
        times[name] = race({"Tractile": ours, name: other}, 1 if smoke else 3, 120)[name]
    print(f"\nEM step, H = {hidden}, V = {vocab_size:,}, T = {length}, B = {batch}\n")
    print("| | CPU, ms | tokens/s | times our time |\n| --- | --- | --- | --- |")
    for name, found in times.items():
        cpu = statistics.median(found.cpu)
        ratio = 1 / statistics.median(found.ratio)
        print(f"| {name} | {1e3 * cpu:.4g} | {batch * length / cpu:,.0f} | {ratio:.3g} |")

    hidden, length, batch = (64, 4, 2) if smoke else (4096, 16, 32)
    tokens = torch.randint(vocab_size, (batch, length), generator=torch.Generator().manual_seed(0))
    forms = {form: tt.HMM.random(hidden, vocab_size, form) for form in ("dense", "monarch")}
    steps: dict[str, Callable[[], object]] = {
        form: (lambda hmm=hmm: tt.inference.em_step(hmm, tokens)) for form, hmm in forms.items()
    }
    print(f"\nEM step, H = {hidden:,}, V = {vocab_size:,}, T = {length}, B = {batch}\n")
    print(
        "| transition | CPU, ms | tokens/s | times the dense time | transition, MB |\n| --- | --- | --- | --- | --- |"
    )
    for form, found in race(steps, 2 if smoke else 5, 120).items():
        cpu, ratio = statistics.median(found.cpu), 1 / statistics.median(found.ratio)
        size = sum(4e-6 * weight.numel() for weight in forms[form].transition.parameters())
        print(f"| {form} | {1e3 * cpu:.4g} | {batch * length / cpu:,.0f} | {ratio:.3g} | {size:.3g} |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="as little as shows that it works")
    torch.set_num_threads(1)
    speed(parser.parse_args().smoke)


if __name__ == "__main__":
    main()
