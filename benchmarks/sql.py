"""Are Spider's gold queries in the language of `tt.sql`, and how large are its automata?

For every database one automaton; each gold query is brought to the form that `tt.sql` writes, and put to it:

    keywords and functions in capitals, identifiers as the database spells them, aliases T1, T2, … by appearance,
    strings in single quotes, one space between tokens, none inside parentheses or before commas, no `;` at the end;
    `<>` as `!=`, `AS` written before aliases; aliases of result columns removed

Columns: databases, states and edges of the byte automaton (median and largest), states and edges over tokens for one
vocabulary, gold queries and the share of them accepted. The paper's Table 5 has one automaton for all of Spider: 7,999
states over characters, 31,858 over tokens as an NFA; as a DFA 57,263 and out of memory.

    python benchmarks/sql.py [--smoke] [--depth 1] [--columns database|tables] [--failures N]

The data lies beside the repository (``TRACTILE_SHARED``, by default ../shared); without it only the database written here
is run.
"""

import argparse
import json
import os
import re
import statistics
import time
from base64 import b64decode
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import tractile as tt
from tractile.constraints.sql_schema import spelled

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
WORDS = (
    "select from where group by having order limit join on as and or not in like between union all intersect except "
    "distinct asc desc count sum avg min max is null exists inner left outer case when then else end"
)
KEYWORDS = frozenset(WORDS.split())
FUNCTIONS = ("COUNT", "SUM", "AVG", "MIN", "MAX")
TOKEN = re.compile(
    r"\s*(?:(?P<string>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`)|(?P<number>\d+(?:\.\d+)?)|(?P<word>\w+)"
    r"|(?P<sign><=|>=|!=|<>|.))",
    re.DOTALL,
)


def normalised(query: str, schema: dict[str, Any]) -> str:
    """The query in the form that `tt.sql` writes."""
    tables = {table.lower(): spelled(table) for table in schema["tables"]}
    columns = {c.lower(): spelled(c) for names in schema["tables"].values() for c in names}
    found = list(TOKEN.finditer(query.strip().rstrip(";").strip()))
    tokens: list[str] = []
    for i, match in enumerate(found):
        is_table = tokens[-1:] in (["FROM"], ["JOIN"]) or (
            found[i + 1 : i + 2] and found[i + 1]["sign"] == "."
        )
        tokens.append(token(match, {**columns, **tables} if is_table else {**tables, **columns}))
    text = before = earlier = ""
    for now in renamed(tokens):
        glued = (
            not text or now in (",", ")", ".") or before in ("(", ".") or (now == "(" and before in FUNCTIONS)
        )
        sign = before == "-" and (earlier.lower() in KEYWORDS or re.fullmatch("[(,=<>]|!=|<=|>=", earlier))
        text += now if glued or sign else f" {now}"
        earlier, before = before, now
    return text


def token(match: re.Match[str], names: dict[str, str]) -> str:
    """One token: keywords in capitals, names as the database spells them, strings in single quotes."""
    text = match[0].strip()
    if match["string"]:
        inside = text[1:-1]
        if text[0] == "`" or (text[0] == '"' and '"' in names.get(inside.lower(), "")):
            return names.get(inside.lower(), inside)
        return "'" + inside.replace("'", "''") + "'" if text[0] == '"' else text
    if match["word"]:
        if text.lower() in KEYWORDS or re.fullmatch(r"[tT]\d+", text):
            return text.upper()
        return names.get(text.lower(), text)
    return "!=" if text == "<>" else text


def renamed(tokens: list[str]) -> list[str]:
    """The tokens with the aliases of each query's tables as T1, T2, …, and without aliases of result columns."""
    scope_of, parent, aliases, stack = [], {0: 0}, defaultdict(dict), [0]
    for i, now in enumerate(tokens):
        if now == "SELECT":
            outer = stack.pop()
            stack.append(len(parent))
            parent[stack[-1]] = parent[outer] if tokens[i - 1 : i] != ["("] else outer
        stack += [stack[-1]] if now == "(" else []
        scope_of.append(stack[-1])
        if now == ")" and len(stack) > 1:
            stack.pop()
        if now == "AS" and i >= 2 and tokens[i - 2] in ("FROM", "JOIN"):
            own = aliases[stack[-1]]
            own[tokens[i + 1]] = f"T{len(own) + 1}"
    kept: list[str] = []
    for i, now in enumerate(tokens):
        scope = scope_of[i]
        while scope and now not in aliases[scope]:
            scope = parent[scope]
        if tokens[i + 1 : i + 2] == ["."] or tokens[i - 1 : i] == ["AS"]:
            now = aliases[scope].get(now, now)
        if kept[-1:] == ["AS"] and not re.fullmatch(r"T\d+", now):
            kept.pop()
        else:
            kept.append(now)
    return kept


