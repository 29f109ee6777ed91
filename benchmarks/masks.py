"""Mask engines on JSONSchemaBench: what they compile, what they accept, and how long that takes; V = 131,072.

The engines of ``peers/masks.py`` take every schema in turn, in the order of a hash, so that any first part is a fair sample. An
engine compiles it, then goes through the tokens of each of its instances, written by ``json.dumps`` on one line: fill the
mask, look up the token's bit, advance. An instance is accepted if all its bits are set, and that of EOS at its end.

    passing   compiled, all valid instances accepted, no invalid one
    first     compile + the first mask, ms: median and 95th percentile over the schemas that the engine compiles
    token     mask + advance, µs: median, 99th and 99.9th percentile and mean over all tokens of all instances
    ratio     Tractile's median over the engine's; below 1, Tractile is faster

Times are CPU times on one thread. Each engine has a process of its own, which is started again where a schema and its
instances take more than 6 s of it, or all memory: such a schema counts as not compiled. Tractile's masks know of a budget of
16,384 tokens: a harder question than that of the others, whose masks are local (LCD). Without the
sample beside the repository (``TRACTILE_SHARED``, else ``../shared``) and with ``--smoke`` the schemas are the three of
``peers/masks.py``, an instance each. The extra ``peers`` installs the engines.

    python benchmarks/masks.py [--smoke] [--size N] [--minutes M] [--engines NAME …] [--records FILE.jsonl]
"""

import argparse
import gc
import gzip
import hashlib
import importlib.metadata
import json
import resource
import statistics
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peers.masks import ENGINES, TASKS, Engine, Walker
from samples import SAMPLE, Tokens, tekken

LIMIT_S = 6  # CPU seconds for a schema and its instances
MEMORY = 10 << 30  # bytes of address space
Instance = tuple[Any, bool]  # (data, whether it is valid)


@dataclass
class Outcome:
    """What an engine made of a schema: ``status`` is "ok" or what went wrong."""

    status: str
    first_ms: float = 0.0
    token_us: list[float] = field(default_factory=list)
    accepted: list[bool] = field(default_factory=list)  # of each instance


def rows(size: int, written: bool) -> list[tuple[str, dict[str, Any], list[Instance]]]:
    """(name, schema, instances): the first in the order of a hash; or those that are written."""
    if written or not SAMPLE.exists():
        return [(name, schema, [(data, True)]) for name, schema, data in TASKS[:size]]
    with gzip.open(SAMPLE, "rt", encoding="utf-8") as file:
        found = [row for line in file if (row := json.loads(line))["tests"]]
    found.sort(key=lambda row: hashlib.sha256(row["id"].encode()).digest())
    return [(r["id"], r["schema"], [(t["data"], t["valid"]) for t in r["tests"]]) for r in found[:size]]


def allowed(mask: np.ndarray, token: int) -> bool:
    """The token's bit."""
    return bool((int(mask[token >> 5]) >> (token & 31)) & 1)


def walk(walker: Walker, ids: list[int], eos: int, times: list[float]) -> bool:
    """Whether the engine accepts a text; the CPU time of each token is added, in µs."""
    for token in ids:
        begin = time.process_time_ns()
        mask = walker.mask()
        ok = allowed(mask, token)
        if ok:
            walker.advance(token)
        times.append((time.process_time_ns() - begin) / 1e3)
        if not ok:
            return False
    return allowed(walker.mask(), eos)


def try_schema(engine: Engine, tokens: Tokens, schema: dict[str, Any], instances: list[Instance]) -> Outcome:
    """Compile a schema and go through its instances."""
    gc.collect()
    try:
        begin = time.process_time_ns()
        walker = engine.compile(schema)
        walker.mask()
        out = Outcome("ok", (time.process_time_ns() - begin) / 1e6)
    except Exception as error:
        return Outcome(type(error).__name__)
    for data, _ in instances:
        walker.restart()
        ids = tokens.encode(json.dumps(data, ensure_ascii=not printable(data)))
        try:
            out.accepted.append(walk(walker, ids, tokens.eos, out.token_us))
        except Exception:  # an engine may refuse to go on
            out.accepted.append(False)
    return out


def printable(data: Any) -> bool:
    """Whether it can be written as UTF-8 without escapes."""
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def serve(connection: Connection, name: str) -> None:
    """One engine's process: schemas come in, outcomes go out."""
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    tokens = tekken()
    engine = ENGINES[name][1](tokens)
    gc.collect()
    gc.freeze()
    connection.send(None)
    with suppress(EOFError):  # no more schemas
        while True:
            connection.send(try_schema(engine, tokens, *connection.recv()))


