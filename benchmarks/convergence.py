"""Convergence: how far the samples of each method are from p_lm(x | constraint), by number of particles k.

    python benchmarks/convergence.py [PART …] [--smoke] [--runs N]

A sample is one of the k particles of a run, drawn by weight. Two distances from its distribution to the target:

    TV   total variation over the cells of a partition (what the text begins with × when the constraint is met), a run
         in which every particle died being a cell of its own. One half of the runs chooses the set of cells in which there
         is too much, the other half measures the excess, so noise does not add to the distance.
    KL   log Z − E[log Ẑ], an upper bound on the divergence (Loula et al. 2025, Appendix D.1), of the runs that did not
         die, repeated until one does not (D.2), which costs the particles of all. In nats.

The truth: *circuit*, an HMM as the language model and p(x | constraint) by enumeration; its guide is the same HMM with every
distribution blurred towards the uniform one. *embedded*, the embedded model and HMM, and four large P-GCD runs as truth,
checked by rejection sampling.
"""

import argparse
import itertools
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from transformers.utils.logging import disable_progress_bar

import tractile as tt
from tractile.embedded import load_hmm, load_lm
from tractile_bench.rejection import rejection_sampling

V, N, HIDDEN = 5, 7, 6
RARE, BLUR = 0.12, 0.35
PROMPT, BUDGET = "Once upon a time, there was a", 24
METHODS: dict[str, dict[str, Any]] = {
    "LCD": {"proposal": "lcd"},
    "GCD": {"proposal": "gcd"},
    "lookahead, p_lm": {
        "proposal": tt.inference.smc.LookaheadProposal(),
        "potential": tt.inference.smc.PrefixPotential(),
    },
    "mixture w = ½, φ_pgcd": {"proposal": "pgcd-mixture"},
    "lookahead, φ_pgcd": {"proposal": tt.inference.smc.LookaheadProposal()},
    "AWRS": {},  # black-box check: the problem has it
}
OURS = "lookahead, φ_pgcd"
LEVELS = {"TV": (0.3, 0.1, 0.05), "KL": (1.0, 0.3, 0.1)}


@dataclass(frozen=True)
class Problem:
    """A language model, a constraint, a guide, and the truth; ``target`` has two independent estimates, or one twice."""

    name: str
    lm: tt.lm.LanguageModel
    prompt: str | list[int]
    budget: int
    fa: tt.Automaton
    hmm: tt.HMM
    log_z: float
    cell: Callable[[tuple[int, ...]], int]
    target: tuple[torch.Tensor, torch.Tensor]

    def run(self, method: str, particles: int, seed: int) -> tt.inference.smc.Posterior:
        """One run of a method."""
        options = METHODS[method] or {"proposal": self.check()}
        return tt.smc(
            self.lm,
            self.prompt,
            self.fa,
            hmm=self.hmm,
            particles=particles,
            max_new_tokens=self.budget,
            seed=seed,
            **options,
        )

    def check(self) -> tt.inference.smc.Proposal:
        """The constraint as a black box: whether a prefix can be completed within the budget."""
        states = cache(
            lambda prefix: (
                states(prefix[:-1]) and self.fa.step(states(prefix[:-1])[0], prefix[-1])
                if prefix
                else tuple(self.fa.start_states)
            )
        )

        def may_go_on(prefix: tuple[int, ...]) -> bool:
            after = states(prefix)
            return bool(after) and int(self.fa.distances[after[0]]) <= self.budget - len(prefix)

        return tt.inference.smc.AWRSProposal(may_go_on, tokens=True, base=tt.inference.smc.LMProposal())


@dataclass(frozen=True)
class Distance:
    """A method at so many particles: distances with standard errors, and the share of runs in which all died."""

    k: int
    tv: float
    tv_error: float
    kl: float
    kl_error: float
    dead: float


def distance(problem: Problem, method: str, k: int, runs: int) -> Distance:
    """Over ``runs`` seeds."""
    log_z, cells = [], torch.zeros(runs, len(problem.target[0]) + 1, dtype=torch.float64)
    for seed in range(runs):
        post = problem.run(method, k, seed)
        log_z.append(post.log_evidence)
        if post.failed:
            cells[seed, -1] = 1.0
        for tokens, weight in zip(post.token_ids, post.weights.tolist(), strict=True):
            if weight:
                cells[seed, problem.cell(tokens)] += weight
    excess, errors = [], []
    for chosen, measured in ((0, 1), (1, 0)):
        target = torch.nn.functional.pad(problem.target[chosen], (0, 1))
        too_much = cells[chosen::2].mean(0) > target
        share = cells[measured::2][:, too_much].sum(1)
        excess.append(
            float(share.mean() - torch.nn.functional.pad(problem.target[measured], (0, 1))[too_much].sum())
        )
        errors.append(float(share.std()) / math.sqrt(len(share)))
    alive = [value for value in log_z if value > -math.inf]
    kl = problem.log_z - math.log(len(alive) / runs) - statistics.fmean(alive) if alive else math.inf
    kl_error = statistics.stdev(alive) / math.sqrt(len(alive)) if len(alive) > 1 else math.inf
    return Distance(k, statistics.fmean(excess), math.hypot(*errors) / 2, kl, kl_error, 1 - len(alive) / runs)


