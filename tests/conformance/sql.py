"""Are Spider's gold queries in the language of `tt.constraints.sql`, and how large are its automata?

For every database one automaton; each gold query is brought to the form that `tt.constraints.sql` writes
(`tractile_bench.sql_form`), and put to it.

Columns: databases, states and edges of the byte automaton (median and largest), states and edges over tokens for one
vocabulary, gold queries and the share of them accepted. The paper's Table 5 has one automaton for all of Spider: 7,999
states over characters, 31,858 over tokens as an NFA; as a DFA 57,263 and out of memory.

    python tests/conformance/sql.py [--smoke] [--depth 1] [--columns database|tables] [--failures N]

The data lies beside the repository (``TRACTILE_SHARED``, by default ../shared); without it only the database written here
is run.
"""

import argparse
import statistics
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from samples import SHARED, tekken

import tractile as tt
from tractile.constraints.automata.dfa import determinize
from tractile_bench.files import find, read_jsonl
from tractile_bench.spider.canonical_form import normalised
from tractile_bench.spider.databases import read_databases

OWN = {
    "tables": {
        "singer": ["Singer_ID", "Name", "Age", "Home Town"],
        "song": ["Song_ID", "Singer_ID", "Title", "Sales"],
    },
    "foreign_keys": [("song.Singer_ID", "singer.Singer_ID")],
}
OWN_QUERIES = [
    "select name , count(*) from singer group by name having count(*) > 1 ;",
    'SELECT T1.title FROM song AS T1 JOIN singer AS T2 ON T1.singer_id = T2.singer_id WHERE T2."home town" = "Oslo"',
    "SELECT max(age) FROM singer WHERE singer_id NOT IN (SELECT singer_id FROM song WHERE sales >= 1.5)",
]


def databases(folder: Path) -> dict[str, tuple[dict[str, Any], list[str]]]:
    """By name: the schema, and the gold queries."""
    queries = defaultdict(list)
    for names in (("train_spider.json", "train.jsonl"), ("dev.json", "dev.half.jsonl")):
        for case in read_jsonl(find(folder, *names)):
            queries[case["db_id"]].append(case["query"])
    return {
        name: ({"tables": database.tables, "foreign_keys": database.foreign_keys}, queries[name])
        for name, database in read_databases(find(folder, "tables.json")).items()
    }


def sizes(automata: list[tuple[int, int]]) -> str:
    """States and edges, median and largest."""
    states, edges = zip(*automata, strict=True)
    return (
        f"states {int(statistics.median(states)):,} (median), {max(states):,} (most); "
        f"edges {int(statistics.median(edges)):,}, {max(edges):,}"
    )


def determinised(constraints: list[tt.constraints.Constraint], limit: int) -> str:
    """States over bytes as they are and as DFAs."""
    found = []
    for constraint in constraints:
        try:
            states = f"{determinize(constraint.nfa, limit).num_states:,}"
        except tt.errors.TooManyStates:
            states = f"over {limit:,}"
        found.append(f"{constraint.nfa.num_states:,} → {states}")
    return "; ".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--smoke", action="store_true", help="only the database written in this file")
    parser.add_argument("--depth", type=int, default=1, help="how deep queries nest")
    parser.add_argument("--columns", choices=["database", "tables"], default="database")
    parser.add_argument(
        "--failures", type=int, default=0, help="how many queries to list that are not accepted"
    )
    parser.add_argument("--limit", type=int, default=None, help="only so many databases")
    parser.add_argument(
        "--lift", type=int, default=5, help="how many automata to determinise and lift to tokens"
    )
    parser.add_argument("--limit-dfa", type=int, default=100_000, help="the most states of a DFA")
    options = parser.parse_args()
    sets = {"own": (OWN, OWN_QUERIES)}
    if not options.smoke and (SHARED / "data/spider").is_dir():
        sets = dict(list(databases(SHARED / "data/spider").items())[: options.limit])
    elif not options.smoke:
        print(f"skipped: no {SHARED / 'data/spider'}")
    built: list[tt.constraints.Constraint] = []
    times: list[float] = []
    refused: Counter[str] = Counter()
    failures = []
    asked = accepted = 0
    for name, (schema, queries) in sets.items():
        asked += len(queries)
        begin = time.process_time()
        try:
            constraint = tt.constraints.sql(schema, columns=options.columns, max_depth=options.depth)
        except tt.TractileError as error:
            refused[f"{type(error).__name__}: {error}"] += 1
            continue
        times.append(time.process_time() - begin)
        built.append(constraint)
        texts = [normalised(query, schema["tables"]) for query in queries]
        outside = [text for text in texts if not constraint.nfa.accepts(text.encode())]
        accepted += len(texts) - len(outside)
        failures += [f"{name}: {text}" for text in outside]
    spent = f"{statistics.median(times):.2f} s (median), {max(times):.2f} s (most)"
    print(f"databases     {len(built)} of {len(sets)} compiled, {spent}")
    print(f"over bytes    {sizes([(c.nfa.num_states, len(c.nfa.edges)) for c in built])}")
    print(f"gold queries  {accepted:,} of {asked:,} accepted: {accepted / asked:.2%}", flush=True)
    chosen = sorted(built, key=lambda c: c.nfa.num_states)[:: max(1, len(built) // max(options.lift, 1))]
    if options.lift:
        print(f"as DFAs       {determinised(chosen, options.limit_dfa)}", flush=True)
    if options.lift:
        tokens = tekken()
        vocab = tt.Vocabulary([piece or None for piece in tokens.bytes], eos_token_id=tokens.eos)
        begin = time.process_time()
        lifted = [(t.num_states, t.num_edges) for t in (c.compile(vocab).finite for c in chosen)]
        spent = (time.process_time() - begin) / len(chosen)
        print(f"over tokens   {sizes(lifted)}; {len(chosen)} databases, {spent:.1f} s each")
    for reason, count in refused.most_common(5):
        print(f"    {count} databases: {reason}")
    for failure in failures[:: max(1, len(failures) // max(options.failures, 1))][: options.failures]:
        print(f"    {failure}")


if __name__ == "__main__":
    main()
