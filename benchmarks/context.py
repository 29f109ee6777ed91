"""Context: what a guide gains where the language model's hidden state says in which state the HMM is.

    python benchmarks/context.py NAME [DATA] --out FILE [--work FOLDER] [--limit 48]
    python benchmarks/context.py report FILE
    python benchmarks/context.py --smoke

NAME is a task of tractile-bench, whose HMM copies from the prompt where it was made so, or "stories": the embedded model, and
words that its text must contain. A context head (:class:`guides.ContextHead`) of the HMM that ships is trained on
samples of the language model, and a line is appended to FILE, with

    nats        on samples after other prompts, nats a token of the next token, and of the eight tokens after it once it is known:
                what a lookahead depends on. Without context; with the head's distribution at the prompt's end; with it there
                and after every fourth token; with it after every token. Copying states keep their probability
    log_z       the mean of log Ẑ over examples and runs of P-GCD with :data:`PARTICLES` particles: with nothing, with copying,
                with context at the prompt's end and with both, for each strength of the lookahead, and of GCD

Samples are kept in the work folder.
"""

import argparse
import json
import math
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers.utils.logging import disable_progress_bar

import tractile as tt
from tractile import distill
from tractile.constraints import Vocabulary
from tractile.distill.latent import hidden_states
from tractile.embedded import HMM_PATH, load_lm
from tractile.errors import TractileError
from tractile.inference.smc import GCDProposal, LookaheadProposal
from tractile.inference.smc.query_cache import forget
from tractile_bench import TASKS, guides
from tractile_bench.cli import SAMPLE
from tractile_bench.guides import context, copying, prompted
from tractile_bench.models import load_small_lm, small_hmm_path
from tractile_bench.runner import choose
from tractile_bench.stop_at_newline import NewlineStopLM

AHEAD = 8  # tokens after the next one
PERIODS = {"none": 0, "prompt": 10**6, "every 4": 4, "every token": 1}
"""The tokens from one use of the head to the next; 0: never."""
PARTICLES, RUNS, STRENGTHS = 4, 2, (0.4, 1.0)
FILES = {
    "none": (),
    "copying": (copying.FILE,),
    "context": (context.FILE,),
    "both": (context.FILE, copying.FILE),
}
WORDS = ("dog", "park", "cake", "rain")
LONGEST = 600  # tokens of a prompt of the samples


class Source(NamedTuple):
    """A language model, the folder of its HMM, prompts, and examples: prompt, constraint, and budget in tokens."""

    model: Any
    tokenizer: Any
    folder: Path
    length: int  # tokens of a sample
    prompts: Sequence[Sequence[int]]
    examples: Callable[[int], Iterator[tuple[tt.LanguageModel, str | list[int], tt.Automaton, int]]]


def task_source(name: str, data: Path) -> Source:
    """A task with the small language model: samples after training prompts, test examples."""
    task = TASKS[name](data)  # type: ignore[call-arg]
    model, tokenizer = load_small_lm()
    vocab = Vocabulary.from_tokenizer(tokenizer)
    lm = tt.TransformersLM(model, tokenizer)
    asked = [tokenizer(one.prompt).input_ids for one in choose(task, "train", 800, seed=0)]

    def examples(limit: int) -> Iterator[tuple[tt.LanguageModel, str | list[int], tt.Automaton, int]]:
        used = NewlineStopLM(lm, vocab) if task.one_line else lm
        for one in choose(task, "test", limit, seed=0):
            yield used, one.prompt, task.constraint(one).compile(vocab), task.max_new_tokens

    length = min(task.max_new_tokens, 96)
    prompts = [prompt for prompt in asked if len(prompt) <= LONGEST]
    return Source(model, tokenizer, small_hmm_path(name), length, prompts, examples)


