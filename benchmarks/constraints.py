"""Constraints people really write, all of it in one run: how much is covered, whether it is right, what it costs.

    schemas   JSONSchemaBench: compiled, valid accepted, invalid rejected, beside xgrammar, llguidance and outlines-core
    masks     the same engines on a vocabulary of 131,072 tokens: time to the first mask, time per token
    budget    runs without a language model within 8 to 256 tokens: finished and valid
    bounded   strings of maxLength 128, and in arrays of maxItems 64: time, and memory for compiling
    patterns  patterns people wrote: compiled, and those that are not with the reason
    tools     function calling data sets: tools compiled, gold calls accepted, in JSON and Python syntax
    sql       Spider: gold queries accepted
    bad       input that must be refused: the error and how long it takes

Each of the first three and of ``tools`` and ``sql`` is a script of its own beside this one. Engines that are not installed are
named and left out, and so is data that is not beside the repository (``TRACTILE_SHARED``, by default ../shared).

    python benchmarks/constraints.py [--smoke] [--only NAME …] [--every N]
"""

from __future__ import annotations

import argparse
import json
import runpy
import sys
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

from masks import tekken
from schemas import SHARED

import tractile as tt

HERE = Path(__file__).parent
PATTERNS = [
    r"(?i)hello,? w[aeiou]rld!{1,3}",
    r"(?=.*\d)(?=.*[a-z]).{8,20}",
    r"\b\p{Lu}\w+(?: \p{Lu}\w+)*\b",
    r"(a|b)\1",
]
BAD: dict[str, Any] = {
    "malformed JSON": lambda: tt.constraints.json_schema('{"type": '),
    "a wrong type": lambda: tt.constraints.json_schema({"type": "object", "properties": 3}),
    "an unresolvable $ref": lambda: tt.constraints.json_schema({"$ref": "#/$defs/none"}),
    "a $ref to itself": lambda: tt.constraints.json_schema({"$ref": "#"}).shortest(),
    "catastrophic repeats": lambda: tt.constraints.regex(r"(a{1,1000}){1,1000}").compile(BYTES),
    "an empty language": lambda: (tt.constraints.literal("a") & tt.constraints.literal("b")).compile(BYTES),
    "a back-reference": lambda: tt.constraints.regex(r"(a|b)\1"),
    "left recursion without an end": lambda: tt.grammar("root ::= root", syntax="gbnf").shortest(),
}
BYTES = tt.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_token_id=256)


def script(name: str, *options: str) -> None:
    """Run a script beside this one."""
    sys.argv = [name, *options]
    runpy.run_path(str(HERE / f"{name}.py"), run_name="__main__")


def bounded(arguments: argparse.Namespace) -> None:
    """Strings with maxLength 128, and arrays of them with maxItems 64."""
    schema: dict[str, Any] = {"type": "string", "maxLength": 128}
    tokens = tekken()
    vocab = tt.Vocabulary([piece or None for piece in tokens.bytes], eos_token_id=tokens.eos)
    _ = vocab.trie
    print(
        "| schema | byte states | compile, ms | first mask, ms | compile, MB |\n| --- | --- | --- | --- | --- |"
    )
    for name in ("string", "array of strings")[: 1 if arguments.smoke else 2]:
        begin = time.process_time()
        tt.constraints.json_schema(schema).compile(vocab)
        compiled = time.process_time() - begin
        tracemalloc.start()
        fa = tt.constraints.json_schema(schema).compile(vocab)
        memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        begin = time.process_time()
        tt.gcd(fa, horizon=256).start().mask()
        masked = time.process_time() - begin
        print(
            f"| {name} | {fa.num_states - 1:,} | {1e3 * compiled:.0f} | {1e3 * masked:.0f} | {memory / 1e6:.0f} |"
        )
        schema = {"type": "array", "items": schema, "maxItems": 64}


def patterns(arguments: argparse.Namespace) -> None:
    """Every pattern of the data set, or those of this file."""
    file, found = SHARED / "data" / "regex_patterns" / "patterns.half.jsonl", PATTERNS
    if file.is_file() and not arguments.smoke:
        found = [json.loads(line)["regex"] for line in file.read_text(encoding="utf-8").splitlines()]
    refused, times = Counter[str](), []
    for pattern in found:
        begin = time.process_time()
        try:
            _ = tt.constraints.regex(pattern).bytes_automaton
            times.append(time.process_time() - begin)
        except tt.TractileError as error:
            refused[
                f"{type(error).__name__}: {str(error).split(' in ')[0].replace(repr(pattern), 'a pattern')}"
            ] += 1
    print(f"{len(times)} of {len(found)} compiled, {1e3 * max(times):.0f} ms the longest")
    print("\n".join(f"    {count:>4}  {reason[:120]}" for reason, count in refused.most_common()))


def bad(arguments: argparse.Namespace) -> None:
    """Each must raise a typed error."""
    print("| input | error | ms |\n| --- | --- | --- |")
    for name, make in BAD.items():
        begin = time.process_time()
        try:
            make()
            outcome = "NOT REFUSED"
        except tt.TractileError as error:
            outcome = f"{type(error).__name__}: {str(error)[:80]}"
        print(f"| {name} | {outcome} | {1e3 * (time.process_time() - begin):.0f} |")


def main() -> None:
    """Run the parts and print what they print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = ["schemas", "masks", "budget", "bounded", "patterns", "tools", "sql", "bad"]
    parser.add_argument("--smoke", action="store_true", help="as little as shows that it works")
    parser.add_argument(
        "--only", nargs="+", choices=parts, default=parts, metavar="NAME", help=", ".join(parts)
    )
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th schema of the sample")
    arguments = parser.parse_args()
    smoke, every = ["--smoke"] * arguments.smoke, ["--every", str(arguments.every)]
    sample = SHARED / "data" / "jsonschemabench"
    for part in arguments.only:
        print(f"\n## {part}\n", flush=True)
        if part in ("bounded", "patterns", "bad"):
            {"bounded": bounded, "patterns": patterns, "bad": bad}[part](arguments)
        elif part == "masks":
            script(part, *smoke)
            if sample.is_dir() and not smoke:
                script("masks_sample", "--size", str(-(-999 // arguments.every)))
        else:
            script(
                part,
                *smoke,
                *(["--peers"] if part == "schemas" else []),
                *(every if part in ("schemas", "budget") else []),
            )


if __name__ == "__main__":
    main()
