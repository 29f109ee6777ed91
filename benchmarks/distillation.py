"""Distillation: how fast EM is, and how good the HMM becomes.

    speed      one EM step (H = 256, V = 1,000, T = 64, B = 64, float32, one thread) beside the same written by hand in torch
               and, where they are installed, hmmlearn, dynamax and pomegranate; and a Monarch transition of 4,096 states
               beside a dense one
    quality    nats per token on held-out samples of the embedded language model: HMMs of several sizes by mini-batch EM
               from a random start, by the start from the model's hidden states alone, and by both; Monarch HMMs; all on
               the same corpus; beside an interpolated Kneser-Ney trigram of that corpus, the same trigram as an HMM of
               so many contexts, and the language model's own entropy, which nothing can beat

Rounds of the race are interleaved and medians of CPU time are reported; the ratio is the other's time over ours in the
same round. The corpus and finished HMMs are kept in build/benchmarks/distillation, so that a run that was stopped goes on.

    python benchmarks/distillation.py [--smoke] [--only speed|quality] [--sequences N] [--hidden 64,256,1024]
                                      [--counted 2048,4096] [--monarch 1024,4096] [--plot FILE]
"""

import argparse
import dataclasses
import json
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch
from peers.circuits import ENGINES, Problem, plain_em
from torch import Tensor

import tractile as tt
from circuits import race
from tractile import distill
from tractile.embedded import load_lm

PEERS = ("hmmlearn", "dynamax", "pomegranate")  # those that are installed
TOKENS, PROMPT = 32, [1]  # the corpus: texts from the first token on


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
        step = distill.m_step(hmm, distill.expected_counts(hmm, tokens))
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
        form: (lambda hmm=hmm: distill.m_step(hmm, distill.expected_counts(hmm, tokens)))
        for form, hmm in forms.items()
    }
    print(f"\nEM step, H = {hidden:,}, V = {vocab_size:,}, T = {length}, B = {batch}\n")
    print(
        "| transition | CPU, ms | tokens/s | times the dense time | transition, MB |\n| --- | --- | --- | --- | --- |"
    )
    for form, found in race(steps, 2 if smoke else 5, 120).items():
        cpu, ratio = statistics.median(found.cpu), 1 / statistics.median(found.ratio)
        size = sum(4e-6 * weight.numel() for weight in forms[form].transition.parameters())
        print(f"| {form} | {1e3 * cpu:.4g} | {batch * length / cpu:,.0f} | {ratio:.3g} | {size:.3g} |")


class Trigram:
    """An interpolated Kneser-Ney trigram (Chen and Goodman 1999, Section 2.7), one discount n_1 / (n_1 + 2 n_2) an order."""

    def __init__(self, corpus: distill.Corpus) -> None:
        self.vocab_size, self.eos = corpus.manifest.vocab_size, corpus.manifest.eos_token_id
        counts = Counter(
            (row[i - 2], row[i - 1], row[i])
            for row in map(self._padded, corpus.tokens.tolist())
            for i in range(2, len(row))
        )
        self.orders = []  # of contexts of 2, 1 and 0 tokens: (counts, totals, distinct followers, discount)
        while True:
            totals, kinds = defaultdict[tuple[int, ...], int](int), defaultdict[tuple[int, ...], int](int)
            for gram, count in counts.items():
                totals[gram[:-1]] += count
                kinds[gram[:-1]] += 1
            seen = Counter(counts.values())
            self.orders.append((counts, totals, kinds, seen[1] / (seen[1] + 2 * seen[2])))
            if len(next(iter(counts))) == 1:
                break
            counts = Counter(gram[1:] for gram in counts)  # how many tokens it has been seen after

    def _padded(self, row: list[int]) -> list[int]:
        """Two tokens that are none before the text, one end after it."""
        length = row.index(self.eos) + 1 if self.eos in row else len(row)
        return [-1, -1, *row[:length]]

    def probability(self, *gram: int) -> float:
        """p(last token | two tokens before)."""
        found = 1 / self.vocab_size
        for order, (counts, totals, kinds, discount) in reversed(list(enumerate(self.orders))):
            key = gram[order:]
            if total := totals.get(key[:-1]):
                found *= discount * kinds[key[:-1]] / total
                found += max(counts.get(key, 0) - discount, 0) / total
        return found

    def nats_per_token(self, corpus: distill.Corpus) -> float:
        """On other texts."""
        rows = [self._padded(row) for row in corpus.tokens.tolist()]
        grams = [tuple(row[i - 2 : i + 1]) for row in rows for i in range(2, len(row))]
        return -float(torch.tensor([self.probability(*gram) for gram in grams]).log().mean())


WAYS = {  # how an HMM is made: from the model's hidden states?, epochs of EM, its first step
    "random start, EM": (False, True, 1.0),
    "clones, counted": (True, False, 1.0),
    "clones, EM": (True, True, 0.3),
}


