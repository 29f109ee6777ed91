"""Guides: how near an HMM comes to the language model, by states, sampled tokens, start and CPU time, and what that is worth.

    python benchmarks/guides.py [PART …] [--smoke] [--first N] [--work FOLDER] [--plot FOLDER]

    nats        nats a token above the language model's own on held-out samples, for every way of WAYS, so many states and
                so many sampled tokens; and the same on samples that were trained on: where the two differ data is short,
                where both are high states are
    context     the same for the language model itself where it reads no more than its last tokens: what no model of so
                short a memory is known to beat
    particles   log Z − E[log Ẑ] of P-GCD (lookahead, φ_pgcd, strength 1) with each guide of GUIDES and of GCD, by number of
                particles, an upper bound on the divergence of a particle from the target; log Z is from four large runs

Corpora, HMMs and points (``points.jsonl``) are kept in ``--work``: a point that is there is not run again. CPU time of a point
is that of everything but sampling: the language model's hidden states, clusters, smaller HMMs, EM. ``--plot`` draws the
pictures of the points that are there; without a part it runs nothing.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import torch
from guides_pictures import Point, Points, draw, tables
from proposals import log_mean
from transformers.utils.logging import disable_progress_bar

import tractile as tt
from tractile import distill
from tractile.embedded import load_lm
from tractile_bench import guides

LENGTH, PROMPT, EPOCHS = 32, [1], 4
WINDOWS = (1, 2, 3, 4, 6, 8, 12, 16, 32)
CONSTRAINTS = {
    '" dog"': r"(.|\n)* dog(.|\n)*",
    '" dog" and " park"': r"(.|\n)*( dog(.|\n)* park| park(.|\n)* dog)(.|\n)*",
    'two sentences, "happy." at the end': r'[^.!?"]*\. [^.!?"]* happy\.',
    "a sentence without e": r"[^e]*\.",
}
SIZES, RUNS, TRUTH = (1, 4, 16), 16, 256
TRUE = ("clones", 1024, 2**19)  # the guide of the large runs


@dataclass(frozen=True)
class Source:
    """The language model, and samples of it in a folder: ``most`` tokens to learn from and ``tests`` texts to test on."""

    folder: Path
    most: int
    tests: int

    @cached_property
    def model(self) -> tuple[Any, Any]:
        """The language model and its tokenizer."""
        return load_lm()

    @cached_property
    def lm(self) -> tt.TransformersLM:
        """The language model as the samplers take it."""
        return tt.TransformersLM(*self.model)

    def _sample(self, name: str, sequences: int, seed: int) -> distill.Corpus:
        return distill.sample(
            self.lm, self.folder / name, sequences, LENGTH, [PROMPT], seed=seed, tokenizer=self.model[1]
        )

    @cached_property
    def everything(self) -> distill.Corpus:
        """All there is to learn from."""
        return self._sample(f"fit-{self.most}", self.most // 16, 0)

    @cached_property
    def test(self) -> distill.Corpus:
        """Texts that no HMM has learned from."""
        return self._sample("test", self.tests, 1)

    def fit(self, tokens: int) -> distill.Corpus:
        """The first texts, of ``tokens`` tokens together; a smaller corpus is part of each larger one."""
        corpus = self.everything
        lengths = 1 + (corpus.tokens[:, :-1] != corpus.manifest.eos_token_id).sum(1)
        return corpus.select(lengths.cumsum(0) <= tokens)


# ------------------------------------------------------------ ways to make an HMM


def em(
    fit: distill.Corpus,
    hidden: int,
    form: str = "dense",
    initial: tt.HMM | None = None,
    step: float = 1.0,
    seed: int = 0,
) -> tt.HMM:
    """Mini-batch EM, at least 16 steps an epoch where there are as many texts; from a random start if there is none."""
    batch = max(16, min(512, len(fit) // 16))
    return distill.train(
        fit, hidden, form, EPOCHS, initial=initial, step_size=step, batch_size=batch, held_out=0.0, seed=seed
    )


def clones(source: Source, fit: distill.Corpus, hidden: int, form: str = "dense") -> tt.HMM:
    """States read off the language model's hidden states; counted, and discounted if the transition is dense."""
    return distill.initialise(*source.model, fit, hidden, form)


