"""A step of P-GCD beside its floor and beside the dense algorithm.

One step scores every token for a batch of prefixes: p_hmm(constraint, next token | prefix). The constraint asks for one of
four alternatives, of two tokens each, of each of two or three key phrases, and then for the end of the sequence.

    floor     one plain (batch, H) × (H, V) product and a softmax over (batch, V): what any such query must pay
    dense     the algorithm as published: every automaton state × every token, nothing skipped (Dang et al. 2026, Alg. 1)
    P-GCD     ours, in float32 and with bfloat16 tables
    advance   reading the chosen tokens;  sweep  the backward messages for all budgets, once for a constraint and an HMM

Milliseconds of CPU time on one core, medians of interleaved rounds; ratio = ours / floor.
From 16,384 hidden states on, the transition is Monarch.

    python benchmarks/decoding.py [--smoke] [--hidden 256 1024 4096 16384] [--phrases 2 3] [--vocab 32000] [--batch 16]
    python benchmarks/decoding_gpu.py                             on a GPU, beside a language model of eight billion weights
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from functools import partial, reduce

import torch

import tractile as tt
from circuits import race
from tractile.circuits.intersection import intersect
from tractile.inference import Real
from tractile.inference.next_token.backward import Backward
from tractile.inference.next_token.token_scores import EdgeLabels
from tractile.layers import Monarch

HORIZON = 40
MONARCH = 16_384  # hidden states from which on the transition is Monarch


def phrases(vocab_size: int, count: int = 2, alternatives: int = 4, seed: int = 0) -> tt.Automaton:
    """Sequences with one of so many random alternatives, of two tokens each, of each phrase; token 0 ends them."""
    pick, words = random.Random(seed), range(1, vocab_size)

    def phrase() -> tt.Automaton:
        edges = [(0, words, 0), (1, words, 1), (1, [0], 2), (2, [0], 2)]
        for state in range(3, 3 + alternatives):
            first, second = pick.sample(words, 2)
            edges += [(0, [first], state), (state, [second], 1)]
        return tt.Automaton.from_edges(edges, 0, [2], vocab_size).determinize()

    return reduce(intersect, [phrase() for _ in range(count)]).minimize()


class Dense:
    """The step with every state and every token, from the same messages."""

    def __init__(self, query: PGCDQuery, hmm: tt.HMM, automaton: tt.Automaton) -> None:
        self.hmm, self.query = hmm, query
        states = automaton.num_states
        self.onward = torch.zeros(states, automaton.vocab_size, dtype=torch.long)
        for source, target, tokens in automaton.edges():
            self.onward[source, tokens] = target

    def step(self, alpha: torch.Tensor, states: torch.Tensor, future: torch.Tensor) -> torch.Tensor:
        """log m(v), (batch, V): Σ_h α[h] Aβ[s', h] B[h, v] for every state s', then each token's own."""
        scores = (alpha[:, None] * future[None]) @ self.hmm.emission_probs  # (batch, S, V)
        return scores.gather(1, self.onward[states][:, None]).squeeze(1).log()


def rescored(query: PGCDQuery) -> torch.Tensor:
    """The lookahead, computed afresh."""
    query._scored = None
    return query.lookahead()


def random_hmm(hidden: int, vocab_size: int, device: torch.device | str = "cpu") -> tt.HMM:
    """A random HMM made on the device; from 16,384 states on its transition is Monarch."""
    g, side = torch.Generator(device).manual_seed(0), round(hidden**0.5)

    def rows(*shape: int) -> torch.Tensor:
        weight = torch.rand(*shape, generator=g, device=device)
        return weight.div_(weight.sum(-1, keepdim=True))

    monarch = hidden >= MONARCH and side * side == hidden
    transition = Monarch([rows(side, side, side) for _ in range(2)]) if monarch else rows(hidden, hidden)
    return tt.HMM(rows(hidden), transition, rows(hidden, vocab_size))


def warmed(query: PGCDQuery, automaton: tt.Automaton, batch: int, steps: int = 6) -> PGCDQuery:
    """The query some tokens on, with prefixes in different states."""
    pick, few = random.Random(1), narrow_tokens(automaton)
    query.start(batch)
    for _ in range(steps):
        chosen = [
            pick.choice(few) if pick.random() < 0.6 else pick.randrange(1, automaton.vocab_size)
            for _ in range(batch)
        ]
        query.advance(torch.tensor(chosen))
    return query


def narrow_tokens(automaton: tt.Automaton) -> list[int]:
    """The tokens of narrow edges, without the one that ends a sequence."""
    narrow = [tokens for _, _, tokens in automaton.edges() if len(tokens) < automaton.vocab_size // 4]
    return sorted({t for tokens in narrow for t in tokens} - {0})


def run(hidden: int, automaton: tt.Automaton, batch: int, rounds: int, dense: bool) -> dict[str, float]:
    """The times of one size."""
    hmm = random_hmm(hidden, automaton.vocab_size)
    x, found = torch.rand(batch, hidden), dict[str, float]()
    for name, dtype in (("P-GCD", None), ("bfloat16", torch.bfloat16)):  # one after the other, for memory
        query = warmed(tt.pgcd(hmm, automaton, HORIZON, dtype), automaton, batch)
        calls: dict[str, Callable[[], object]] = {
            "floor": lambda: (x @ hmm.emission_probs).softmax(1),
            name: lambda query=query: rescored(query),
        }
        if dense and name == "P-GCD":
            onward = Dense(query, hmm, automaton)
            states = torch.tensor([states[0] for states in query._mask_query().states])
            future = torch.rand(automaton.num_states, hidden)
            calls["dense"] = partial(onward.step, x, states, future)
        for call in calls.values():
            call()
        times = race(calls, rounds, 60)
        found[f"{name}/floor"] = 1 / statistics.median(times[name].ratio)
        found = {key: 1e3 * statistics.median(each.cpu) for key, each in times.items()} | found
        if name == "P-GCD":
            begin = time.process_time()
            Backward(Real(), hmm, automaton, EdgeLabels(automaton), HORIZON)
            found["sweep"] = 1e3 * (time.process_time() - begin)
            few = narrow_tokens(automaton)
            begin = time.process_time()
            for _ in range(5):
                query.advance(torch.tensor(few[:1] * batch))
            found["advance"] = 1e3 * (time.process_time() - begin) / 5
        del query, calls
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 1024, 4096])
    parser.add_argument("--phrases", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--vocab", type=int, default=32_000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if options.smoke:
        options.hidden, options.vocab, options.batch, options.rounds = [32], 1_000, 4, 2
    torch.set_num_threads(1)
    print(
        f"V = {options.vocab}, batch {options.batch}, horizon {HORIZON}, torch {torch.__version__}, one thread; CPU ms\n"
    )
    times = ["floor", "P-GCD", "ratio", "bfloat16", "ratio", "dense", "advance", "sweep"]
    names = ["S", "E", "H", *times]
    print("| " + " | ".join(names) + " |\n" + "| --- " * len(names) + "|")
    for count in options.phrases:
        automaton = phrases(options.vocab, count)
        for hidden in options.hidden:
            size = options.batch * automaton.num_states * options.vocab * 4
            found = run(hidden, automaton, options.batch, options.rounds, hidden <= 1024 and size < 2**31)
            cells = [automaton.num_states, automaton.num_edges, hidden, found["floor"]]
            cells += [found["P-GCD"], found["P-GCD/floor"], found["bfloat16"], found["bfloat16/floor"]]
            cells += [found.get("dense", float("nan")), found["advance"], found["sweep"]]
            print(
                "| "
                + " | ".join("–" if c != c else f"{c:,.3g}" if c < 100 else f"{c:,.0f}" for c in cells)
                + " |",
                flush=True,
            )


if __name__ == "__main__":
    main()