class Process:
    """An engine in a process of its own, started again when it ends."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.start()

    def start(self) -> None:
        """A new process."""
        context = get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, self.name), daemon=True)
        self.process.start()
        other.close()
        self.connection.recv()

    def run(self, schema: dict[str, Any], instances: list[Instance]) -> Outcome:
        """What the engine makes of a schema."""
        try:
            self.connection.send((schema, instances))
            end = self.cpu_s() + LIMIT_S
            while not self.connection.poll(0.1):
                if self.cpu_s() > end:
                    raise TimeoutError
            return self.connection.recv()
        except (EOFError, OSError):
            self.process.kill()
            self.process.join()
            self.start()
            return Outcome("lost")

    def cpu_s(self) -> float:
        """The CPU time of the process: on Linux the clock of another process has a number made of the process's."""
        return time.clock_gettime(~self.process.pid << 3 | 2)


def table(
    names: list[str],
    outcomes: dict[str, list[Outcome]],
    instances: list[list[Instance]],
    versions: dict[str, str],
) -> str:
    """The Markdown table over some schemas."""
    lines = [
        "| engine | compiled | passing | valid rejected | invalid accepted | first p50 / p95, ms "
        "| token p50 / p99 / p99.9 / mean, µs | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    ours = 0.0
    for name in names:
        done = [(o, i) for o, i in zip(outcomes[name], instances, strict=True) if o.status == "ok"]
        verdicts = [[(valid, yes) for (_, valid), yes in zip(i, o.accepted, strict=True)] for o, i in done]
        every = [v for some in verdicts for v in some]
        valid, invalid = [yes for v, yes in every if v], [yes for v, yes in every if not v]
        passing = sum(all(v == yes for v, yes in some) for some in verdicts)
        first = [o.first_ms for o, _ in done] or [float("nan")]
        token = [us for o, _ in done for us in o.token_us] or [float("nan")]
        median, total = statistics.median(token), len(instances)
        ours = ours or median
        lines.append(
            f"| {name} {versions[name]} | {len(done) / total:.1%} | {passing / total:.1%} "
            f"| {len(valid) - sum(valid)} of {len(valid)} | {sum(invalid)} of {len(invalid)} "
            f"| {statistics.median(first):.1f} / {float(np.quantile(first, 0.95)):.1f} "
            f"| {median:.1f} / {' / '.join(f'{q:.0f}' for q in np.quantile(token, [0.99, 0.999]))} / {np.mean(token):.1f} "
            f"| {ours / median:.2f} |"
        )
    return "\n".join(lines)


def main(given: list[str] | None = None) -> None:
    """Run every installed engine and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="two schemas, on Tractile alone")
    parser.add_argument("--size", type=int, default=333, help="the number of schemas")
    parser.add_argument("--minutes", type=float, default=0.0, help="no new schema after that time (0: all)")
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument(
        "--records", type=Path, help="JSON lines of what was measured: schema, engine, outcome"
    )
    arguments = parser.parse_args(given)
    engines = arguments.engines[:1] if arguments.smoke else arguments.engines
    versions: dict[str, str] = {}
    for name in engines:
        try:
            versions[name] = importlib.metadata.version(ENGINES[name][0])
        except importlib.metadata.PackageNotFoundError:
            print(f"{name}: not installed, left out", file=sys.stderr)
    names, begin = list(versions), time.monotonic()
    processes = {name: Process(name) for name in names}
    outcomes: dict[str, list[Outcome]] = {name: [] for name in names}
    instances: list[list[Instance]] = []
    records = arguments.records.open("w") if arguments.records else None
    for identity, schema, tests in rows(2 if arguments.smoke else arguments.size, arguments.smoke):
        if arguments.minutes and time.monotonic() - begin > 60 * arguments.minutes:
            break
        instances.append(tests)
        for name in names:
            outcomes[name].append(processes[name].run(schema, tests))
            if records:
                print(
                    json.dumps({"schema": identity, "engine": name, **asdict(outcomes[name][-1])}),
                    file=records,
                    flush=True,
                )
    print(f"{len(instances)} schemas, {sum(map(len, instances))} instances, V = 131,072, one thread.\n")
    print(table(names, outcomes, instances, versions))
    common = [i for i in range(len(instances)) if all(outcomes[n][i].status == "ok" for n in names)]
    print(f"\nThe {len(common)} that all of them compile:\n")
    some = {name: [outcomes[name][i] for i in common] for name in names}
    print(table(names, some, [instances[i] for i in common], versions))


if __name__ == "__main__":
    main()