def cost(cell: Distance, what: str) -> float:
    """The particles of a sample: those of one run for TV, those of all runs until one does not die for KL.

    Infinite where too few runs lived to tell.
    """
    if what == "TV":
        return cell.k
    return cell.k / (1 - cell.dead) if cell.dead <= 0.9 else math.inf


def needed(found: list[Distance], what: str, level: float) -> float:
    """The particles from which on the distance is at most ``level``, by log-log lines between those tried; inf if none."""
    points = [
        (cost(cell, what), max(cell.tv if what == "TV" else cell.kl, 1e-9))
        for cell in found
        if cost(cell, what) < math.inf
    ]
    above = [i for i, (_, value) in enumerate(points) if value > level]
    last = above[-1] if above else -1
    if last + 1 >= len(points):
        return math.inf
    here, value = points[last + 1]
    if last < 0:
        return here
    before, more = points[last]
    return float(before * (here / before) ** (math.log(more / level) / math.log(more / value)))


# ------------------------------------------------------------ a circuit as the language model


def rare_model(rare: float = RARE) -> tt.HMM:
    """An HMM in which the last two tokens are ``rare``."""
    hmm = tt.HMM.random(HIDDEN, V, seed=5, dtype=torch.float64)
    emission = hmm.emission_probs * torch.tensor([1, 1, 1, rare, rare], dtype=torch.float64)
    return tt.HMM(hmm.initial_probs, hmm.transition.dense(), emission / emission.sum(dim=1, keepdim=True))


def blurred(hmm: tt.HMM, blur: float = BLUR) -> tt.HMM:
    """A worse model of the same text: every distribution a little more like the uniform one."""

    def mixed(p: torch.Tensor) -> torch.Tensor:
        return (1 - blur) * p + blur / p.shape[-1]

    return tt.HMM(mixed(hmm.initial_probs), mixed(hmm.transition.dense()), mixed(hmm.emission_probs))


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


def satisfied_at(fa: tt.Automaton) -> Callable[[tuple[int, ...]], int]:
    """The number of tokens after which the constraint is met for the first time."""

    accepting = (fa.final[0] > 0).tolist()

    def place(tokens: tuple[int, ...]) -> int:
        (state,) = fa.start_states
        for n, token in enumerate(tokens, 1):
            (state,) = fa.step(state, token)
            if accepting[state]:
                return n
        raise ValueError("not accepted")

    return place


def circuit(words: list[tuple[int, ...]], rare: float = RARE, blur: float = BLUR) -> Problem:
    """The text contains every word; cells: first token × when the last word was complete."""
    hmm, fa = rare_model(rare), contains(words)
    everything = torch.tensor(list(itertools.product(range(V), repeat=N)))
    accepted = everything[tt.support(fa, everything)]
    log_p = tt.log_marginal(hmm, accepted).double()
    log_z = float(log_p.logsumexp(0))
    place = satisfied_at(fa)

    def cell(tokens: tuple[int, ...]) -> int:
        return tokens[0] * N + place(tokens) - 1

    target = torch.zeros(V * N, dtype=torch.float64)
    index = torch.tensor([cell(tuple(row)) for row in accepted.tolist()])
    target.index_add_(0, index, (log_p - log_z).exp())
    name = f"circuit, contains {' and '.join(map(str, words))}: Z = {math.exp(log_z):.5f}"
    return Problem(name, tt.CircuitLM(hmm), [], N, fa, blurred(hmm, blur), log_z, cell, (target, target))


# ------------------------------------------------------------ the embedded model


