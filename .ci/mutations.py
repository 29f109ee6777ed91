"""Small changes of Python code, each of which a test should notice.

A mutant is a file with one change. The kinds are those of `KINDS`; there are no others. Left alone is what no test is meant to
notice: docstrings, annotations, decorators, the texts of errors and f-strings, imports, `__all__`,
blocks for type checkers, and ``strict=`` of zip, which guards what the code before it makes sure of.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

KINDS = {
    "comparison": "< and <=, > and >=, == and !=, is and is not, in and not in exchanged",
    "arithmetic": "+ and -, * and /, | and &, << and >> exchanged; / for //, * for @ and **, // for %, & for ^; - or ~ left out",
    "constant": "a number and one more, True and False, a string and XX",
    "boolean": "and and or exchanged; not left out",
    "return": "None for the value",
    "argument": "a keyword argument, or the last of several others, left out",
    "statement": "a call, raise, assert, break, continue, del, or assignment in place or to a part, left out",
}
COMPARISONS = (
    (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn),
)  # fmt: skip
PAIRS = ((ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.BitOr, ast.BitAnd), (ast.LShift, ast.RShift))
COMPARED = {a: b for pair in COMPARISONS for a, b in (pair, pair[::-1])}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {a: b for p in PAIRS for a, b in (p, p[::-1])}
COMPUTED |= {ast.FloorDiv: ast.Div, ast.MatMult: ast.Mult, ast.Pow: ast.Mult, ast.Mod: ast.FloorDiv}
COMPUTED |= {ast.BitXor: ast.BitAnd}
DELETED = (ast.Raise, ast.Assert, ast.Break, ast.Continue, ast.Delete, ast.AugAssign)


class Change(NamedTuple):
    """``setattr(node, field, value)`` makes the mutant. `inside`: it is code of a function, not of the module or a class."""

    kind: str
    node: ast.AST
    field: str
    value: Any
    shown: ast.expr | ast.stmt
    inside: bool


class Mutant(NamedTuple):
    """The `number`-th change of a file; `lines` are those of the changed expression, `before` and `after` its text."""

    file: str
    number: int
    kind: str
    lines: tuple[int, int]
    inside: bool
    before: str
    after: str


def mutants(file: str, source: str) -> list[Mutant]:
    """All mutants of a source file."""
    found = []
    for number, change in enumerate(changes(ast.parse(source))):
        kept, before = getattr(change.node, change.field), ast.unparse(change.shown)
        span = (change.shown.lineno, change.shown.end_lineno or change.shown.lineno)
        setattr(change.node, change.field, change.value)
        after = "" if change.kind == "statement" else ast.unparse(change.shown)
        setattr(change.node, change.field, kept)
        found.append(Mutant(file, number, change.kind, span, change.inside, before, after))
    return found


def mutated(source: str, number: int) -> ast.Module:
    """The syntax tree of the `number`-th mutant; its lines are those of the source."""
    tree = ast.parse(source)
    change = list(changes(tree))[number]
    setattr(change.node, change.field, change.value)
    return ast.fix_missing_locations(tree)


def changes(tree: ast.Module) -> Iterator[Change]:
    """The changes of a file, in the order of the tree."""
    yield from _statements(tree, inside=False)


def _statements(node: ast.AST, inside: bool) -> Iterator[Change]:
    """Of all statements below a node, and of the expressions in them."""
    for field, children in ast.iter_fields(node):
        if not isinstance(children, list):
            children = [children]
        for index, child in enumerate(children):
            if isinstance(child, ast.stmt):
                if _is_left_alone(child, index):
                    continue
                if isinstance(child, DELETED) or _is_effect(child):
                    rest: list[ast.stmt] = [ast.copy_location(ast.Pass(), child)]
                    value = children[:index] + rest + children[index + 1 :]
                    yield Change("statement", node, field, value, child, inside)
                yield from _of_statement(child, inside)
            elif isinstance(child, (ast.ExceptHandler, ast.match_case)):
                yield from _statements(child, inside)


def _of_statement(node: ast.stmt, inside: bool) -> Iterator[Change]:
    """Of one statement: its own expressions, then the statements below it."""
    if isinstance(node, ast.Return) and not (node.value is None or _is_none(node.value)):
        none = ast.copy_location(ast.Constant(None), node)
        yield Change("return", node, "value", none, node, inside)
    if isinstance(node, ast.AugAssign) and type(node.op) in COMPUTED:
        yield Change("arithmetic", node, "op", COMPUTED[type(node.op)](), node, inside)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            yield from _expressions(default, inside, texts=True)
        yield from _statements(node, inside=True)
        return
    for field, children in ast.iter_fields(node):
        if field == "annotation" or (isinstance(node, ast.ClassDef) and field == "decorator_list"):
            continue
        for child in children if isinstance(children, list) else [children]:
            if isinstance(child, ast.withitem):
                yield from _expressions(child.context_expr, inside, texts=True)
            elif isinstance(child, ast.expr):
                yield from _expressions(child, inside, texts=not isinstance(node, ast.Raise))
    yield from _statements(node, inside)


def _expressions(node: ast.AST | None, inside: bool, texts: bool) -> Iterator[Change]:
    """Of an expression and those in it; `texts`: strings too."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("cast", "TypeVar"):
        node = node.args[-1]
    if isinstance(node, ast.expr):
        yield from _of_expression(node, inside, texts)
    if isinstance(node, ast.JoinedStr):
        texts = False
    if node is not None:
        deeper = inside or isinstance(node, ast.Lambda)
        for child in ast.iter_child_nodes(node):
            if not (isinstance(child, ast.keyword) and child.arg == "strict"):
                yield from _expressions(child, deeper, texts)


