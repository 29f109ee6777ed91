"""Stories that must contain given words, and a call of one of some functions: LCD, GCD and P-GCD on the same model.

Runs on the language models and the HMMs that ship with Tractile. For each set of words it prints what each method
writes and how often LCD misses the words; then it measures, for one set, how far each method is from the true
conditional distribution as the number of particles grows, and saves the plot. At the end a user's request becomes a
valid function call, within the budget, with its posterior.

    python examples/demo.py [--out out/demo.png] [--quick]
"""

import argparse
import time
from pathlib import Path

import matplotlib
import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from transformers.utils.logging import disable_progress_bar

import tractile as tt
from tractile.embedded import load_hmm, load_lm
from tractile.inference.smc import Particle, Posterior, importance_sampling
from tractile_bench import prompts
from tractile_bench.models import load_small_lm

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PROMPT = "Once upon a time, there was a"
BUDGET = 32  # tokens
WORD_SETS = [("dog", "park"), ("cat", "tree", "climb"), ("girl", "cake", "eat"), ("ball", "friend", "play")]
METHODS = {"LCD": "lcd", "GCD": "gcd", "P-GCD": "pgcd"}
REQUEST = "Search for a hotel in Berlin for 3 nights"
CALL_BUDGET = 24  # tokens
TOOLS = [
    {
        "name": "get_weather",
        "description": "Get the weather of a city on a day",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "day": {"type": "string", "enum": ["today", "tomorrow"]},
            },
            "required": ["city", "day"],
        },
    },
    {
        "name": "search_hotel",
        "description": "Search for a hotel in a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "nights": {"type": "integer", "minimum": 1, "maximum": 30},
            },
            "required": ["city"],
        },
    },
]
console = Console(highlight=False, width=120)


def automaton(words: tuple[str, ...], vocab: tt.Vocabulary) -> tt.Automaton:
    """All the words, in any order and inflection; the story may go on where the budget ends."""
    return tt.constraints.keywords(list(words)).compile(vocab, require_eos=False)


def quoted(text: str) -> str:
    """A continuation as one line."""
    return "… " + escape(" ".join(text.split()))


def show(lm: tt.TransformersLM, hmm: tt.HMM, words: tuple[str, ...], fa: tt.Automaton, seed: int) -> None:
    """What the three methods write for one set of words."""
    console.rule(f"{', '.join(words)}, within {BUDGET} tokens")
    console.print(f"[bold]prompt[/]  {PROMPT} …")
    masked = importance_sampling(lm, PROMPT, fa, "lcd", particles=100, max_new_tokens=BUDGET, seed=seed)
    misses = sum(particle.log_weight == -torch.inf for particle in masked.particles)
    console.print(f"[bold]LCD[/]     misses the words in {misses} of 100 samples; the first sample:")
    console.print(f"        {quoted(masked.particles[0].text)}")
    for name in ("GCD", "P-GCD"):
        posterior = tt.smc(lm, PROMPT, fa, METHODS[name], hmm, particles=16, max_new_tokens=BUDGET, seed=seed)
        figures = f"log Z = {posterior.log_evidence:.2f} nats, ESS = {posterior.ess:.1f}"
        console.print(f"[bold]{name:7s}[/] 16 particles, {figures}; the heaviest and their weights:")
        table = Table(show_header=False, box=None, padding=(0, 1), pad_edge=False)
        for text, weight in list(posterior.group_by(lambda particle: particle.text).items())[:3]:
            table.add_row(f"  {weight:5.3f}", quoted(text))
        console.print(table)


def kind(particle: Particle) -> tuple[str, int]:
    """The grouping of the plot: which word comes first, and in which third of the text the last one begins."""
    text = particle.text
    places = {word: text.find(word) for word in WORD_SETS[0]}
    first = min(places, key=lambda word: places[word])
    return first, int(3 * max(places.values()) / len(text))


def total_variation(posterior: Posterior, truth: dict[tuple[str, int], float]) -> float:
    """½ Σ |weight − truth| over the groups; 1 for a run in which no particle satisfies the constraint."""
    if posterior.failed:
        return 1.0
    weights = posterior.group_by(kind)
    return 0.5 * sum(abs(weights.get(g, 0.0) - truth.get(g, 0.0)) for g in weights.keys() | truth.keys())


def exact_distance(truth: dict[tuple[str, int], float], k: int) -> float:
    """The mean distance of k independent exact samples: what a perfect sampler with k particles has."""
    probs = torch.tensor(list(truth.values()), dtype=torch.float64)
    draws = torch.multinomial(
        probs.expand(500, -1), k, replacement=True, generator=torch.Generator().manual_seed(0)
    )
    counts = torch.stack([(draws == g).sum(dim=1) for g in range(len(probs))], dim=1)
    return float(0.5 * (counts / k - probs).abs().sum(dim=1).mean())