def story_source() -> Source:
    """The embedded language model: samples after beginnings of stories, and words to be written."""
    model, tokenizer = load_lm()
    lm = tt.TransformersLM(model, tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        stories = distill.sample(lm, folder, 800, 16, [[1]], seed=1, tokenizer=tokenizer)
    prompts = distill.sample_prefixes(stories, 800, 12)

    def examples(limit: int) -> Iterator[tuple[tt.LanguageModel, str | list[int], tt.Automaton, int]]:
        vocab = Vocabulary.from_tokenizer(tokenizer)
        made = {word: tt.constraints.regex(rf"(.|\n)* {word}(.|\n)*").compile(vocab) for word in WORDS}
        others = distill.sample_prefixes(stories, limit, 12, seed=1)
        for number, prompt in enumerate(others):
            yield lm, prompt, made[WORDS[number % len(WORDS)]], 32

    return Source(model, tokenizer, HMM_PATH, 32, prompts, examples)


def samples(source: Source, work: Path, sequences: int) -> tuple[distill.Corpus, distill.Corpus]:
    """Samples to train on, and samples after other prompts."""
    prompts = list(source.prompts)
    random.Random(0).shuffle(prompts)
    held = max(len(prompts) // 5, 1)
    lm = tt.TransformersLM(source.model, source.tokenizer)

    def drawn(name: str, count: int, some: Sequence[Sequence[int]], seed: int) -> distill.Corpus:
        return distill.sample(
            lm,
            work / name,
            count,
            source.length,
            some,
            seed=seed,
            batch_size=48,
            tokenizer=source.tokenizer,
        )

    return drawn("fit", sequences, prompts[held:] or prompts, 0), drawn(
        "held", max(sequences // 8, 2), prompts[:held], 1
    )


def with_head(source: Source, fit: distill.Corpus, work: Path, epochs: int) -> Path:
    """A folder with the HMM, its copying if it has any, and a context head for it."""
    folder = work / "hmm"
    shutil.copytree(source.folder, folder, dirs_exist_ok=True)
    hmm = tt.HMM.from_pretrained(folder)
    head = guides.ContextHead.fit(
        hmm, source.model, source.tokenizer, fit, epochs=epochs, batch_size=16, rate=1e-2
    )
    head.save_pretrained(folder)
    return folder


def beliefs(
    hmm: tt.HMM, tokens: Int[Tensor, " length"], said: Float[Tensor, "length own"], period: int
) -> Float[Tensor, "length hidden"]:
    """p(z_t | prompt, x_<t) for each t; after every ``period`` tokens the head says how it is shared among the HMM's own states.

    Own states are the last ones; states that copy come before them.
    """
    move, emission = hmm.transition.dense().float(), hmm.emission_probs.float()
    belief, found, own = hmm.initial_probs.float(), [], said.shape[1]
    for t, token in enumerate(tokens.tolist()):
        if period and t % period == 0:
            belief = torch.cat([belief[:-own], belief[-own:].sum() * said[t]])
        found.append(belief)
        seen = belief * emission[:, token]
        belief = seen / seen.sum().clamp(min=1e-30) @ move
    return torch.stack(found)


def nats(
    hmm: tt.HMM, tokens: Int[Tensor, " length"], belief: Float[Tensor, "length hidden"]
) -> tuple[Float[Tensor, " length"], float, int]:
    """−log p of each token by the belief before it, and of the tokens after it once it is known: their sum and number."""
    move, emission, length = hmm.transition.dense().float(), hmm.emission_probs.float(), len(tokens)
    seen = belief * emission[:, tokens].T
    mass = seen.sum(1, keepdim=True).clamp(min=1e-30)
    ahead, total, count = seen / mass @ move, 0.0, 0
    for k in range(1, min(AHEAD, length - 1) + 1):
        ahead = ahead[: length - k]
        following = ahead * emission[:, tokens[k:]].T
        p = following.sum(1, keepdim=True).clamp(min=1e-30)
        total, count, ahead = total - float(p.log().sum()), count + len(p), following / p @ move
    return -mass[:, 0].log(), total, count


def measured(source: Source, folder: Path, held: distill.Corpus) -> dict[str, dict[str, list[float]]]:
    """Nats of the next token and of those after it, by copying or not and by period."""
    head = guides.ContextHead.from_pretrained(folder)
    states = hidden_states(source.model, source.tokenizer, held, batch_size=16, shift=1).float()
    plain = tt.HMM.from_pretrained(folder)
    with_prompt = guides.Copying.from_pretrained(folder) if guides.Copying.is_in(folder) else None
    eos, out = held.manifest.eos_token_id, {}
    for name in ("without copying", "copying") if with_prompt else ("without copying",):
        next_, ahead = dict.fromkeys(PERIODS, 0.0), dict.fromkeys(PERIODS, 0.0)
        tokens_seen = after = 0
        for row, prompt in enumerate(held.prompt.tolist()):
            tokens = held.tokens[row].long()
            tokens = tokens[: int((tokens != eos).sum()) + 1]  # with its end
            hmm = plain
            if name == "copying" and with_prompt is not None:
                hmm = with_prompt.read(held.manifest.prompts[prompt], source.tokenizer)
            said = head(states[row, : len(tokens)])
            for period, size in PERIODS.items():
                one, total, count = nats(hmm, tokens, beliefs(hmm, tokens, said, size))
                next_[period] += float(one.sum())
                ahead[period] += total
            tokens_seen, after = tokens_seen + len(tokens), after + count
        out[name] = {
            period: [round(next_[period] / tokens_seen, 3), round(ahead[period] / max(after, 1), 3)]
            for period in PERIODS
        }
    return out


def evidence(source: Source, folder: Path, limit: int) -> dict[str, dict[str, list[float]]]:
    """log Ẑ of each example, by what the HMM is told of the prompt and by strength; "gcd" without an HMM."""
    hmm, model = tt.HMM.from_pretrained(folder), tt.TransformersLM(source.model, source.tokenizer)
    there = {name: files for name, files in FILES.items() if all((folder / file).exists() for file in files)}
    found: dict[str, dict[str, list[float]]] = {name: {str(s): [] for s in STRENGTHS} for name in there}
    found["gcd"] = {"0": []}
    for number, (lm, prompt, fa, budget) in enumerate(source.examples(limit)):
        runs: dict[tuple[str, str], float] = {}
        try:
            for name, files in (*there.items(), ("gcd", ())):
                strengths = STRENGTHS if name != "gcd" else (0,)
                for s in strengths:
                    posts = tt.smc(
                        lm,
                        prompts=[prompt] * RUNS,
                        fa=fa,
                        proposal=LookaheadProposal(s) if s else GCDProposal(),
                        hmm=prompted(hmm, folder, model, prompt, files)
                        if files
                        else None
                        if name == "gcd"
                        else hmm,
                        max_new_tokens=budget,
                        particles=PARTICLES,
                        seed=1000 * number,
                    )
                    runs[name, str(s)] = statistics.fmean(post.log_evidence for post in posts)
        except TractileError:
            continue  # a constraint of this example cannot be had
        finally:
            forget(fa)
        if any(value == -math.inf for value in runs.values()):
            continue
        for (name, strength), value in runs.items():
            found[name][strength].append(round(value, 3))
    return found


def run(arguments: argparse.Namespace) -> None:
    """Append the line of a task."""
    begun = time.process_time()
    source = story_source() if arguments.name == "stories" else task_source(arguments.name, arguments.data)
    work = arguments.work / arguments.name
    fit, held = samples(source, work, arguments.sequences)
    folder = with_head(source, fit, work, arguments.epochs)
    with torch.no_grad():
        line = {"name": arguments.name, "tokens": fit.num_tokens, "nats": measured(source, folder, held)}
    line["log_z"] = evidence(source, folder, arguments.limit)
    line["seconds"] = round(time.process_time() - begun)
    with arguments.out.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(json.dumps(line), flush=True)


def report(arguments: argparse.Namespace) -> None:
    """Print both tables."""
    lines = [json.loads(line) for line in arguments.file.read_text().splitlines()]
    print(
        "| nats a token: next, then eight more |",
        " | ".join(PERIODS),
        "|\n| --- ",
        "| --- " * len(PERIODS),
        "|",
    )
    for line in lines:
        for name, row in line["nats"].items():
            cells = (f"{row[period][0]:.2f}, {row[period][1]:.3f}" for period in PERIODS)
            print(f"| {line['name']}, {name} |", " | ".join(cells), "|")
    names = [(name, str(s)) for name in FILES for s in STRENGTHS]
    print("\n| log Ẑ | examples | GCD |", " | ".join(f"{n}, {s}" for n, s in names), "|")
    print("| --- " * (len(names) + 3) + "|")
    for line in lines:
        means = {
            (name, s): f"{statistics.fmean(values):.2f}"
            for name, row in line["log_z"].items()
            for s, values in row.items()
            if values
        }
        count = len(line["log_z"]["gcd"]["0"])
        cells = (means.get(key, "–") for key in [("gcd", "0"), *names])
        print(f"| {line['name']} | {count} |", " | ".join(cells).replace("-", "−"), "|")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=[*(n for n in TASKS if n != "data-science"), "stories", "report"])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/context.jsonl"))
    parser.add_argument("--work", type=Path, default=Path("build/benchmarks/context"))
    parser.add_argument("--limit", type=int, default=48, help="examples of log Ẑ")
    parser.add_argument("--sequences", type=int, default=1200, help="samples that the head is trained on")
    parser.add_argument("--epochs", type=int, default=3)
    disable_progress_bar()
    torch.set_num_threads(1)
    if sys.argv[1:] == ["--smoke"]:
        with tempfile.TemporaryDirectory() as place:
            few = [
                "--out",
                f"{place}/out",
                "--work",
                place,
                "--limit",
                "2",
                "--sequences",
                "16",
                "--epochs",
                "1",
            ]
            run(parser.parse_args(["commongen", str(SAMPLE / "commongen"), *few]))
            run(parser.parse_args(["stories", *few]))
            report(argparse.Namespace(file=Path(place, "out")))
    else:
        given = parser.parse_args()
        given.file = given.data
        (report if given.name == "report" else run)(given)