def embedded(words: list[str], truth: int, tries: int) -> Problem:
    """The continuation contains every word; cells: first token (the three likeliest, others) × when it was met, by fours."""
    model, tokenizer = load_lm()
    lm, vocab = tt.TransformersLM(model, tokenizer), tt.Vocabulary.from_tokenizer(tokenizer)
    regex = "|".join("(.|\n)*".join(order) for order in itertools.permutations(words))
    fa = tt.constraints.regex(f"(.|\n)*({regex})(.|\n)*").compile(vocab, require_eos=False).determinize()
    place = satisfied_at(fa)
    lm.start([PROMPT])
    likely = {token: i for i, token in enumerate(lm.log_probs()[0].topk(3).indices.tolist())}
    width = -(-BUDGET // 4)

    def cell(tokens: tuple[int, ...]) -> int:
        return likely.get(tokens[0], 3) * width + (place(tokens) - 1) // 4

    problem = Problem("", lm, PROMPT, BUDGET, fa, load_hmm(), 0.0, cell, (torch.zeros(0),) * 2)
    large = [problem.run(OURS, truth, seed) for seed in range(10_000, 10_004)]
    estimates = torch.tensor([post.log_evidence for post in large], dtype=torch.float64)
    log_z = float(estimates.logsumexp(0)) - math.log(len(large))
    halves = []
    for pair in (large[:2], large[2:]):
        target = torch.zeros(4 * width, dtype=torch.float64)
        for post in pair:
            share = math.exp(post.log_evidence - log_z)
            for tokens, weight in zip(post.token_ids, post.weights.tolist(), strict=True):
                if weight:
                    target[cell(tokens)] += weight * share
        halves.append(target / target.sum())
    exact = rejection_sampling(lm, PROMPT, fa, tries, BUDGET, 0, tries, 256)
    name = (
        f"embedded, contains {' and '.join(map(repr, words))}: Z = {math.exp(log_z):.5f} (four runs of {truth} particles, "
        f"relative sd {float((estimates - log_z).exp().std()):.3f}; rejection: {exact.acceptance_rate:.5f} of {exact.tries})"
    )
    return Problem(name, lm, PROMPT, BUDGET, fa, load_hmm(), log_z, cell, (halves[0], halves[1]))


# ------------------------------------------------------------ tables


def measure(
    problem: Problem, methods: list[str], sizes: list[int], more: list[int], runs: int
) -> dict[str, list[Distance]]:
    """Every method at every size; LCD and GCD at ``more`` sizes, to see when they arrive."""
    found: dict[str, list[Distance]] = {}
    for method in methods:
        here = [*sizes, *more] if method in ("LCD", "GCD") else sizes
        found[method] = [distance(problem, method, k, runs) for k in here]
    return found


def table(found: dict[str, list[Distance]]) -> str:
    """Markdown: TV, KL and deaths; then the particles needed."""
    sizes = [cell.k for cell in max(found.values(), key=len)]
    lines = [
        "| method: TV, KL | " + " | ".join(f"k = {k}" for k in sizes) + " |",
        "| --- |" + " --- |" * len(sizes),
    ]
    for method, cells in found.items():
        row = [f"{c.tv:.3f}, {c.kl:.2f}" + (f" (dead {100 * c.dead:.0f} %)" if c.dead else "") for c in cells]
        lines.append(f"| {method} | " + " | ".join(row + [""] * (len(sizes) - len(row))) + " |")
    levels = [(what, level) for what in LEVELS for level in LEVELS[what]]
    lines += [
        "",
        "| particles needed for | " + " | ".join(f"{what} {level}" for what, level in levels) + " |",
        "| --- |" + " --- |" * len(levels),
    ]
    for method, cells in found.items():
        row = [needed(cells, what, level) for what, level in levels]
        shown = [f"{k:.1f}" if k < math.inf else f"> {cells[-1].k}" for k in row]
        lines.append(f"| {method} | " + " | ".join(shown) + " |")
    for rival in [name for name in ("LCD", "GCD") if name in found]:
        row = []
        for what, level in levels:
            ours, theirs = needed(found[OURS], what, level), needed(found[rival], what, level)
            more = theirs if theirs < math.inf else float(found[rival][-1].k)
            row.append("–" if ours == math.inf else f"{'> ' if theirs == math.inf else ''}{more / ours:.0f}")
        lines.append(f"| {rival} / {OURS} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words = {"circuit-1": [(3, 4)], "circuit-2": [(3, 3), (4,)]}
    texts = {"embedded-1": [" dog"], "embedded-2": [" dog", " park"]}
    parser.add_argument("parts", nargs="*", help=f"of {', '.join([*words, *texts])}; default: all")
    parser.add_argument("--smoke", action="store_true", help="a few runs, to see that it works")
    parser.add_argument("--runs", type=int, default=400, help="for each cell; a tenth on the embedded model")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    disable_progress_bar()
    smoke, runs = arguments.smoke, 4 if arguments.smoke else arguments.runs
    methods = ["GCD", OURS, "AWRS"] if smoke else list(METHODS)
    for name in arguments.parts or (["circuit-1", "embedded-1"] if smoke else [*words, *texts]):
        if name in words:
            problem, count = circuit(words[name]), runs
            sizes, more = ([1, 4], []) if smoke else ([2**i for i in range(9)], [1024, 4096])
        else:
            problem, count = (
                embedded(texts[name], *((16, 16) if smoke else (2048, 10_000))),
                max(4, runs // 10),
            )
            sizes, more = ([1, 4] if smoke else [4**i for i in range(5)]), []
        print(f"\n{problem.name}; {count} runs for each cell\n", flush=True)
        print("\n" + table(measure(problem, methods, sizes, more, count)), flush=True)


if __name__ == "__main__":
    main()
