"""Record the language and the masks of every constraint of the development sets, and compare them with those of other code.

    python tests/conformance/languages.py --record before.sqlite      # with the code as it was; goes on where it was stopped
    python tests/conformance/languages.py --compare before.sqlite     # with the code as it is

For each constraint a record holds its minimal deterministic byte automaton (one with equal arrays is not compared text by
text), the number of states of the automaton that was built, and the masks of the Boolean
next-token query (GCD) along its instances and at ten random prefixes, each within three budgets, for the tokenizer of the
embedded model. ``--compare`` builds each constraint again and prints every difference: the shortest text that only one of
the two languages has, masks that differ, refusals that came or went; then how many states and how much time both took.
The random prefixes are those of the record. A constraint without a finite automaton is compared by walking the recorded
automaton and its own states together, through at most 20,000 pairs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import random
import signal
import sqlite3
import statistics
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from language_sets import SETS, Source
from minimal_dfa import Dfa, constraint_of, minimal
from schemas import TooSlow, _alarm
from transformers import PreTrainedTokenizerFast

import tractile as tt
from tractile.embedded import LM_PATH

SECONDS = 30  # CPU time for one constraint
SLACK = (0, 7, 100)  # tokens beyond the fewest that the constraint needs: the three budgets
PREFIXES = 10
LONGEST = 48  # tokens of a random prefix
MAX_PAIRS = 20_000  # of states, of a recorded automaton and a lazy one
TABLE = """create table if not exists language (
    name text primary key, error text, states integer, seconds real, fingerprint text, dfa blob, probes text)"""


def probe(automaton: tt.Automaton, tokens: list[int], budget: int) -> str:
    """A digest of the masks along a sequence of tokens within a budget; and why it ends early, if it does."""
    digest, end = hashlib.sha256(), ""
    try:
        query = tt.gcd(automaton, budget).start()
        for token in tokens[: budget - 1]:
            mask = query.bitmask()[0].numpy()
            digest.update(mask.astype("<i4").tobytes())
            if not mask[token >> 5] >> (token & 31) & 1:
                end = f" then {token} is not allowed"
                break
            query.advance([token])
        else:
            digest.update(query.bitmask()[0].numpy().astype("<i4").tobytes())
    except tt.errors.BudgetTooSmall as error:
        return f"needs {error.needed}"
    return digest.hexdigest()[:16] + end


def prefixes(automaton: tt.Automaton, needed: int, dice: random.Random) -> Iterator[list[int]]:
    """Random sequences of allowed tokens."""
    for _ in range(PREFIXES):
        query = tt.gcd(automaton, needed + dice.choice((3, 30, 200))).start()
        tokens: list[int] = []
        for _ in range(dice.randrange(1, LONGEST)):
            allowed = query.mask()[0].nonzero().flatten().tolist()
            token = dice.choice(allowed)
            if token == automaton.eos_token_id:
                break
            query.advance([token])
            tokens.append(token)
        yield tokens


def fewest(automaton: tt.Automaton) -> int:
    """The fewest tokens of an accepted sequence."""
    try:
        tt.gcd(automaton, 1).start()
        return 1
    except tt.errors.BudgetTooSmall as error:
        return error.needed or 1


def measured(
    source: Source, vocab: tt.Vocabulary, tokenizer: Any, before: dict[str, Any] | None
) -> dict[str, Any]:
    """The record of one constraint; with the sequences of an earlier record if there is one.

    A constraint without a finite automaton that has an earlier record gets, instead of its own automaton, the shortest
    texts that tell its language from the recorded one.
    """
    recorded = before and json.loads(before["probes"])
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    row: dict[str, Any] = {"name": source.name, "error": None, "states": None, "fingerprint": None}
    row |= {"dfa": None, "probes": "[]", "seconds": None}
    try:
        begin = time.process_time()
        constraint = source.build()
        if before and before["dfa"] and not constraint.is_finite:
            recorded_dfa = Dfa.from_bytes(zlib.decompress(before["dfa"]))
            row["difference"] = tt.constraints.difference(
                constraint_of(recorded_dfa), constraint, max_pairs=MAX_PAIRS
            )
        else:
            row["states"] = constraint.bytes_automaton.num_states
            row["seconds"] = time.process_time() - begin
            try:
                dfa = minimal(constraint)
                row |= {"fingerprint": dfa.fingerprint, "dfa": zlib.compress(dfa.to_bytes(), 1)}
            except tt.errors.TooManyStates:
                row["fingerprint"] = "too large"
        automaton = constraint.compile(vocab)
        if not recorded:
            dice = random.Random(source.name)
            needed = fewest(automaton)
            some = [tokenizer.encode(text, add_special_tokens=False) for text in source.texts[:3]]
            some += prefixes(automaton, needed, dice)
            recorded = [
                [tokens, budget, ""]
                for tokens in some
                for budget in dict.fromkeys(max(needed, len(tokens) + 1) + more for more in SLACK)
            ]
        probes = [[tokens, budget, probe(automaton, tokens, budget)] for tokens, budget, _ in recorded]
        row["probes"] = json.dumps(probes)
    except tt.TractileError as error:
        row["error"] = f"{type(error).__name__}: {error}"
    except TooSlow:
        row["error"] = f"more than {SECONDS} s"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return row


def sources(names: list[str], every: int) -> Iterator[Source]:
    """The constraints of the sets, every so many of each."""
    for name in names:
        for source in islice(SETS[name](), 0, None, every):
            yield source._replace(name=f"{name}: {source.name}")


def described(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What differs between two records of one constraint, a line each: the kind, a colon, the rest."""
    old, new = before["error"], after["error"]
    if old or new:
        if old and new:
            return [] if old == new else [f"other refusal: {old} → {new}"]
        return [f"refused now: {new}" if new else f"accepted now: was {old}"]
    lines = []
    if (found := after.get("difference")) is not None:
        lines += how_they_differ(found)
        if found.compared is not None and found.only_first is None:
            lines = [f"{line} (up to {found.compared} bytes)" for line in lines or ["no text lost:"]]
    elif before["fingerprint"] != after["fingerprint"]:
        if "too large" in (before["fingerprint"], after["fingerprint"]):
            lines.append(f"not compared: {before['fingerprint'][:9]} → {after['fingerprint'][:9]}")
        else:
            both = [Dfa.from_bytes(zlib.decompress(row["dfa"])) for row in (before, after)]
            lines += how_they_differ(
                tt.constraints.difference(*map(constraint_of, both), max_pairs=1_000_000)
            )
    masks = [
        (tokens, budget, was, now)
        for (tokens, budget, was), (_, _, now) in zip(
            json.loads(before["probes"]), json.loads(after["probes"]), strict=True
        )
        if was != now
    ]
    if masks:
        tokens, budget, was, now = masks[0]
        lines.append(
            f"masks: {len(masks)} differ, first of {len(tokens)} tokens in a budget of {budget}: {was} → {now}"
        )
    return lines


