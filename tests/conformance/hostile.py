"""Input made to exhaust the compiler: each must be compiled or refused by a typed error in two seconds and a gigabyte.

Every input runs in a process of its own. Seconds are CPU time and megabytes are what the process gains over its start, both
for making the constraint, compiling it for tokens of a byte each, its first mask, and its finite automaton. Exits with 1 if any
input takes more, or raises anything else.

    python tests/conformance/hostile.py [--smoke] [--only TEXT]
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
from typing import Any

from hostile_schemas import schemas
from hostile_texts import WORDS, Make, calls, grammars, patterns

import tractile as tt

SECONDS, MEGABYTES = 2.0, 1000.0
BYTES = tt.Vocabulary([*(bytes([b]) for b in range(256)), None], eos_token_id=256)
GIVE_UP = 60  # seconds, after which an input's process ends


def inputs() -> dict[str, Make]:
    """Everything, by name."""
    schema, regex = tt.constraints.json_schema, tt.constraints.regex
    found: dict[str, Make] = {f"regex: {name}": lambda p=p: regex(p) for name, p in patterns().items()}
    found |= {f"schema: {name}": lambda s=s: schema(s) for name, s in schemas().items()}
    orders = {
        name: s
        for name, s in schemas().items()
        if "pattern:" not in name and ("properties" in name or "of" in name)
    }
    for order in ("any", "auto"):
        found |= {
            f"schema, {order} order: {n}": lambda s=s, o=order: schema(s, order=o) for n, s in orders.items()
        }
    words, forms = [[w] for w in WORDS[:40]], [[w + e for e in ("", "s", "ed")] for w in WORDS]
    found |= {
        "keywords: thirty of forty": lambda: tt.constraints.keywords(words, at_least=30),
        "keywords: three of forty": lambda: tt.constraints.keywords(words, at_least=3),
        "keywords: eleven, ignoring case": lambda: tt.constraints.keywords(forms[:11], ignore_case=True),
        "keywords: twelve": lambda: tt.constraints.keywords(forms[:12]),
        "keywords: any of five hundred": lambda: tt.constraints.keywords(forms[:500], at_least=1),
        "keywords: five hundred in order": lambda: tt.constraints.keywords(forms[:500], order="given"),
        "keywords: none of five hundred": lambda: tt.constraints.forbidden_words(forms[:500]),
        "keywords: a very long one": lambda: tt.constraints.keywords([["x y " * 20_000], ["z"]]),
        "keywords: in each other": lambda: tt.constraints.keywords([["ab" * i] for i in range(1, 10)], word_boundaries=False),
    }  # fmt: skip
    return found | grammars() | calls()


def attempt(make: Make, answers: Any) -> None:
    """Run one input and send what came of it, its CPU seconds and megabytes."""
    resource.setrlimit(resource.RLIMIT_CPU, (GIVE_UP, GIVE_UP))
    begin, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        constraint = make()
        tt.gcd(constraint.compile(BYTES), 10**6).start().mask()
        outcome = f"{constraint.bytes_automaton.num_states:,} states"
    except tt.TractileError as error:
        outcome = f"{type(error).__name__}: {str(error)[:70]}"
    except BaseException as error:
        outcome = f"UNTYPED {type(error).__name__}: {str(error)[:70]}"
    seconds = time.process_time() - begin
    answers.send((outcome, seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024))


def main() -> None:
    """Run the inputs and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="every fortieth input")
    parser.add_argument("--only", default="", metavar="TEXT", help="inputs whose name has this in it")
    arguments = parser.parse_args()
    chosen = [(name, make) for name, make in inputs().items() if arguments.only in name]
    chosen = chosen[:: 40 if arguments.smoke else 1]
    context, over, untyped = multiprocessing.get_context("fork"), 0, 0
    print("| input | CPU s | MB | outcome |\n| --- | --- | --- | --- |")
    for name, make in chosen:
        receive, send = context.Pipe(duplex=False)
        child = context.Process(target=attempt, args=(make, send))
        child.start()
        send.close()
        try:
            outcome, seconds, megabytes = receive.recv()
        except EOFError:
            outcome, seconds, megabytes = "DIED", float(GIVE_UP), float("nan")
        child.join()
        bad = not (seconds <= SECONDS and megabytes <= MEGABYTES) or outcome.startswith("UNTYPED")
        over += bad
        untyped += outcome.startswith(("UNTYPED", "DIED"))
        print(
            f"| {name} | {seconds:.2f} | {megabytes:.0f} | {'**BAD** ' * bad}{outcome.replace('|', '/')} |",
            flush=True,
        )
    print(
        f"\n{over} of {len(chosen)} inputs take more than {SECONDS:.0f} s or {MEGABYTES:.0f} MB or raise no typed error"
    )
    sys.exit(untyped > 0 if arguments.smoke else over > 0)  # a smoke test is not timed


if __name__ == "__main__":
    main()
