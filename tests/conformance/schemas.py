"""JSON Schema: how many schemas compile, whether they accept what is valid and reject what is not, and what it costs.

A schema *passes* if it compiles, every valid instance is accepted and every invalid one rejected. Instances are texts as
``json.dumps(ensure_ascii=False)`` writes them; ``format`` is asserted. Tractile is asked at the level of bytes
(``Constraint.accepts``), the others through a vocabulary of 256 bytes, so that no tokenizer plays a part. Times are CPU
time until the first byte may be read, without masks (``benchmarks/masks.py`` has those).

The schemas are those of JSONSchemaBench if there is a sample of it beside the repository (``TRACTILE_SHARED``, else
``../shared``), otherwise, and with ``--smoke``, the few of ``samples.py``.

    python tests/conformance/schemas.py [--smoke] [--every N] [--first N] [--peers]
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from samples import SMOKE, rows

import tractile as tt

SECONDS = 10  # CPU time that an engine may take for a schema
Accepts = Callable[[str], bool]


class TooSlow(Exception):
    """An engine took longer than it may."""


def _alarm(*_: object) -> None:
    raise TooSlow(f"more than {SECONDS} s")


def tractile(schema: Any) -> Accepts:
    """Tractile."""
    constraint = tt.constraints.json_schema(schema)
    constraint.accepts("")  # reads the first configuration
    return constraint.accepts


def xgrammar() -> Callable[[Any], Accepts]:
    """xgrammar, its defaults."""
    import xgrammar as xgr

    tokens = [bytes([b]) for b in range(256)] + [b"</s>"]
    compiler = xgr.GrammarCompiler(xgr.TokenizerInfo(tokens, stop_token_ids=[256]), max_threads=1)

    def compile_schema(schema: Any) -> Accepts:
        grammar = compiler.compile_json_schema(json.dumps(schema))

        def accepts(text: str) -> bool:
            matcher = xgr.GrammarMatcher(grammar)
            return all(matcher.accept_token(b) for b in text.encode()) and matcher.accept_token(256)

        return accepts

    return compile_schema


def llguidance() -> Callable[[Any], Accepts]:
    """llguidance, its defaults."""
    import llguidance as llg

    class Bytes:
        tokens = [bytes([b]) for b in range(256)] + [b"</s>"]
        special_token_ids = [256]  # noqa: RUF012
        eos_token_id, bos_token_id = 256, None

        def __call__(self, text: str) -> list[int]:
            return list(text.encode())

    tokenizer = llg.LLTokenizer(llg.TokenizerWrapper(Bytes()))

    def compile_schema(schema: Any) -> Accepts:
        grammar = llg.LLMatcher.grammar_from_json_schema(json.dumps(schema))
        first = llg.LLMatcher(tokenizer, grammar, log_level=0)
        if first.is_error():
            raise ValueError(first.get_error())

        def accepts(text: str) -> bool:
            matcher = llg.LLMatcher(tokenizer, grammar, log_level=0)
            return all(matcher.consume_token(b) for b in text.encode()) and bool(matcher.is_accepting())

        return accepts

    return compile_schema


def outlines() -> Callable[[Any], Accepts]:
    """outlines-core: the regular expression that it makes of a schema, matched by Python."""
    import outlines_core

    def compile_schema(schema: Any) -> Accepts:
        pattern = re.compile(outlines_core.json_schema.build_regex_from_schema(json.dumps(schema)))
        return lambda text: pattern.fullmatch(text) is not None

    return compile_schema


PEERS: dict[str, Callable[[], Callable[[Any], Accepts]]] = {
    "xgrammar": xgrammar,
    "llguidance": llguidance,
    "outlines-core": outlines,
}


@dataclass
class Result:
    """What an engine did with the schemas of a family."""

    schemas: int = 0
    passing: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    def line(self, name: str) -> str:
        """A row of the table."""
        n, c = max(1, self.schemas), self.counts
        times = sorted(self.times) or [float("nan")]
        p50, p95 = (1e3 * times[min(len(times) - 1, int(q * len(times)))] for q in (0.5, 0.95))
        return (
            f"| {name} | {self.schemas} | {100 * len(self.times) / n:.1f} | {100 * self.passing / n:.1f} "
            f"| {c['valid rejected']} / {c['valid']} | {c['invalid accepted']} / {c['invalid']} | {p50:.1f} / {p95:.0f} |"
        )


def reason(error: Exception) -> str:
    """Why a schema was refused: the error and the keyword."""
    keyword = (getattr(error, "path", None) or "").rpartition("/")[2]
    return f"{type(error).__name__} {keyword}".strip()


def run(compile_schema: Callable[[Any], Accepts], rows: list[dict[str, Any]]) -> dict[str, Result]:
    """Every schema, by family and in all."""
    results: dict[str, Result] = defaultdict(Result)
    for row in rows:
        both = results[row["family"]], results["all"]
        for result in both:
            result.schemas += 1
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        begin = time.process_time()
        try:
            accepts = compile_schema(row["schema"])
            took = time.process_time() - begin
            answers = [accepts(json.dumps(t["data"], ensure_ascii=False)) for t in row["tests"]]
        except Exception as error:
            for result in both:
                result.refused[reason(error)] += 1
            continue
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        wrong = Counter[str]()
        for test, answer in zip(row["tests"], answers, strict=True):
            wrong["valid" if test["valid"] else "invalid"] += 1
            if answer != test["valid"]:
                wrong["valid rejected" if test["valid"] else "invalid accepted"] += 1
        for result in both:
            result.times.append(took)
            result.counts += wrong
            result.passing += not (wrong["valid rejected"] + wrong["invalid accepted"])
    return results


HEAD = """| {} | schemas | compiled % | passing % | valid rejected | invalid accepted | compile p50 / p95, ms |
| --- | --- | --- | --- | --- | --- | --- |"""


def arguments_and_rows(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, list[dict[str, Any]]]:
    """The command line, and the schemas that it asks for; from now on a timer may raise ``TooSlow``."""
    parser.add_argument("--smoke", action="store_true", help="the few schemas of samples.py")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th schema of the sample")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="beginning with this one")
    arguments = parser.parse_args()
    signal.signal(signal.SIGVTALRM, _alarm)
    return arguments, SMOKE if arguments.smoke else rows(arguments.first, arguments.every)


def tables(chosen: list[dict[str, Any]], peers: bool) -> str:
    """Tractile by family; and beside the other engines."""
    ours = run(tractile, chosen)
    families = sorted(ours.items(), key=lambda item: item[0] == "all")
    lines = [HEAD.format("family"), *(result.line(name) for name, result in families)]
    refused = ", ".join(f"{why} {n}" for why, n in ours["all"].refused.most_common())
    lines.append(f"\nrefused: {refused or 'none'}")
    if peers:
        lines += ["\n" + HEAD.format("engine"), ours["all"].line("tractile")]
        for name, make in PEERS.items():
            try:
                engine = make()
            except ImportError:
                print(f"{name}: not installed, left out", file=sys.stderr)
                continue
            lines.append(run(engine, chosen)["all"].line(name))
    return "\n".join(lines)


def main() -> None:
    """Run and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--peers", action="store_true", help="other engines too, as far as they are installed"
    )
    arguments, chosen = arguments_and_rows(parser)
    print(tables(chosen, arguments.peers))


if __name__ == "__main__":
    main()