def databases(folder: Path) -> dict[str, tuple[dict[str, Any], list[str]]]:
    """By name: the schema, and the gold queries."""
    import zstandard

    def read(name: str) -> str:
        return zstandard.ZstdDecompressor().stream_reader((folder / name).read_bytes()).read().decode()

    queries = defaultdict(list)
    for name in ("train.jsonl.zst", "dev.half.jsonl.zst"):
        for line in read(name).splitlines():
            case = json.loads(line)
            queries[case["db_id"]].append(case["query"])
    found = {}
    for schema in json.loads(read("tables.json.zst")):
        tables: dict[str, list[str]] = {name: [] for name in schema["table_names_original"]}
        names = list(tables)
        columns = schema["column_names_original"]
        for index, name in columns:
            if index >= 0 and name not in tables[names[index]]:
                tables[names[index]].append(name)
        keys = [
            tuple(f"{names[columns[end][0]]}\0{columns[end][1]}" for end in pair)
            for pair in schema["foreign_keys"]
        ]
        keys = [pair for pair in keys if "." not in "".join(pair)]
        tables = {name: own for name, own in tables.items() if own}
        found[schema["db_id"]] = (
            {"tables": tables, "foreign_keys": [tuple(e.replace("\0", ".") for e in pair) for pair in keys]},
            queries[schema["db_id"]],
        )
    return found


def tekken() -> tt.Vocabulary | None:
    """The 131,072 tokens that come inside mistral-common, where that is installed."""
    try:
        import mistral_common
    except ImportError:
        return None
    path = Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    special, size = data["config"]["default_num_special_tokens"], data["config"]["default_vocab_size"]
    pieces = [b64decode(entry["token_bytes"]) for entry in data["vocab"][: size - special]]
    return tt.Vocabulary([None] * special + pieces, eos_token_id=2)


def sizes(automata: list[tuple[int, int]]) -> str:
    """States and edges, median and largest."""
    states, edges = zip(*automata, strict=True)
    return (
        f"states {int(statistics.median(states)):,} (median), {max(states):,} (most); "
        f"edges {int(statistics.median(edges)):,}, {max(edges):,}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--smoke", action="store_true", help="only the database written in this file")
    parser.add_argument("--depth", type=int, default=1, help="how deep queries nest")
    parser.add_argument("--columns", choices=["database", "tables"], default="database")
    parser.add_argument(
        "--failures", type=int, default=0, help="how many queries to list that are not accepted"
    )
    parser.add_argument("--limit", type=int, default=None, help="only so many databases")
    parser.add_argument("--lift", type=int, default=5, help="how many automata to lift to tokens")
    options = parser.parse_args()
    shared = Path(os.environ.get("TRACTILE_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    sets = {"own": (OWN, OWN_QUERIES)}
    if not options.smoke and (shared / "data/spider").is_dir():
        sets = dict(list(databases(shared / "data/spider").items())[: options.limit])
    elif not options.smoke:
        print(f"skipped: no {shared / 'data/spider'}")
    built: list[tt.Constraint] = []
    times: list[float] = []
    refused: Counter[str] = Counter()
    failures = []
    asked = accepted = 0
    for name, (schema, queries) in sets.items():
        asked += len(queries)
        begin = time.process_time()
        try:
            constraint = tt.sql(schema, columns=options.columns, max_depth=options.depth)
        except tt.TractileError as error:
            refused[f"{type(error).__name__}: {error}"] += 1
            continue
        times.append(time.process_time() - begin)
        built.append(constraint)
        texts = [normalised(query, schema) for query in queries]
        outside = [text for text in texts if not constraint.nfa.accepts(text.encode())]
        accepted += len(texts) - len(outside)
        failures += [f"{name}: {text}" for text in outside]
    spent = f"{statistics.median(times):.2f} s (median), {max(times):.2f} s (most)"
    print(f"databases     {len(built)} of {len(sets)} compiled, {spent}")
    print(f"over bytes    {sizes([(c.nfa.num_states, len(c.nfa.edges)) for c in built])}")
    print(f"gold queries  {accepted:,} of {asked:,} accepted: {accepted / asked:.2%}", flush=True)
    vocab = tekken()
    if vocab is None:
        print("over tokens   skipped: mistral-common is not installed")
    elif options.lift:
        chosen = sorted(built, key=lambda c: c.nfa.num_states)[:: max(1, len(built) // options.lift)]
        begin = time.process_time()
        lifted = [(t.num_states, len(t.source)) for t in (c.lift(vocab) for c in chosen)]
        spent = (time.process_time() - begin) / len(chosen)
        print(f"over tokens   {sizes(lifted)}; {len(chosen)} databases, {spent:.1f} s each")
    for reason, count in refused.most_common(5):
        print(f"    {count} databases: {reason}")
    for failure in failures[:: max(1, len(failures) // max(options.failures, 1))][: options.failures]:
        print(f"    {failure}")


if __name__ == "__main__":
    main()