def quality(
    sequences: int,
    sizes: list[int],
    counted: list[int],
    monarch: list[int],
    epochs: int,
    work: Path,
    plot: Path | None,
) -> None:
    """HMMs of several sizes on samples of the embedded model."""
    model, tokenizer = load_lm()
    corpus = distill.sample(
        tt.TransformersLM(model, tokenizer), work / "corpus", sequences, TOKENS, [PROMPT], tokenizer=tokenizer
    )
    fit, test = corpus.split(0.1)
    trigram = Trigram(fit)
    assert abs(sum(trigram.probability(1, 5, v) for v in range(trigram.vocab_size)) - 1) < 1e-6
    baseline = trigram.nats_per_token(test)
    found: dict[tuple[int, str], distill.Evaluation] = {}
    print(
        f"\n{len(fit):,} texts of {TOKENS} tokens to learn from, {len(test):,} ({test.num_tokens:,} tokens) to test on\n"
    )
    print(
        "| | nats per token | KL per token | agreement | CPU, s |\n| --- | --- | --- | --- | --- |",
        flush=True,
    )

    def make(hidden: int, way: str, form: str, folder: Path) -> None:
        clones, trained, step_size = WAYS[way]

        def start() -> tt.HMM:
            return distill.initialise(model, tokenizer, fit, hidden, form)

        distill.train(
            fit, hidden, form, epochs if trained else 0, step_size=step_size, batch_size=512, out=folder,
            initial=start if clones else None,
        )  # fmt: skip

    rows = [(hidden, way, "dense") for hidden in sizes for way in WAYS]
    rows += [(hidden, "clones, counted", "dense") for hidden in counted]
    rows += [(hidden, "random start, EM", "monarch") for hidden in monarch]
    for hidden, way, form in rows:
        folder, spent = (
            work / f"{way}-{form}-{hidden}".replace(", ", "-").replace(" ", "-"),
            time.process_time(),
        )
        if not (folder / "evaluation.json").exists():
            make(hidden, way, form, folder)
            seconds = time.process_time() - spent
            result = distill.evaluate(tt.HMM.from_pretrained(folder), test)
            record = {"seconds": seconds, "evaluation": dataclasses.asdict(result)}
            (folder / "evaluation.json").write_text(json.dumps(record))
        record = json.loads((folder / "evaluation.json").read_text())
        result, seconds = distill.Evaluation(**record["evaluation"]), record["seconds"]
        if form == "dense":
            found[hidden, way] = result
        assert result.kl_per_token is not None
        assert result.agreement is not None
        print(
            f"| H = {hidden:,}{', Monarch' if form == 'monarch' else ''}, {way} | {result.nats_per_token:.3f} "
            f"| {result.kl_per_token:.3f} | {result.agreement:.3f} | {seconds:.0f} |",
            flush=True,
        )
    assert result.lm_nats_per_token is not None
    bound = result.lm_nats_per_token
    for states in sorted({*sizes, *counted}):
        spent = time.process_time()
        hmm = distill.ngram(fit, 3, states)
        spent, result = time.process_time() - spent, distill.evaluate(hmm, test)
        print(
            f"| trigram of {hmm.hidden:,} contexts as an HMM | {result.nats_per_token:.3f} "
            f"| {result.nats_per_token - bound:.3f} | {result.agreement:.3f} | {spent:.0f} |",
            flush=True,
        )
    print(f"| Kneser-Ney trigram | {baseline:.3f} | {baseline - bound:.3f} | | |")
    print(
        f"| independent tokens | {result.unigram_nats_per_token:.3f} | {result.unigram_nats_per_token - bound:.3f} | | |"
    )
    print(f"| the language model itself | {bound:.3f} | 0 | 1 | |")
    if plot is not None:
        draw(found, baseline, bound, plot)


def draw(found: dict[tuple[int, str], distill.Evaluation], trigram: float, bound: float, path: Path) -> None:
    """Nats per token against the number of states."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlabel="hidden states", ylabel="nats per token, held out", xscale="log")
    for way in WAYS:
        points = sorted((hidden, e.nats_per_token) for (hidden, w), e in found.items() if w == way)
        axes.plot(*zip(*points, strict=True), "o-", label=f"HMM: {way}")
    sizes = sorted({hidden for hidden, _ in found})
    axes.set_xticks(sizes, labels=[str(size) for size in sizes])
    axes.minorticks_off()
    axes.axhline(trigram, ls="--", color="grey", label="Kneser-Ney trigram")
    axes.axhline(bound, ls=":", color="black", label="the language model's entropy")
    axes.legend()
    figure.savefig(path)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="as little as shows that it works")
    parser.add_argument("--only", choices=["speed", "quality"])
    parser.add_argument("--sequences", type=int, default=12_000)
    parser.add_argument("--hidden", default="64,256,1024", help="sizes, with commas between")
    parser.add_argument("--counted", default="2048,4096", help="sizes of HMMs that are only counted")
    parser.add_argument("--monarch", default="1024,4096", help="sizes of Monarch HMMs")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--plot", type=Path, help="save a picture of the quality")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.only != "quality":
        speed(args.smoke)
    if args.only != "speed":
        sizes, counted, monarch = (
            [int(size) for size in given.split(",") if size]
            for given in (args.hidden, args.counted, args.monarch)
        )
        if args.smoke:
            sizes, counted, monarch = [8], [16], [9]
        sequences, epochs = (256, 1) if args.smoke else (args.sequences, args.epochs)
        root = Path(__file__).resolve().parent.parent / "build" / "benchmarks" / "distillation"
        quality(sequences, sizes, counted, monarch, epochs, root / f"{sequences}-{epochs}", args.plot)


if __name__ == "__main__":
    main()