def measure(
    lm: tt.TransformersLM, hmm: tt.HMM, fa: tt.Automaton, sizes: list[int], runs: int, truth_particles: int
) -> tuple[dict[str, list[float]], dict[tuple[str, int], float]]:
    """The mean distance to the truth, for each method and number of particles; and the truth."""
    large = tt.smc(lm, PROMPT, fa, "pgcd", hmm, particles=truth_particles, max_new_tokens=BUDGET, seed=1000)
    truth = large.group_by(kind)
    figures = f"log Z = {large.log_evidence:.2f} nats, ESS = {large.ess:.0f}"
    console.print(f"truth   P-GCD with {truth_particles} particles, {figures}")
    distances: dict[str, list[float]] = {}
    for name, proposal in METHODS.items():
        distances[name] = []
        for k in sizes:
            posteriors = [
                tt.smc(lm, PROMPT, fa, proposal, hmm, particles=k, max_new_tokens=BUDGET, seed=seed)
                for seed in range(runs)
            ]
            distances[name].append(sum(total_variation(p, truth) for p in posteriors) / runs)
        console.print(
            f"{name:7s} " + "  ".join(f"k={k}: {d:.2f}" for k, d in zip(sizes, distances[name], strict=True))
        )
    return distances, truth


def plot(
    distances: dict[str, list[float]], truth: dict[tuple[str, int], float], sizes: list[int], out: Path
) -> None:
    """Distance against the number of particles, and what exact samples would give."""
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for name, values in distances.items():
        axes.plot(sizes, values, marker="o", label=name)
    axes.plot(sizes, [exact_distance(truth, k) for k in sizes], "k--", label="k exact samples")
    axes.set(
        xscale="log",
        ylim=(0, 1.02),
        xlabel="particles k",
        ylabel="total variation distance to p(· | constraint)",
        title=f"{' and '.join(WORD_SETS[0])} within {BUDGET} tokens: which word first × where in the text",
    )
    axes.set_xticks(sizes, [str(k) for k in sizes])
    axes.minorticks_off()
    axes.legend(loc="lower left")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150)


def show_call() -> None:
    """The request, the functions, how often LCD ends in a valid call, and the calls that GCD finds."""
    console.rule(f"a function call, within {CALL_BUDGET} tokens")
    model, tokenizer = load_small_lm()
    lm = tt.TransformersLM(model, tokenizer)
    fa = tt.constraints.function_calls(TOOLS).compile(tt.Vocabulary.from_tokenizer(tokenizer))
    prompt = prompts.function_calling(REQUEST, TOOLS, "json")
    console.print(f"[bold]user[/]    {REQUEST}")
    for tool in TOOLS:
        console.print(f"[bold]tool[/]    {escape(prompts.function_signature(tool))}")
    masked = importance_sampling(lm, prompt, fa, "lcd", particles=64, max_new_tokens=CALL_BUDGET, seed=0)
    misses = sum(particle.log_weight == -torch.inf for particle in masked.particles)
    console.print(f"[bold]LCD[/]     has no valid call at the end of the budget in {misses} of 64 samples")
    posterior = tt.smc(lm, prompt, fa, "gcd", particles=64, max_new_tokens=CALL_BUDGET, seed=0)
    figures = f"log Z = {posterior.log_evidence:.2f} nats, ESS = {posterior.ess:.1f}"
    console.print(f"[bold]GCD[/]     64 particles, {figures}; the heaviest calls and their weights:")
    table = Table(show_header=False, box=None, padding=(0, 1), pad_edge=False)
    for text, weight in list(posterior.group_by(lambda particle: particle.text).items())[:4]:
        table.add_row(f"  {weight:5.3f}", escape(text))
    console.print(table)


def main() -> None:
    """Print the samples, save the plot."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/demo.png"), help="where the plot goes")
    parser.add_argument("--quick", action="store_true", help="one set of words and a coarse plot")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the tensors are small: more threads mostly wait for each other
    disable_progress_bar()
    begin = time.perf_counter()
    model, tokenizer = load_lm()
    lm, hmm, vocab = tt.TransformersLM(model, tokenizer), load_hmm(), tt.Vocabulary.from_tokenizer(tokenizer)
    automata = {words: automaton(words, vocab) for words in WORD_SETS}
    for seed, words in enumerate(WORD_SETS[:1] if arguments.quick else WORD_SETS):
        show(lm, hmm, words, automata[words], seed)
    console.rule("distance to the true conditional")
    sizes, runs, truth_particles = ([1, 4, 16], 2, 128) if arguments.quick else ([1, 4, 16, 64], 8, 1024)
    distances, truth = measure(lm, hmm, automata[WORD_SETS[0]], sizes, runs, truth_particles)
    plot(distances, truth, sizes, arguments.out)
    console.print(f"plot    {arguments.out}")
    show_call()
    console.print(f"({time.perf_counter() - begin:.0f} s in all)")


if __name__ == "__main__":
    main()
