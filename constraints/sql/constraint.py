"""SQL queries on one database: Spider's subset of SQLite, with existing tables and columns only.

    query = core { (UNION | UNION ALL | INTERSECT | EXCEPT) core } [ORDER BY …] [LIMIT n]
    core  = SELECT [DISTINCT] items FROM tables [WHERE …] [GROUP BY … [HAVING …]]

Keywords are in capitals, tokens are separated as in ``SELECT T1.name, COUNT(*) FROM singer AS T1 WHERE age > 20``. The
nesting of subqueries is bounded. The automaton stays nondeterministic: with ``columns="tables"`` it guesses at SELECT which
tables FROM will name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import cache
from typing import Any, Literal, NamedTuple

from ...errors import TooManyStates, UnsupportedConstraint
from .. import limits, validation
from ..automata.dfa import minimize
from ..automata.nfa import Nfa, concat, literal, network, optional, union
from ..automata.work import limited, metered
from ..constraint import Constraint
from ..narrowing import Narrowing, OnNarrowed, check_choice, report
from ..regex.constraint import regex
from .schema import SqlSchema, escaped, read_schema

DEPTH = 1
WHY = "the automaton grows with each; the argument sets it"
AGAIN = "each FROM clause has a part of the automaton"
MOST_TABLES = 64  # SQLite's limit of tables in a join
AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX")
COMPOUNDS = (" UNION ", " UNION ALL ", " INTERSECT ", " EXCEPT ")
BOTH = (" AND ", " OR ")
COMPARISONS = (" = ", " != ", " < ", " > ", " <= ", " >= ")
CONSTANT = r"'(?:[^\0\n\r']|'')*'|-?[0-9]+(?:\.[0-9]+)?"
"""A text in single quotes or a number."""

Arc = tuple[int, Nfa | None, int]


class Scope(NamedTuple):
    """A FROM clause, the columns and ``*`` that go with it, and the most tables it names."""

    source: Nfa
    column: Nfa
    star: Nfa
    tables: int


def sql(
    schema: Any,
    *,
    columns: Literal["database", "tables"] = "database",
    values: Iterable[str | int | float] | None = None,
    max_tables: int | None = None,
    max_depth: int | None = None,
    on_narrowed: OnNarrowed = "warn",
) -> Constraint:
    """Accept SELECT queries in SQLite's language that name only what the database contains.

    ``schema`` is a dict of tables and their columns, a ``sqlite3`` connection, the path of a SQLite file, or ``CREATE TABLE``
    statements. ``columns="database"`` allows any column of the database anywhere. ``columns="tables"`` allows only those of
    the tables in the query's FROM clause, whose joins follow the foreign keys; SQLite can prepare every query accepted then. A
    table may be joined to itself by a key of its own, and named again where two tables have several keys.
    ``values`` are the only constants to compare with (default: any text or number; a connection or file supplies none).
    ``max_tables`` bounds how many tables a FROM clause joins (default 6; with ``columns="tables"`` 3, or 2 or 1 where the
    automaton would be too large), ``max_depth`` how deep queries nest (default 1).

    Queries have aggregates, DISTINCT, arithmetic, joins with aliases T1, T2, …, conditions with AND, OR, BETWEEN, IN, LIKE
    and subqueries, GROUP BY, HAVING, ORDER BY, LIMIT, and UNION, INTERSECT, EXCEPT. Keywords are in capitals, names as the
    database spells them, one space between tokens. ``narrowed`` says which of the two bounds leave out queries of this
    language, and that other joins which name a table again are left out. With ``on_narrowed="warn"`` a warning is logged for a
    bound that was not given, "error" raises ``UnsupportedConstraint``, "ignore" does nothing.

    Raises ``FormatError`` for a schema that cannot be read, ``EmptyLanguage`` for no tables, ``TooManyStates``.

    Examples
    --------
    >>> import tractile as tt
    >>> query = tt.constraints.sql("CREATE TABLE pets (name TEXT, age INTEGER);", on_narrowed="ignore")
    >>> query.accepts("SELECT name FROM pets WHERE age > 3"), query.accepts("SELECT owner FROM pets")
    (True, False)
    """
    validation.choice(columns, "columns", ("database", "tables"))
    strict = columns == "tables"
    size = 6 if max_tables is None else validation.count(max_tables, "max_tables", 1, MOST_TABLES)
    sizes = [3, 2, 1] if strict and max_tables is None else [size]
    check_choice(on_narrowed)
    own = {"columns": columns, "max_tables": max_tables, "max_depth": max_depth}
    depth = validation.count(DEPTH if max_depth is None else max_depth, "max_depth", 0, limits.DEPTH)
    known = read_schema(schema)
    with limited():
        given = constants(values)
    for size in sizes:
        with nullcontext() if size == sizes[-1] else suppress(TooManyStates), limited():
            scopes = tables_in_use(known, size) if strict else [everything(known, size)]
            automaton = Queries(list(scopes), given, strict).query(depth).plain
            break
    narrowed = [
        Narrowing("max_depth", "max_depth", "queries within queries at any depth", f"{depth} deep", WHY)
    ]
    if not strict or any(True for _ in known.chains(size + 1)):
        joined = Narrowing("max_tables", "max_tables", "any number of tables joined", size, WHY)
        narrowed.append(joined)
    if strict and any(len(pairs) == 1 for pairs in known.links().values()):
        again = "only tables that several pairs of columns join"
        narrowed.append(Narrowing("columns", "columns", "joins that name a table again", again, AGAIN))
    report(tuple(narrowed), on_narrowed, [name for name, value in own.items() if value is not None])
    return Constraint(automaton, tuple(narrowed))


# ---------------------------------------------------------------- FROM clauses


def everything(schema: SqlSchema, size: int) -> Scope:
    """Return the scope of ``columns="database"``: any chain of joins, any column of the database.

    A chain joins up to ``size`` tables as T1, T2, …; a column may have any alias or table before it.
    """
    tables = one_word(escaped(t) for t in schema.tables)
    names = one_word(escaped(c) for cs in schema.tables.values() for c in cs)
    aliases = one_word(f"T{i + 1}" for i in range(size))
    qualifier = row(union([aliases, tables]), ".")
    column = minimize(row(optional(qualifier), names))
    if size == 1:
        own = minimize(row(optional(row(tables, ".")), names))
        return Scope(tables, own, literal(b"*"), 1)
    on = row(" ON ", separated(row(column, " = ", column), *BOTH))
    # State 2i + 1: after table T(i + 1) and its optional alias; state 2i + 2: after its optional ON clause.
    arcs: list[Arc] = [(0, tables, 1), (1, None, 2), (1, word(" AS T1"), 2)]
    for i in range(1, size):
        joined = row(" JOIN ", tables, optional(word(f" AS T{i + 1}")))
        arcs += [(2 * i, joined, 2 * i + 1), (2 * i + 1, on, 2 * i + 2), (2 * i + 1, None, 2 * i + 2)]
    arcs += [(2 * i + 2, None, 2 * size + 1) for i in range(size)]
    every = row(optional(row(aliases, ".")), "*")
    return Scope(network(2 * size + 2, arcs, 0, 2 * size + 1), column, every, size)


def tables_in_use(schema: SqlSchema, size: int) -> Iterator[Scope]:
    """Yield the scope of each table and of each chain of up to ``size`` tables joined by foreign keys."""
    for table, names in schema.tables.items():
        plain = [escaped(name) for name in names]
        owned = [f"{escaped(table)}.{name}" for name in plain]
        yield Scope(word(escaped(table)), one_word([*plain, *owned]), literal(b"*"), 1)
    links = schema.links()
    for count in range(2, size + 1):
        for tables in schema.chains(count):
            parts: list[str | Nfa] = [f"{escaped(tables[0])} AS T1"]
            for i, right in enumerate(tables[1:], 1):
                sides = [
                    (f"T{j + 1}.{escaped(a)}", f"T{i + 1}.{escaped(b)}")
                    for j, left in enumerate(tables[:i])
                    for a, b in links.get((left, right), ())
                ]
                options = [" = ".join(side) for pair in sides for side in (pair, pair[::-1])]
                parts += [f" JOIN {escaped(right)} AS T{i + 1} ON ", one_word(options)]
            owned = [f"T{i + 1}.{escaped(c)}" for i, t in enumerate(tables) for c in schema.tables[t]]
            lower = [c.lower() for t in tables for c in schema.tables[t]]
            alone = [escaped(c) for t in tables for c in schema.tables[t] if lower.count(c.lower()) == 1]
            stars = one_word(["*", *(f"T{i + 1}.*" for i in range(count))])
            yield Scope(row(*parts), one_word([*owned, *alone]), stars, count)


@metered(maxsize=1)
def any_constant() -> Nfa:
    """Return the automaton of every text in single quotes and every number."""
    return minimize(regex(CONSTANT).nfa)


def constants(values: Iterable[str | int | float] | None) -> Nfa:
    """Return the automaton of the given values, or of every text and number if None."""
    if values is None:
        return any_constant()
    given = validation.items_of(values, "values", "values are a list")
    return one_word(constant(value, f"values[{i}]") for i, value in enumerate(given))


def constant(value: Any, path: str) -> str:
    """Write a value as in a query. Raises ``UnsupportedConstraint`` if it is no text or finite number."""
    if isinstance(value, str):
        return "'" + validation.check_text(value, path).replace("'", "''") + "'"
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise UnsupportedConstraint(f"a value is a text or number, not {validation.short(value)}", path=path)
    return repr(value)


# ---------------------------------------------------------------- queries


class Queries:
    """The automata of queries over the given FROM clauses.

    ``strict``: subqueries and the two parts of a compound have one column and contain no compound or subquery; a compound has
    no ORDER BY; a subquery names one table; HAVING compares with values only. Without these rules each FROM
    clause would multiply with every other.
    """

    def __init__(self, scopes: Sequence[Scope], value: Nfa, strict: bool) -> None:
        self.scopes, self.value, self.strict = scopes, value, strict
        self.query = cache(self.compound)

    def compound(self, depth: int, one_column: bool = False) -> Nfa:
        """Return one SELECT, or several joined by UNION and the like, with subqueries to ``depth``; ``query`` keeps them."""
        inner = self.strict and one_column
        if not self.strict:
            # so one ORDER BY and LIMIT go with every SELECT; they stand at the very end
            (scope,) = self.scopes
            core = self.core(scope, depth, one_column, ordered=False)
            ordered = optional(order_by(expression(scope.column)))
            return row(separated(core, *COMPOUNDS), ordered, optional(limit()))
        scopes = [scope for scope in self.scopes if scope.tables == 1 or not inner]
        cores = union([self.core(scope, depth, one_column) for scope in scopes])
        if one_column:
            return cores
        part = union([self.core(scope, 0, True, ordered=False) for scope in self.scopes])
        return union([cores, row(part, one_word(COMPOUNDS), part, optional(limit()))])

    def core(self, scope: Scope, depth: int, one_column: bool, ordered: bool = True) -> Nfa:
        """Return SELECT … with one FROM clause.

        States: 0 start, 1 after FROM, 2 after WHERE, 3 after GROUP BY, 4 after HAVING, 5 after ORDER BY, 6 end.
        """
        item = expression(scope.column)
        if not (one_column and self.strict):  # the number of columns does not matter
            item = union([item, scope.star])
        chosen = item if one_column else separated(item, ", ")
        begin = row("SELECT ", optional(word("DISTINCT ")), chosen, " FROM ", scope.source)
        condition = separated(self.predicate(arithmetic(scope.column), depth), *BOTH)
        grouped = row(" GROUP BY ", separated(scope.column, ", "))
        inner = 0 if self.strict else depth
        known = union([aggregate(scope.column), scope.column])
        having = separated(self.predicate(known, inner, having=True), *BOTH)
        arcs: list[Arc] = [
            (0, begin, 1), (1, None, 2), (1, row(" WHERE ", condition), 2), (2, grouped, 3),
            (3, None, 4), (3, row(" HAVING ", having), 4), (4, None, 6), (2, None, 6 if self.strict else 4),
        ]  # fmt: skip
        if ordered:
            # SQLite orders by aggregates only where there are groups.
            arcs += [(4, order_by(expression(scope.column)), 5), (4, None, 5)]
            arcs += [(2, order_by(arithmetic(scope.column)), 5), (2, None, 5)]
            arcs += [(5, None, 6), (5, limit(), 6)]
        return network(7, arcs, 0, 6)

    def predicate(self, operand: Nfa, depth: int, having: bool = False) -> Nfa:
        """Return a comparison.

        States: 0 start, 1 after the operand, 2 after an operator, 3 before a subquery, 4 end.
        """
        arcs: list[Arc] = [(0, operand, 1), (1, one_word(COMPARISONS), 2), (2, self.value, 4)]
        between = row(one_word([" BETWEEN ", " NOT BETWEEN "]), self.value, " AND ", self.value)
        like = row(one_word([" LIKE ", " NOT LIKE "]), any_constant())
        listed = row(one_word([" IN (", " NOT IN ("]), separated(self.value, ", "), ")")
        null = one_word([" IS NULL", " IS NOT NULL"])
        arcs += [(1, between, 4), (1, like, 4), (1, listed, 4), (1, null, 4)]
        if not (having and self.strict):
            arcs.append((2, operand, 4))
        if depth:
            within = row("(", self.query(depth - 1, True), ")")
            arcs += [(1, one_word([" IN ", " NOT IN "]), 3), (2, None, 3), (3, within, 4)]
        return network(5, arcs, 0, 4)


def expression(column: Nfa) -> Nfa:
    """Return a column or an aggregate, or several joined by arithmetic operators."""
    return arithmetic(union([column, aggregate(column)]))


def aggregate(column: Nfa) -> Nfa:
    """Return aggregates such as ``COUNT(*)``, ``MAX(DISTINCT a)``, ``SUM(a - b)``."""
    inside = row(optional(word("DISTINCT ")), arithmetic(column), ")")
    return union([word("COUNT(*)"), row(one_word(f"{name}(" for name in AGGREGATES), inside)])


def order_by(key: Nfa) -> Nfa:
    """Return ORDER BY … with an optional direction for each key."""
    directed = row(key, optional(one_word([" ASC", " DESC"])))
    return row(" ORDER BY ", separated(directed, ", "))


def limit() -> Nfa:
    """Return LIMIT and a number."""
    return row(" LIMIT ", regex("[0-9]+").nfa)


def arithmetic(operand: Nfa) -> Nfa:
    """Return an operand, or several with + - * / between them."""
    return separated(operand, " + ", " - ", " * ", " / ")


# ---------------------------------------------------------------- small automata


def word(text: str) -> Nfa:
    """Return the automaton of exactly this word."""
    return literal(text.encode())


def row(*parts: str | Nfa) -> Nfa:
    """Return the concatenation of automata; a text stands for itself."""
    return concat([word(part) if isinstance(part, str) else part for part in parts])


def one_word(options: Iterable[str]) -> Nfa:
    """Return the minimal automaton that accepts these words."""
    return any_word(tuple(options))


@metered(maxsize=1024)
def any_word(options: tuple[str, ...]) -> Nfa:
    """Return the minimal automaton of any of these words, cached."""
    return minimize(union(map(word, options)))


def separated(item: Nfa, *between: str) -> Nfa:
    """Return the automaton of one or more items with one of some words between each two."""
    return network(2, [(0, item, 1), (1, one_word(between), 0)], 0, 1)
