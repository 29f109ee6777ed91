"""JSON Schema: how many schemas compile, whether they accept what is valid and reject what is not, and what it costs.

A schema *passes* if it compiles, every valid instance is accepted and every invalid one rejected. Instances are texts as
``json.dumps(ensure_ascii=False)`` writes them; ``format`` is asserted. Texts are read at the level of bytes
(``Constraint.accepts``), so that no tokenizer plays a part. Times are CPU time until the first byte may be read, without masks:
``benchmarks/masks.py`` has those, and the verdicts of other engines on the same sample.

The schemas are those of JSONSchemaBench if there is a sample of it beside the repository (``TRACTILE_SHARED``, else
``../shared``), otherwise, and with ``--smoke``, the few of ``samples.py``.

    python tests/conformance/schemas.py [--smoke] [--every N] [--first N]
"""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from samples import SMOKE, rows

import tractile as tt

SECONDS = 10  # CPU time for a schema
Accepts = Callable[[str], bool]


class TooSlow(Exception):
    """A schema took longer than it may."""


def _alarm(*_: object) -> None:
    raise TooSlow(f"more than {SECONDS} s")


def compiled(schema: Any) -> Accepts:
    """What tells whether a text is accepted, ready to be asked."""
    constraint = tt.constraints.json_schema(schema)
    constraint.accepts("")  # reads the first configuration
    return constraint.accepts


@dataclass
class Result:
    """What became of the schemas of a family."""

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


def run(rows: list[dict[str, Any]]) -> dict[str, Result]:
    """Every schema, by family and in all."""
    results: dict[str, Result] = defaultdict(Result)
    for row in rows:
        both = results[row["family"]], results["all"]
        for result in both:
            result.schemas += 1
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        begin = time.process_time()
        try:
            accepts = compiled(row["schema"])
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


HEAD = """| family | schemas | compiled % | passing % | valid rejected | invalid accepted | compile p50 / p95, ms |
| --- | --- | --- | --- | --- | --- | --- |"""


def arguments_and_rows(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, list[dict[str, Any]]]:
    """The command line, and the schemas that it asks for; from now on a timer may raise ``TooSlow``."""
    parser.add_argument("--smoke", action="store_true", help="the few schemas of samples.py")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th schema of the sample")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="beginning with this one")
    arguments = parser.parse_args()
    signal.signal(signal.SIGVTALRM, _alarm)
    return arguments, SMOKE if arguments.smoke else rows(arguments.first, arguments.every)


def table(chosen: list[dict[str, Any]]) -> str:
    """A line for each family and one for all; what was refused."""
    results = run(chosen)
    families = sorted(results.items(), key=lambda item: item[0] == "all")
    refused = ", ".join(f"{why} {n}" for why, n in results["all"].refused.most_common())
    lines = [HEAD, *(result.line(name) for name, result in families)]
    return "\n".join([*lines, f"\nrefused: {refused or 'none'}"])


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _, chosen = arguments_and_rows(parser)
    print(table(chosen))


if __name__ == "__main__":
    main()