def _of_expression(node: ast.expr, inside: bool, texts: bool) -> Iterator[Change]:
    match node:
        case ast.Compare(ops=ops):
            for i, op in enumerate(ops):
                value = [*ops[:i], COMPARED[type(op)](), *ops[i + 1 :]]
                yield Change("comparison", node, "ops", value, node, inside)
        case ast.BinOp(op=op):
            yield Change("arithmetic", node, "op", COMPUTED[type(op)](), node, inside)
        case ast.BoolOp(op=op):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield Change("boolean", node, "op", other, node, inside)
        case ast.UnaryOp(op=ast.Not()):
            twice = ast.copy_location(ast.UnaryOp(ast.Not(), node.operand), node)
            yield Change("boolean", node, "operand", twice, node, inside)
        case ast.UnaryOp(op=ast.USub() | ast.Invert()):
            yield Change("arithmetic", node, "op", ast.UAdd(), node, inside)
        case ast.Constant(value=bool(value)):
            yield Change("constant", node, "value", not value, node, inside)
        case ast.Constant(value=int(value) | float(value)) if math.isfinite(value):
            yield Change("constant", node, "value", value + 1, node, inside)
        case ast.Constant(value=str(value)) if texts:
            yield Change("constant", node, "value", value + "XX", node, inside)
        case ast.Call(args=args, keywords=keywords):
            if len(args) > 1:
                yield Change("argument", node, "args", args[:-1], node, inside)
            for i, keyword in enumerate(keywords):
                if keyword.arg != "strict":
                    rest = keywords[:i] + keywords[i + 1 :]
                    yield Change("argument", node, "keywords", rest, node, inside)


def _is_left_alone(node: ast.stmt, index: int) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring, or `...`
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
        return True
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return any(ast.unparse(d).split(".")[-1] == "overload" for d in node.decorator_list)
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _is_effect(node: ast.stmt) -> bool:
    """Whether a statement is there for what it changes: a call, or an assignment to a part of something."""
    if isinstance(node, ast.Assign):
        return all(isinstance(t, (ast.Attribute, ast.Subscript)) for t in node.targets)
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
