"""Figures of speed, each a ratio to a floor or to a loop written by hand in the same run, and their history.

Both sides of a ratio run in interleaved rounds on one core; a figure is the median of the ratios of CPU times. So it says the
same on a faster machine, and nearly the same on a busy one. Floors:

    python     20,000 entries put into a dict: for what Tractile does in Python
    copy       the words of a mask copied: for masks
    torch      the loop or the matrix product that one would write for the question alone

    python benchmarks/regression.py              the figures beside those recorded last
    python benchmarks/regression.py --smoke      the work of ours, without a clock; exits with 1 where it is over the limit
    python benchmarks/regression.py --record     both into benchmarks/regression.json

Work is counted: the functions called, of Python and of C, and the elements of the tensors that operations return. For imports it
is the modules. So a busy machine changes nothing.
"""

import argparse
import cProfile
import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peers.circuits import Problem, plain_em, plain_forward, plain_partition
from peers.masks import TASKS
from smc import PROMPT, forward_only
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import tractile as tt
from circuits import race
from decoding import phrases, random_hmm, rescored, warmed
from tractile import constraints, distill

HISTORY = Path(__file__).with_suffix(".json")
LIMIT = 1.5
"""Times the work recorded last. Versions of Python and torch differ by up to a fifth."""
IMPORTS = "import tractile", "import torch, transformers"
Sides = tuple[Callable[[], Any], Callable[[], Any]]
Work = tuple[int, int]


def python() -> None:
    """Work for the interpreter."""
    found: dict[int, int] = {}
    for i in range(20_000):
        found[i * 7 % 5_003] = found.get(i, 0) + 1


@cache
def language_model() -> tuple[tt.TransformersLM, tt.Vocabulary]:
    """The embedded model and its vocabulary."""
    model, tokenizer = tt.embedded.load_lm()
    return tt.TransformersLM(model, tokenizer), tt.Vocabulary.from_tokenizer(tokenizer)


def schema(name: str) -> tuple[Any, str]:
    """A schema of benchmarks/masks.py, and an instance."""
    return next((given, json.dumps(instance)) for task, given, instance in TASKS if task == name)


def compiled(make: Callable[[], tt.constraints.Constraint]) -> Sides:
    """A constraint made, compiled, and its first mask."""
    vocab = language_model()[1]
    vocab.trie  # noqa: B018
    return lambda: tt.gcd(make().compile(vocab), 200).start().bitmask(), python


