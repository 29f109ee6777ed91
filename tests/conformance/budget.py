"""Does a JSON Schema's mask finish within the token budget? Without a language model, in every run.

At each step one of the tokens that the GCD mask allows is taken:

    uniform   any of them alike (inside a string this hardly ever closes it)
    zipf      with weight 1 / (rank + 100) by token number, EOS the heaviest
    replay    those of a valid instance of L tokens, EOS included, in a budget of ⌈L / 2⌉; where that is not allowed, the
              heaviest

Budgets are in tokens, EOS included: ``minimum`` is the fewest that any text of the schema needs; it and six tokens more are
tried as well. A run is *good* if it ends in EOS within the budget and its text is an instance by the ``jsonschema`` package
with formats asserted. A budget below the minimum must be refused (``BudgetTooSmall``) with the minimum named; the minimum is
checked against a search of its own, by sets of states, wherever that takes few steps and the finite automaton is small and
exact.

The schemas are those of ``schemas.py``.

    python tests/conformance/budget.py [--smoke] [--every N] [--first N] [--out FILE]

The whole sample takes long: with ``--out`` each schema's counts are a line of FILE, and those that are there are not run again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from samples import Tokens, needed, tekken
from schemas import SECONDS, TooSlow, arguments_and_rows

import tractile as tt
from tractile.constraints.automata.nfa import Nfa
from tractile.constraints.compiled import ConstraintAutomaton

validators = needed("jsonschema.validators", "test")

BUDGETS = (8, 16, 32, 64, 128, 256)  # tokens
MOST_STEPS = 12  # of the search of its own
MOST_STATES = 5000  # of the finite automata that it goes through
SLACK = 6  # tokens above the minimum
Pick = Callable[[np.ndarray, list[int], random.Random], int]


class Choosers:
    """The ways to choose a token, on one vocabulary."""

    def __init__(self, tokens: Tokens) -> None:
        self.weight = np.zeros(len(tokens.bytes))
        self.weight[tokens.num_special :] = 1 / (np.arange(len(tokens.bytes) - tokens.num_special) + 100)
        self.weight[tokens.eos] = 1 / 100

    def uniform(self, allowed: np.ndarray, _: list[int], rng: random.Random) -> int:
        """Any token alike."""
        return int(allowed[rng.randrange(len(allowed))])

    def zipf(self, allowed: np.ndarray, _: list[int], rng: random.Random) -> int:
        """Common tokens more often."""
        total = np.cumsum(self.weight[allowed])
        return int(allowed[np.searchsorted(total, rng.random() * total[-1], side="right")])

    def replay(self, track: list[int]) -> Pick:
        """These tokens, as long as they are allowed."""

        def pick(allowed: np.ndarray, ids: list[int], _: random.Random) -> int:
            k = len(ids)
            if ids == track[:k] and k < len(track) and track[k] in allowed:
                return track[k]
            return int(allowed[self.weight[allowed].argmax()])

        return pick


def generate(query: tt.NextToken, budget: int, pick: Pick, rng: random.Random, eos: int) -> list[int] | None:
    """The tokens up to EOS; None where the budget ran out or no token was allowed."""
    query.start(batch=1, budgets=budget)
    ids: list[int] = []
    for _ in range(budget):
        bits = np.unpackbits(query.words()[0].view(np.uint8), bitorder="little")
        allowed = np.flatnonzero(bits)
        if not len(allowed):
            return None
        token = pick(allowed, ids, rng)
        if token == eos:
            return ids
        query.advance([token])
        ids.append(token)
    return None


def minimum(fa: ConstraintAutomaton) -> int:
    """The fewest tokens, EOS included, as :class:`tt.errors.BudgetTooSmall` names them."""
    try:
        tt.gcd(fa, horizon=1).start(batch=1)
    except tt.errors.BudgetTooSmall as error:
        return error.needed
    return 1


def finite(constraint: tt.constraints.Constraint) -> Nfa | None:
    """The finite automaton of a constraint; None where it is large or accepts less than the constraint."""
    try:
        nfa = constraint.bytes_automaton.plain
    except tt.TractileError:
        return None
    return nfa if nfa.num_states <= MOST_STATES and not constraint.narrowed else None


def fewest_tokens(nfa: Nfa, vocab: tt.Vocabulary) -> int | None:
    """The length of the shortest token sequence, EOS included, by going forward with sets of states; None: too far."""
    trie = vocab.trie
    classes = int(nfa.byte_class.max()) + 1
    klass, onward = nfa.byte_class[trie.byte], defaultdict(list)
    for source, c, target in nfa.transitions.tolist():
        onward[source, c].append(target)
    sets: list[frozenset[int]] = [frozenset()]
    number: dict[frozenset[int], int] = {sets[0]: 0}
    after: dict[int, int] = {}

    def follow(key: int) -> int:
        if key not in after:
            members = frozenset(t for s in sets[key // classes] for t in onward.get((s, key % classes), ()))
            if members not in number:
                number[members] = len(sets)
                sets.append(members)
            after[key] = number[members]
        return after[key]

    reached = seen = frozenset(nfa.start.tolist())
    ends = frozenset(nfa.accept.tolist())
    for steps in range(MOST_STEPS):
        if reached & ends:
            return steps + 1
        if reached not in number:
            number[reached] = len(sets)
            sets.append(reached)
        at = np.zeros(len(klass), np.int64)
        at[0] = number[reached]
        for low, high in itertools.pairwise(trie.bounds[1:]):
            key, back = np.unique(at[trie.parent[low:high]] * classes + klass[low:high], return_inverse=True)
            at[low:high] = np.array([follow(k) if k >= classes else 0 for k in key.tolist()])[back]
        reached = frozenset().union(*(sets[i] for i in np.unique(at[trie.node[trie.order]]).tolist())) - seen
        seen |= reached
    return None


def of_schema(
    row: dict[str, Any],
    engine: Choosers,
    tokens: Tokens,
    vocab: tt.Vocabulary,
    counts: dict[str, Counter[str]],
) -> list[str]:
    """Every run on one schema; what was wrong. Raises where the schema does not compile."""
    constraint = tt.constraints.json_schema(row["schema"])
    fa = constraint.compile(vocab)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    fewest, wrong = minimum(fa), list[str]()
    if fewest <= MOST_STEPS and (states := finite(constraint)) is not None:
        counts["minimum, checked"]["runs"] += 1
        if (found := fewest_tokens(states, vocab)) != fewest:
            wrong.append(f"the minimum is {fewest}, by search {found}")
            counts["minimum, checked"]["wrong"] += 1
    checker = validators.validator_for(row["schema"], default=validators.Draft202012Validator)
    validator = checker(row["schema"], format_checker=checker.FORMAT_CHECKER)
    track: list[int] | None = None
    for test in row["tests"]:
        text = json.dumps(test["data"], ensure_ascii=False)
        if track is None and test["valid"] and constraint.accepts(text):
            track = [*tokens.encode(text), tokens.eos]
    runs: list[tuple[str, str, int, Pick]] = []
    for name, pick in (("uniform", engine.uniform), ("zipf", engine.zipf)):
        runs += [(name, str(n), n, pick) for n in BUDGETS]
        runs += [(name, "minimum", fewest, pick), (name, f"minimum + {SLACK}", fewest + SLACK, pick)]
    if track is not None:
        runs.append(("replay", "⌈L / 2⌉", math.ceil(len(track) / 2), engine.replay(track)))
    query = tt.gcd(fa, horizon=max(n for _, _, n, _ in runs))
    for name, shown, n, pick in runs:
        count, rng = counts[f"{name} | {shown}"], random.Random(f"{row['id']} {name} {n}")
        count["runs"] += 1
        try:
            ids = generate(query, n, pick, rng, tokens.eos)
        except tt.errors.BudgetTooSmall as error:
            right = error.needed == fewest and n < fewest
            count["refused" if right else "wrongly refused"] += 1
            if not right:
                wrong.append(f"{name}, n = {n}: refused with {error.needed}, the minimum is {fewest}")
            continue
        if n < fewest:
            count["wrongly run"] += 1
            wrong.append(f"{name}, n = {n}: run, the minimum is {fewest}")
        if ids is None:
            count["cut off"] += 1
            wrong.append(f"{name}, n = {n}: not finished")
            continue
        count["finished"] += 1
        data = b"".join(tokens.bytes[i] for i in ids)
        try:
            problem = next((e.message for e in validator.iter_errors(json.loads(data))), None)
        except ValueError as error:
            problem = f"not JSON: {error}"
        count["good"] += problem is None
        if problem is not None:
            wrong.append(f"{name}, n = {n}: {data.decode(errors='replace')[:200]}: {problem[:200]}")
    return wrong


HEAD = """| chooser | n | runs | feasible | finished within n | valid | refused, rightly | wrongly |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