def how_they_differ(found: tt.constraints.Difference) -> list[str]:
    """A line on two languages and the texts that only the former and only the present one has; none if they are equal."""
    lost, gained = found.only_first, found.only_second
    kinds = {(True, False): "smaller", (False, True): "larger", (True, True): "other"}
    shown = [f"{what} {text!r}" for what, text in (("no longer", lost), ("now", gained)) if text is not None]
    return [f"{kinds[lost is not None, gained is not None]}: {', '.join(shown)}"] if shown else []


def main() -> None:
    """Record, or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", type=Path, metavar="FILE", help="write what this code does")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="print what this code does otherwise")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th constraint of each set")
    parser.add_argument("--smoke", action="store_true", help="record and compare a few, in memory")
    options = parser.parse_args()
    signal.signal(signal.SIGVTALRM, _alarm)
    logging.getLogger("tractile.constraints").setLevel(logging.ERROR)  # narrowed languages are not news here
    tokenizer = PreTrainedTokenizerFast.from_pretrained(LM_PATH)
    vocab = tt.Vocabulary.from_tokenizer(tokenizer)
    file = ":memory:" if options.smoke else options.record or options.compare
    if file is None:
        parser.error("give --record FILE, --compare FILE or --smoke")
    with closing(sqlite3.connect(file)) as base:
        base.row_factory = sqlite3.Row
        base.execute(TABLE)
        known = {row["name"] for row in base.execute("select name from language")}
        chosen = ["own"] if options.smoke else options.sets
        if options.record or options.smoke:
            for done, source in enumerate(sources(chosen, options.every), 1):
                if source.name not in known:
                    row = measured(source, vocab, tokenizer, None)
                    marks = ", ".join(f":{key}" for key in row)
                    base.execute(f"insert into language ({', '.join(row)}) values ({marks})", row)
                    base.commit()
                if sys.stderr.isatty() or done % 100 == 0:
                    print(f"\r{done} {source.name:<60}", end="", file=sys.stderr, flush=True)
            print(f"\n{done} constraints recorded", file=sys.stderr)
        if options.compare or options.smoke:
            compare(base, chosen, options.every, vocab, tokenizer)


def compare(
    base: sqlite3.Connection, chosen: list[str], every: int, vocab: tt.Vocabulary, tokenizer: Any
) -> None:
    """Print every difference between a record and this code."""
    kinds, states, seconds = Counter[str](), [], []
    for source in sources(chosen, every):
        before = base.execute("select * from language where name = ?", [source.name]).fetchone()
        if before is None:
            kinds["not in the record"] += 1
            continue
        after = measured(source, vocab, tokenizer, dict(before))
        lines = described(dict(before), after)
        for line in lines:
            print(f"{source.name}: {line}", flush=True)
        kinds.update([line.partition(":")[0] for line in lines] or ["same"])
        if before["states"] and after["states"]:
            states.append(after["states"] / before["states"])
            seconds.append(after["seconds"] / max(before["seconds"], 1e-4))
    print("; ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
    for name, ratios in (("states", states), ("CPU time to build", seconds)):
        if len(ratios) > 1:
            cuts = statistics.quantiles(ratios, n=20)
            print(
                f"{name}, now over then: median {statistics.median(ratios):.2f}, p5 {cuts[0]:.2f}, p95 {cuts[-1]:.2f}"
            )


if __name__ == "__main__":
    main()
