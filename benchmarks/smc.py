"""Convergence of the methods to a distribution that is known, and speed beside genlm-control.

    python benchmarks/smc.py [--smoke] [--runs N] [--skip-speed]

*Convergence.* The language model is an HMM (``CircuitLM``), so p(x | constraint) is enumerated; the guide is the same HMM with
its parameters blurred. For each method and number k of particles, over runs with different seeds:

    KL      log Z − E[log Ẑ] in nats: an upper bound on the divergence of one sample from the target (with its standard
            error); where some runs die, their share instead
    TV      total variation between the first two tokens of the weighted particles, averaged over runs, and the target's

*Speed.* CPU milliseconds for a step of all particles: a GPT-2 of two layers with the embedded tokenizer and a regex, our
sampler with GCD and genlm-control with adaptive weighted rejection, and the bare model. Needs genlm-control; else says so.
"""

import argparse
import itertools
import math
import statistics
import time
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


def speed(particles: int, runs: int, regex: str, tokens: int) -> None:
    """Print CPU milliseconds a step; runs alternate between the samplers."""
    try:
        import asyncio

        from genlm.backend.llm import AsyncTransformer
        from genlm.control import AWRS, BoolFSA, PromptedLLM
    except ImportError as missing:
        print(f"\nspeed: skipped, genlm-control is not installed ({missing})")
        return
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.utils.logging import disable_progress_bar

    from tractile.embedded import load_lm

    disable_progress_bar()
    _, tokenizer = load_lm()
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=64,
        n_layer=2,
        n_head=2,
        n_positions=256,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = GPT2LMHeadModel(config).eval()
    prompt = "Once upon a time"
    vocab = tt.Vocabulary.from_tokenizer(tokenizer)
    lm, fa = tt.TransformersLM(model, tokenizer), tt.constraints.regex(regex).compile(vocab)
    peer = PromptedLLM(AsyncTransformer(model, tokenizer, batch_size=particles))
    peer.set_prompt_from_str(prompt)
    check = BoolFSA.from_regex(regex).coerce(peer, f=b"".join)
    awrs = AWRS(peer, check)

    def ours(seed: int) -> int:
        post = tt.smc(lm, prompt, fa, "gcd", None, particles, tokens, seed)
        return len(post.ess_trace)

    def theirs(seed: int) -> int:
        torch.manual_seed(seed)
        sequences = asyncio.run(
            awrs.smc(n_particles=particles, ess_threshold=0.5, max_tokens=tokens, verbosity=0)
        )
        return max(len(context) for context, _ in sequences)

    def bare(seed: int) -> int:
        lm.start([prompt] * particles)
        for _ in range(tokens):
            lm.advance(torch.full((particles,), 5))
        return tokens + 1

    found: dict[str, list[float]] = {"bare model": [], "tractile, GCD": [], "genlm-control, AWRS": []}
    for seed in range(runs + 1):
        for name, run in zip(found, (bare, ours, theirs), strict=True):
            begin = time.process_time()
            steps = run(seed)
            if seed:  # the first warms up
                found[name].append(1e3 * (time.process_time() - begin) / steps)
    print(f"\n{particles} particles, {len(tokenizer)} tokens, {regex!r}: CPU ms a step, median of {runs}")
    for name, values in found.items():
        print(f"  {name:22} {statistics.median(values):8.2f}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="a few runs, to see that it works")
    parser.add_argument("--runs", type=int, default=100, help="runs for each cell")
    parser.add_argument("--skip-speed", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sizes, runs = ([1, 4], 4) if arguments.smoke else ([1, 4, 16, 64, 256], arguments.runs)
    for words in ([(3, 4)], [(3, 3), (4,)]):
        converge(words, sizes, runs)
    if not arguments.skip_speed:
        speed(*((4, 1) if arguments.smoke else (16, 7)), r" (yes|no|maybe), [0-9]{3}", 24)


if __name__ == "__main__":
    main()