WAYS: dict[str, Callable[[Source, distill.Corpus, int], tt.HMM]] = {
    "EM": lambda source, fit, hidden: em(fit, hidden),
    "clones": clones,
    "clones, EM": lambda source, fit, hidden: em(fit, hidden, initial=clones(source, fit, hidden), step=0.3),
    "split, EM": lambda source, fit, hidden: em(fit, hidden, initial=distill.split(em(fit, hidden // 4), hidden)),
    "trigram": lambda source, fit, hidden: guides.ngram(fit, 3, hidden),
    "4-gram": lambda source, fit, hidden: guides.ngram(fit, 4, hidden),
    "Monarch, EM": lambda source, fit, hidden: em(fit, hidden, "monarch"),
    "Monarch, clones, EM": lambda source, fit, hidden: em(
        fit, hidden, "monarch", clones(source, fit, hidden, "monarch"), 0.3
    ),
    "Monarch, product, EM": lambda source, fit, hidden: em(
        fit, hidden, "monarch", distill.kronecker(*(em(fit, math.isqrt(hidden), seed=seed) for seed in (0, 1)))
    ),
}  # fmt: skip


def grid(smoke: bool) -> Iterator[tuple[str, int, int]]:
    """(way, states, tokens), those that say most first."""
    if smoke:
        yield from ((way, 16, 512) for way in WAYS)
        return
    most, counted = 2**19, ("trigram", "clones")
    yield from product(counted, (64, 256, 1024, 4096), (most,))
    yield from product(("EM",), (64, 256), (most,))
    yield from product(counted, (1024,), (2**15, 2**17))
    yield from product(("EM",), (1024,), (2**15, 2**17))
    yield from product(("Monarch, EM",), (4096,), (2**17,))
    yield from product(("clones, EM",), (1024,), (2**15, 2**17))
    yield from product(("EM",), (1024,), (most,))
    yield from product(("trigram",), (4096,), (2**15, 2**17))
    yield from product(("clones, EM", "split, EM"), (256,), (most,))
    yield from product(("EM",), (256,), (2**15, 2**17))
    yield from product(("Monarch, product, EM",), (4096,), (2**17,))
    yield from product(("split, EM",), (1024,), (2**17,))
    yield from product(("clones",), (4096,), (2**15, 2**17))
    yield from product(("4-gram",), (4096,), (most,))
    yield from product(("clones, EM",), (1024,), (most,))
    yield from product(("Monarch, EM",), (1024,), (2**17,))
    yield from product(("trigram", "EM", "clones"), (1024,), (2**14, 2**16, 2**18))
    yield from product(("clones, EM", "split, EM"), (64,), (most,))
    yield from product(counted, (4096,), (2**14, 2**16, 2**18))
    yield ("Monarch, clones, EM", 4096, 2**17)
    yield ("Monarch, EM", 4096, most)
    yield ("Monarch, EM", 16_384, 2**17)


# ------------------------------------------------------------ what becomes of them


def place(source: Source, way: str, hidden: int, tokens: int) -> Path:
    """Where an HMM is kept."""
    return source.folder / "hmms" / f"{way} {hidden} {tokens}".replace(", ", "-").replace(" ", "-")


def quality(source: Source, way: str, hidden: int, tokens: int) -> Point:
    """Make an HMM and compare it with the language model."""
    fit, test = source.fit(tokens), source.test
    begin = time.process_time()
    hmm = WAYS[way](source, fit, hidden)
    seconds = time.process_time() - begin
    hmm.save_pretrained(place(source, way, hidden, tokens))
    on_test = distill.evaluate(hmm, test)
    on_fit = distill.evaluate(hmm, fit.select(torch.arange(min(len(fit), 250))))
    return {
        "states": hmm.hidden,
        "above": on_test.kl_per_token,
        "fit": on_fit.kl_per_token,
        "lm": on_test.lm_nats_per_token,
        "unigram": on_test.unigram_nats_per_token,
        "agreement": on_test.agreement,
        "seconds": seconds,
        "by_position": on_test.by_position,
        "lm_by_position": on_test.lm_by_position,
    }


def nats(source: Source, points: Points, smoke: bool, first: int | None) -> None:
    """Every HMM of the grid."""
    wanted = list(grid(smoke))[:first]
    for i, (way, hidden, tokens) in enumerate(wanted):
        key = {"part": "nats", "way": way, "hidden": hidden, "tokens": tokens}
        found = points.once(key, quality, source, way, hidden, tokens)
        print(
            f"{i + 1} / {len(wanted)} | {way} | {hidden:,} | {tokens:,} | {found['above']:.3f} | {found['fit']:.3f} "
            f"| {found['agreement']:.3f} | {found['seconds']:.0f} s",
            flush=True,
        )


def remembering(source: Source, test: distill.Corpus, window: int) -> Point:
    """The language model where it reads only its last tokens, behind the beginning of a text or without it: the better."""
    eos, own, losses = test.manifest.eos_token_id, test.token_log_probs, []
    assert own is not None
    for head in (PROMPT, []):
        rows = [  # what is read, the token after it, and its log p after all that comes before
            ((head if t > window else PROMPT) + text[max(0, t - window) : t], text[t], whole)
            for text, each in zip(test.tokens.tolist(), own.tolist(), strict=True)
            for t, whole in enumerate(each[: text.index(eos) + 1 if eos in text else len(text)])
        ]
        loss = sum(whole for *_, whole in rows)
        for at in range(0, len(rows), 512):
            read, tokens, _ = zip(*rows[at : at + 512], strict=True)
            source.lm.start(list(read))
            loss -= float(source.lm.log_probs()[range(len(tokens)), list(tokens)].sum())
        losses.append(loss / len(rows))
    return {"above": min(losses), "both": losses}


def context(source: Source, points: Points, smoke: bool, first: int | None) -> None:
    """Every window."""
    test = source.test.select(torch.arange(4 if smoke else 250))
    for window in ((1, 4) if smoke else WINDOWS)[:first]:
        found = points.once({"part": "context", "window": window}, remembering, source, test, window)
        print(f"the last {window} tokens: {found['above']:.3f} nats a token above all of them", flush=True)


# ------------------------------------------------------------ what a guide is worth

GUIDES = [
    ("EM", 64, 2**19),
    ("EM", 256, 2**19),
    ("EM", 1024, 2**17),
    ("clones", 1024, 2**19),
    ("trigram", 256, 2**19),
    ("trigram", 1024, 2**19),
    ("clones", 4096, 2**19),
    ("Monarch, EM", 4096, 2**17),
    ("EM", 1024, 2**19),
]


def estimates(source: Source, fa: tt.Automaton, hmm: tt.HMM | None, k: int, seeds: range) -> Point:
    """log Ẑ and CPU seconds of each run with k particles: P-GCD, or GCD without an HMM. The first run makes the tables."""
    found: Point = {"log_z": [], "seconds": []}
    for seed in seeds:
        begin, proposal = time.process_time(), "gcd" if hmm is None else tt.inference.smc.LookaheadProposal()
        run = tt.smc(source.lm, PROMPT, fa, proposal, hmm, k, max_new_tokens=LENGTH, seed=seed)
        found["log_z"].append(run.log_evidence)
        found["seconds"].append(time.process_time() - begin)
    return found


def particles(source: Source, points: Points, smoke: bool, first: int | None) -> None:
    """GCD, and P-GCD with each guide whose HMM is there."""
    vocab = tt.Vocabulary.from_tokenizer(source.model[1])
    sizes, runs, truth = ((1, 4), 2, 16) if smoke else (SIZES, RUNS, TRUTH)
    wanted = [("EM", 16, 512)] if smoke else GUIDES
    guides = [one for one in wanted if (place(source, *one) / "config.json").exists()][:first]
    best = wanted[0] if smoke else TRUE
    for text, regex in list(CONSTRAINTS.items())[: 1 if smoke else None]:
        fa = tt.constraints.regex(regex).compile(vocab, require_eos=False)
        hmm: tt.HMM | None = tt.HMM.from_pretrained(place(source, *best))
        key: Point = {"part": "truth", "constraint": text}
        log_z = log_mean(points.once(key, estimates, source, fa, hmm, truth, range(10_000, 10_004))["log_z"])
        for way, hidden, tokens in [("GCD", 0, 0), *guides]:
            hmm = None if way == "GCD" else tt.HMM.from_pretrained(place(source, way, hidden, tokens))
            shown = []
            for k in (*sizes, *(() if smoke or hmm else (64, 256))):
                key = {"part": "particles", "constraint": text, "way": way, "hidden": hidden}
                key |= {"tokens": tokens, "k": k}
                made = points.once(key, estimates, source, fa, hmm, k, range(runs))
                shown.append(f"{k}: {log_z - statistics.fmean(made['log_z']):.2f}")
            print(f"{text} | {way} {hidden:,} of {tokens:,} | {', '.join(shown)}", flush=True)


def main() -> None:
    """Run the parts; print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", help="nats, context, particles; all if neither they nor --plot are given"
    )
    parser.add_argument("--smoke", action="store_true", help="as little as shows that it works")
    parser.add_argument("--first", type=int, help="only so many points of the grid, windows or guides")
    parser.add_argument("--work", type=Path, help="folder for what is kept; build/benchmarks/guides")
    parser.add_argument("--plot", type=Path, help="a folder for the pictures of all points that are kept")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    disable_progress_bar()
    smoke = arguments.smoke
    work = arguments.work or Path("build/benchmarks") / ("guides-smoke" if smoke else "guides")
    source = Source(work, 512, 20) if smoke else Source(work, 2**19, 1000)
    points = Points(work / "points.jsonl")
    everything = [] if arguments.plot else list(PARTS)
    for part in arguments.parts or everything:
        PARTS[part](source, points, smoke, arguments.first)
    print("\n" + tables(points.lines))
    if arguments.plot is not None:
        draw(points.lines, arguments.plot)


PARTS = {"nats": nats, "context": context, "particles": particles}


if __name__ == "__main__":
    main()