def run(rows: list[dict[str, Any]], out: Path | None = None) -> dict[str, Counter[str]]:
    """Every schema; what is wrong is printed as it is found."""
    tokens = tekken()
    vocab = tt.Vocabulary([piece or None for piece in tokens.bytes], eos_token_id=tokens.eos)
    engine, total = Choosers(tokens), defaultdict[str, Counter[str]](Counter)
    done: dict[str, dict[str, dict[str, int]]] = {}
    if out is not None and out.exists():
        done = {one["id"]: one["counts"] for one in map(json.loads, out.read_text().splitlines())}
    for row in rows:
        if row["id"] not in done:
            done[row["id"]] = _counts(row, engine, tokens, vocab)
            if out is not None:
                with out.open("a") as file:
                    file.write(json.dumps({"id": row["id"], "counts": done[row["id"]]}) + "\n")
        for key, count in done[row["id"]].items():
            total[key].update(count)
    return total


def _counts(
    row: dict[str, Any], engine: Choosers, tokens: Tokens, vocab: tt.Vocabulary
) -> dict[str, dict[str, int]]:
    counts = defaultdict[str, Counter[str]](Counter)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        wrong = of_schema(row, engine, tokens, vocab, counts)
    except (tt.TractileError, TooSlow) as error:
        return {"schemas": {f"not compiled: {type(error).__name__}": 1}}
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    counts["schemas"]["compiled"] += 1
    for problem in wrong:
        print(f"{row['id']}: {problem}", file=sys.stderr, flush=True)
    return {key: dict(count) for key, count in counts.items()}


def table(counts: dict[str, Counter[str]]) -> str:
    """The Markdown table."""
    lines = [HEAD]
    for key, c in counts.items():
        if "|" in key:
            feasible = c["runs"] - c["refused"] - c["wrongly refused"]
            shares = [f"{100 * c[what] / max(1, feasible):.1f} %" for what in ("finished", "good")]
            refused = [str(c["refused"]), str(c["wrongly refused"] + c["wrongly run"])]
            lines.append(f"| {key} | {c['runs']} | {feasible} | {' | '.join([*shares, *refused])} |")
    schemas = ", ".join(f"{what} {n}" for what, n in counts["schemas"].items())
    checked = counts["minimum, checked"]
    lines += [
        "",
        f"schemas: {schemas}; minimum checked by search for {checked['runs']}, wrong {checked['wrong']}",
    ]
    return "\n".join(lines)


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="keep each schema's counts in this file, and go on from it")
    arguments, rows = arguments_and_rows(parser)
    began = time.process_time()
    print(table(run(rows, arguments.out)))
    print(f"{time.process_time() - began:.0f} s of CPU time")


if __name__ == "__main__":
    main()
