"""A step of P-GCD beside its floor and beside the dense algorithm.

One step scores every token for a batch of prefixes: p_hmm(constraint, next token | prefix). The constraint asks for one of
four alternatives of each of two key phrases, over tokens.

    floor     one (batch, H) × (H, V) product and a softmax over (batch, V): what any such query must pay
    dense     the algorithm as published: every automaton state × every token, nothing skipped (Dang et al. 2026, Alg. 1)
    P-GCD     ours, in float32 and with bfloat16 tables
    advance   reading the chosen tokens
    sweep     the backward messages for all budgets, once for a constraint and an HMM

Milliseconds of CPU time on one core, medians of interleaved rounds; ratio = ours / floor. Work is counted for the step's
products: 2·B·H·V operations for the floor, twice that for P-GCD (product and prior), 2·B·S·H·V for dense.

    python benchmarks/decoding.py [--smoke] [--hidden 256 1024 4096] [--vocab 32000] [--batch 16] [--rounds 9]
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable

import torch

import tractile as tt
from tractile.inference import ProductQuery

HORIZON = 40


def phrases(vocab_size: int, seed: int = 0) -> tt.Automaton:
    """Sequences with one of four random alternatives, of two or three tokens each, of each of two phrases."""
    pick = random.Random(seed)
    matchers = [
        Matcher([tuple(pick.sample(range(vocab_size), pick.choice([2, 3]))) for _ in range(4)])
        for _ in range(2)
    ]
    special = sorted({t for m in matchers for a in m.alternatives for t in a})
    other = [t for t in range(vocab_size) if t not in set(special)]
    number = {(0, 0): 0}
    edges: dict[tuple[int, int], list[int]] = {}
    for pair in (queue := [(0, 0)]):
        for tokens in [other, *([t] for t in special)]:
            reached = tuple(m.step(state, tokens[0]) for m, state in zip(matchers, pair, strict=True))
            if reached not in number:
                number[reached] = len(number)
                queue.append(reached)
            edges.setdefault((number[pair], number[reached]), []).extend(tokens)
    final = number[tuple(m.done for m in matchers)]
    return tt.Automaton.from_edges([(s, t, d) for (s, d), t in edges.items()], 0, [final], vocab_size)


class Matcher:
    """Which prefix of which alternative has just been read (Aho and Corasick 1975)."""

    def __init__(self, alternatives: list[tuple[int, ...]]) -> None:
        self.alternatives = set(alternatives)
        prefixes = sorted({a[:i] for a in alternatives for i in range(len(a))}, key=lambda p: (len(p), p))
        self.state = {prefix: i for i, prefix in enumerate(prefixes)}
        self.prefix, self.done = prefixes, len(prefixes)

    def step(self, state: int, token: int) -> int:
        """The state after a token; once an alternative is read, that remains."""
        if state == self.done:
            return state
        word = (*self.prefix[state], token)
        while word not in self.state:
            if word in self.alternatives:
                return self.done
            word = word[1:]
        return self.state[word]


class Dense:
    """The step with every state and every token, from the same messages."""

    def __init__(self, query: ProductQuery, hmm: tt.HMM, automaton: tt.Automaton) -> None:
        self.hmm, self.query = hmm, query
        states = automaton.num_states
        self.onward = torch.zeros(states, automaton.vocab_size, dtype=torch.long)
        for source, target, tokens in automaton.edges():
            self.onward[source, tokens] = target

    def step(self, alpha: torch.Tensor, states: torch.Tensor, future: torch.Tensor) -> torch.Tensor:
        """log m(v), (batch, V): Σ_h α[h] Aβ[s', h] B[h, v] for every state s', then each token's own."""
        scores = (alpha[:, None] * future[None]) @ self.hmm.emission_probs  # (batch, S, V)
        return scores.gather(1, self.onward[states][:, None]).squeeze(1).log()


def measure(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median CPU milliseconds of each call, in interleaved rounds."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.process_time()
            call()
            times[name].append(1e3 * (time.process_time() - begin))
    return {name: statistics.median(values) for name, values in times.items()}


def rescored(query: ProductQuery) -> torch.Tensor:
    """The lookahead, computed afresh."""
    query._scored = None
    return query.lookahead()


def run(hidden: int, vocab_size: int, batch: int, rounds: int, dense: bool) -> dict[str, float]:
    """The times of one size."""
    g = torch.Generator().manual_seed(0)
    emission = torch.rand(hidden, vocab_size, generator=g)
    transition = torch.rand(hidden, hidden, generator=g).softmax(1)
    hmm = tt.HMM(torch.full((hidden,), 1 / hidden), transition, emission / emission.sum(1, keepdim=True))
    automaton = phrases(vocab_size)
    begin = time.process_time()
    query = tt.pgcd(hmm, automaton, HORIZON).start(batch)
    sweep = 1e3 * (time.process_time() - begin)
    half = tt.pgcd(hmm, automaton, HORIZON, torch.bfloat16).start(batch)
    few = sorted({t for _, _, tokens in automaton.edges() if len(tokens) < vocab_size // 4 for t in tokens})
    pick = random.Random(1)
    for _ in range(6):  # prefixes in different states
        tokens = torch.tensor(
            [pick.choice(few) if pick.random() < 0.6 else pick.randrange(vocab_size) for _ in range(batch)]
        )
        query.advance(tokens)
        half.advance(tokens)
    x = torch.rand(batch, hidden, generator=g)
    onward = Dense(query, hmm, automaton)
    states = torch.tensor([s[0] for s in query._states])
    future = torch.rand(automaton.num_states, hidden, generator=g)
    calls: dict[str, Callable[[], object]] = {
        "floor": lambda: (x @ hmm.emission_probs).softmax(1),
        "P-GCD": lambda: rescored(query),
        "bfloat16": lambda: rescored(half),
    }
    if dense:
        calls["dense"] = lambda: onward.step(x, states, future)
    found = measure(calls, rounds)
    rest = query.remaining.min()
    begin = time.process_time()
    steps = min(5, int(rest) - 1)
    for _ in range(steps):
        query.advance(torch.tensor(few[:1] * batch))
    return found | {"advance": 1e3 * (time.process_time() - begin) / steps, "sweep": sweep}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 1024, 4096])
    parser.add_argument("--vocab", type=int, default=32_000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if options.smoke:
        options.hidden, options.vocab, options.batch, options.rounds = [32], 1_000, 4, 2
    torch.set_num_threads(1)
    automaton = phrases(options.vocab)
    print(
        f"V = {options.vocab}, batch {options.batch}, {automaton.num_states} states, {automaton.num_edges} edges, ",
        end="",
    )
    print(f"horizon {HORIZON}, torch {torch.__version__}, one thread; CPU ms\n")
    names = ["floor", "P-GCD", "ratio", "bfloat16", "ratio", "dense", "advance", "sweep", "GFLOP"]
    print("| H | " + " | ".join(names) + " |\n" + "| --- " * (len(names) + 1) + "|")
    for hidden in options.hidden:
        size = options.batch * automaton.num_states * options.vocab * 4
        found = run(
            hidden, options.vocab, options.batch, options.rounds, dense=hidden <= 1024 and size < 2**31
        )
        cells = [found["floor"], found["P-GCD"], found["P-GCD"] / found["floor"]]
        cells += [found["bfloat16"], found["bfloat16"] / found["floor"], found.get("dense", float("nan"))]
        cells += [found["advance"], found["sweep"], 4e-9 * options.batch * hidden * options.vocab]
        print(f"| {hidden} | " + " | ".join("–" if c != c else f"{c:.3g}" for c in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