def walked(make: Callable[[], tt.constraints.Constraint], text: str) -> Sides:
    """Masks along a text, all met before."""
    lm, vocab = language_model()
    query = tt.gcd(make().compile(vocab), 256)
    tokens = lm.tokenizer.encode(text, add_special_tokens=False)
    out = torch.empty(1, -(-len(vocab) // 32), dtype=torch.int32)
    words = np.zeros(out.shape[1], np.int32)
    line, source = words.data, words.copy().data

    def walk() -> None:
        query.start()
        for token in tokens:
            query.bitmask(out=out)
            query.advance([token])

    def copy() -> None:
        for _ in tokens:
            line[:] = source

    walk()
    return walk, copy


def guided(batch: int) -> Sides:
    """A step of P-GCD beside the matrix product over the vocabulary that each step needs."""
    automaton, hmm = phrases(4096), random_hmm(256, 4096)
    query = warmed(tt.pgcd(hmm, automaton, 32), automaton, batch)
    x = torch.rand(batch, 256)
    return lambda: rescored(query), lambda: (x @ hmm.emission_probs).softmax(1)


def sampled() -> Sides:
    """GCD with 8 particles beside the model alone on as many rows."""
    lm, vocab = language_model()
    automaton = constraints.regex("[a-z ]{30,40}").compile(vocab)
    return (
        lambda: tt.smc(lm, PROMPT, automaton, "gcd", None, 8, 20, 0),
        lambda: forward_only(lm, [1] + [8] * 19),
    )


def figures() -> dict[str, Callable[[], Sides]]:
    """Both sides of each ratio by name."""
    problem, wide = Problem.random(128, 500, 32, 32), Problem.random(64, 2000, 24, 16)
    a, b = Problem.random(32, 300, 1, 1), Problem.random(24, 300, 1, 1)
    both, hmm, wide_hmm = a.hmm * b.hmm, problem.hmm, wide.hmm
    words = [["house", "houses"], ["garden"], ["river", "rivers"]]
    regex = "([0-9]{4}-[0-9]{2}-[0-9]{2}|[a-z]+@[a-z]+\\.com)( .{0,40})?"
    grammar = 'start: "[" (start ("," start)*)? "]" | /[a-z]+/ | NUMBER\nNUMBER: /[0-9]+/\n'
    rows = distill.sharding.ShardedHMM.of(hmm)
    json_schema = constraints.json_schema
    found: dict[str, Callable[[], Sides]] = {
        "HMM: forward / torch": lambda: (
            lambda: tt.log_marginal(hmm, problem.tokens),
            lambda: plain_forward(*problem.parameters, problem.tokens),
        ),
        "HMM: EM / torch": lambda: (
            lambda: tt.inference.em_step(hmm, problem.tokens),
            lambda: plain_em(*problem.parameters, problem.tokens),
        ),
        "HMM: EM of distillation / torch": lambda: (
            lambda: distill.em.em_step(rows, problem.tokens, 1.0, 1e-3, 32, None),
            lambda: plain_em(*problem.parameters, problem.tokens),
        ),
        "HMM: forward, wide / torch": lambda: (
            lambda: tt.log_marginal(wide_hmm, wide.tokens),
            lambda: plain_forward(*wide.parameters, wide.tokens),
        ),
        "product: partition / torch": lambda: (
            lambda: tt.partition(both, n=20),
            lambda: plain_partition(a, b, 20),
        ),
        "P-GCD: a step of 1 / torch": lambda: guided(1),
        "P-GCD: a step of 16 / torch": lambda: guided(16),
        "sampler: GCD / model": sampled,
        "masks: regex / copy": lambda: walked(lambda: constraints.regex(regex), "2026-11-23 and some text"),
        "masks: grammar / copy": lambda: walked(lambda: constraints.grammar(grammar), "[one,[2,three],4]"),
        "compile: regex / python": lambda: compiled(lambda: constraints.regex(regex)),
        "compile: grammar / python": lambda: compiled(lambda: constraints.grammar(grammar)),
        "compile: keywords / python": lambda: compiled(lambda: constraints.keywords(words)),
        "vocabulary: trie / python": lambda: (
            lambda: tt.Vocabulary(language_model()[1].token_bytes, language_model()[1].eos_token_id).trie,
            python,
        ),
    }
    for name, *_ in TASKS[:3]:
        given, text = schema(name)
        found[f"compile: {name} / python"] = lambda given=given: compiled(lambda: json_schema(given))  # type: ignore[misc]
        found[f"masks: {name} / copy"] = lambda given=given, text=text: walked(
            lambda: json_schema(given), text
        )  # type: ignore[misc]
    return found


def measured(sides: Sides, rounds: int) -> float:
    """The median ratio of CPU times."""
    for side in sides:
        side()
    return statistics.median(
        race(dict(zip(("first", "second"), sides, strict=True)), rounds, 30)["second"].ratio
    )


def import_ratio(rounds: int) -> float:
    """The CPU time of importing Tractile over that of torch and transformers, in processes of their own."""

    def spent(program: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", program], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return statistics.median(spent(IMPORTS[0]) / spent(IMPORTS[1]) for _ in range(rounds))


class Elements(TorchDispatchMode):
    """Counts the elements of the tensors that torch's operations return."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count."""
        found = func(*args, **(kwargs or {}))
        self.count += sum(one.numel() for one in tree_leaves(found) if isinstance(one, torch.Tensor))
        return found


def work(side: Callable[[], Any]) -> Work:
    """The functions called and the elements returned, the second time."""
    side()
    with Elements() as elements:
        side()
    profile = cProfile.Profile()
    profile.runcall(side)
    return sum(entry.callcount for entry in profile.getstats()), elements.count


def imported() -> Work:
    """The modules that `import tractile` brings, in a process of its own."""
    program = f"import sys\n{IMPORTS[0]}\nprint(len(sys.modules))"
    return int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout), 0


def machine() -> str:
    """The class of this machine: figures are compared within it."""
    return f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__.split('.')[0]}"


def check(last: dict[str, list[int]]) -> tuple[dict[str, Work], list[str]]:
    """The work of each figure, printed beside the last, and the names of those over the limit."""
    wanted: dict[str, Callable[[], Work]] = {"import / torch, transformers": imported}
    wanted |= {name: lambda make=make: work(make()[0]) for name, make in figures().items()}  # type: ignore[misc]
    now, over = dict[str, Work](), list[str]()
    print("| work | calls | elements | last |\n| --- | --- | --- | --- |")
    for name, count in wanted.items():
        now[name] = count()
        if any(new > LIMIT * old for new, old in zip(now[name], last.get(name, ()), strict=False)):
            over.append(name)
        calls, elements = now[name]
        limit = " **over the limit**" * (name in over)
        print(f"| {name} | {calls:,} | {elements:,} | {last.get(name, '–')}{limit} |", flush=True)
    return now, over


def measure(last: dict[str, float], rounds: int) -> dict[str, float]:
    """The ratio of each figure, printed beside the last."""
    wanted: dict[str, Callable[[], float]] = {"import / torch, transformers": lambda: import_ratio(3)}
    wanted |= {name: lambda make=make: measured(make(), rounds) for name, make in figures().items()}  # type: ignore[misc]
    now = dict[str, float]()
    print("| figure | ratio | last |\n| --- | --- | --- |")
    for name, ratio in wanted.items():
        now[name] = float(f"{ratio():.3g}")
        print(f"| {name} | {now[name]:g} | {last.get(name, '–')} |", flush=True)
    return now


def main() -> None:
    """Count or measure, compare, record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--smoke", action="store_true", help="count the work alone; exit with 1 over the limit"
    )
    parser.add_argument("--record", action="store_true", help="write the figures and the work")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    records = json.loads(HISTORY.read_text()) if HISTORY.exists() else []
    counted = next((one["work"] for one in reversed(records) if "work" in one), {})
    if arguments.smoke:
        _, over = check(counted)
        if over:
            sys.exit(f"over {LIMIT:g} times the work that was recorded last: {', '.join(over)}")
        return
    last = next((one["figures"] for one in reversed(records) if one["machine"] == machine()), {})
    found = measure(last, 21)
    if arguments.record:
        record = {"date": datetime.date.today().isoformat(), "machine": machine(), "figures": found}
        records.append(record | {"work": check(counted)[0]})
        HISTORY.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
