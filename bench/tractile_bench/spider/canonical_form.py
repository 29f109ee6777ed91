"""Convert SQL queries to the canonical form that :func:`tractile.constraints.sql` writes:

keywords and functions in capitals, identifiers as the database spells them, aliases T1, T2, … by appearance,
strings in single quotes, one space between tokens, none inside parentheses or before commas, no `;` at the end;
`<>` as `!=`, no parentheses around the one column of DISTINCT, no names for result columns
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from tractile.constraints.sql.schema import escaped

Tables = Mapping[str, Sequence[str]]

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
ALIAS = re.compile(r"T\d+")


def normalised(query: str, tables: Tables) -> str:
    """Convert a query to the canonical form for a database of these tables and columns."""
    text = before = earlier = ""
    for now in tokens(query, tables):
        glued = (
            not text or now in (",", ")", ".") or before in ("(", ".") or (now == "(" and before in FUNCTIONS)
        )
        sign = before == "-" and (earlier.lower() in KEYWORDS or re.fullmatch("[(,=<>]|!=|<=|>=", earlier))
        text += now if glued or sign else f" {now}"
        earlier, before = before, now
    return text


def tokens(query: str, tables: Tables) -> list[str]:
    """Return the tokens of the query's canonical form."""
    named = {table.lower(): escaped(table) for table in tables}
    columns = {c.lower(): escaped(c) for names in tables.values() for c in names}
    found = list(TOKEN.finditer(query.strip().rstrip(";").strip()))
    read: list[str] = []
    for i, match in enumerate(found):
        is_table = read[-1:] in (["FROM"], ["JOIN"]) or (
            i + 1 < len(found) and found[i + 1]["sign"] == "." and bool(match["word"] or match["string"])
        )
        read.append(_token(match, {**columns, **named} if is_table else {**named, **columns}))
    return _bare_distinct(_renamed(read))


def tables_named(query: str, tables: Tables) -> frozenset[str]:
    """Return the tables in all FROM clauses of a query, as the database spells them."""
    read = tokens(query, tables)
    named = {escaped(table): table for table in tables}
    return frozenset(
        named[now] for before, now in pairwise(read) if before in ("FROM", "JOIN") and now in named
    )


def _token(match: re.Match[str], names: Mapping[str, str]) -> str:
    """Convert one token: keywords to capitals, names to the database's spelling, strings to single quotes."""
    text = match[0].strip()
    if match["string"]:
        inside = text[1:-1]
        if text[0] == "`" or (text[0] == '"' and '"' in names.get(inside.lower(), "")):
            return names.get(inside.lower(), inside)
        return "'" + inside.replace('""', '"').replace("'", "''") + "'" if text[0] == '"' else text
    if match["word"]:
        if text.lower() in KEYWORDS or re.fullmatch(r"[tT]\d+", text):
            return text.upper()
        return names.get(text.lower(), text)
    return "!=" if text == "<>" else text


def _renamed(read: list[str]) -> list[str]:
    """Rename the table aliases of each query to T1, T2, …, and drop aliases of result columns.

    If renaming would let an inner alias hide an outer one, the tokens are returned unchanged."""
    scope_of, stack = [], [0]
    parent = {0: 0}
    aliases: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for i, now in enumerate(read):
        if now == "SELECT":
            outer = stack.pop()
            stack.append(len(parent))
            parent[stack[-1]] = parent[outer] if read[i - 1 : i] != ["("] else outer
        stack += [stack[-1]] if now == "(" else []
        scope_of.append(stack[-1])
        if now == ")" and len(stack) > 1:
            stack.pop()
        if now == "AS" and i >= 2 and read[i - 2] in ("FROM", "JOIN") and i + 1 < len(read):
            own = aliases[stack[-1]]
            own[read[i + 1]] = f"T{len(own) + 1}"
    kept: list[str] = []
    for i, now in enumerate(read):
        scope = scope_of[i]
        while scope and now not in aliases[scope]:
            scope = parent[scope]
        if read[i + 1 : i + 2] == ["."] or read[i - 1 : i] == ["AS"]:
            now = aliases[scope].get(now, now)
            if scope != scope_of[i] and now in aliases[scope_of[i]].values():
                return read  # an outer query's table, whose new alias would be hidden by the inner query's
        if kept[-1:] == ["AS"] and not ALIAS.fullmatch(now):
            kept.pop()
        else:
            kept.append(now)
    return kept


def _bare_distinct(read: list[str]) -> list[str]:
    """Rewrite ``DISTINCT (a)`` as ``DISTINCT a``."""
    kept: list[str] = []
    for now in read:
        kept.append(now)
        if now == ")" and kept[-4:-2] == ["DISTINCT", "("]:
            kept[-3:] = kept[-2:-1]
    return kept
