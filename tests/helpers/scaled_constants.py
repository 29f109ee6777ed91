"""What some constraints answer where the constants of ``constraints/`` that are no limits (`limits.TABLE`) are scaled.

    python tests/helpers/scaled_constants.py NUM DEN    prints, as JSON, the names of what was scaled, and the answers

The sources are changed as they are imported, so a constant is another wherever it is used, sizes of caches too.
"""

import ast
import importlib.abc
import importlib.machinery
import json
import random
import sys
from importlib.util import find_spec
from pathlib import Path

MARKS = {
    "automata.nfa", "automata.utf8", "canonical.bpe", "canonical.marked_text", "canonical.priority_nfa", "core", "difference",
    "engine.tokens", "grammar.look_ahead", "json.closed_objects", "json.drafts", "json.type_decimals",
    "json.type_members", "json.vocabulary", "lift", "limits", "regex.first_match", "report", "cache.store", "sql.constraint",
}  # fmt: skip
"""Modules whose numbers are marks, states, versions, defaults of arguments, or limits that users are told."""
MARK = {"ANY"}
ROOM = "tractile.constraints."


class Scaled(ast.NodeTransformer):
    """Scales the constants of a module, and what its caches keep."""

    def __init__(self, module, limits, num, den):
        self.module, self.limits, self.num, self.den, self.names = module, limits, num, den, []

    def scaled(self, value, name):
        found = eval(compile(ast.Expression(value), "", "eval"))
        self.names.append(f"{self.module}.{name}")
        return ast.copy_location(ast.Constant(type(found)(max(1, found * self.num // self.den))), value)

    def visit_Module(self, node):
        for each in node.body:
            if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
                name = each.targets[0].id
                if (
                    name.isupper()
                    and name not in MARK
                    and f"{self.module}.{name}" not in self.limits
                    and is_number(each.value)
                ):
                    each.value = self.scaled(each.value, name)
        return self.generic_visit(node)

    def visit_Call(self, node):
        for each in node.keywords:
            if each.arg == "maxsize" and is_number(each.value):
                each.value = self.scaled(each.value, "maxsize")
        return self.generic_visit(node)


def is_number(value):
    if isinstance(value, ast.BinOp):
        return is_number(value.left) and is_number(value.right)
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


class Loader(importlib.machinery.SourceFileLoader):
    """Compiles a module from the sources with scaled constants."""

    def get_code(self, fullname):
        source = ast.parse(self.get_data(self.path))
        scaled = Scaled(fullname.removeprefix(ROOM), LIMITS, *SCALE)
        found = compile(ast.fix_missing_locations(scaled.visit(source)), self.path, "exec")
        NAMES.extend(scaled.names)
        return found


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of the constraints, but for those of :data:`MARKS`."""

    def find_spec(self, fullname, path, target=None):
        if not fullname.startswith(ROOM) or fullname.removeprefix(ROOM) in MARKS:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        if found is not None and isinstance(found.loader, importlib.machinery.SourceFileLoader):
            found.loader = Loader(fullname, found.origin)
        return found


def listed_limits():
    """The names in ``limits.TABLE``, read without importing the package."""
    folder = find_spec("tractile").submodule_search_locations[0]
    tree = ast.parse(Path(folder, "constraints", "limits.py").read_text(encoding="utf-8"))
    calls = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Limit"
    )
    return {node.args[0].value.partition(":")[0] for node in calls}


OPEN = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "null"}}, "required": ["b"]}
LETTERS, INTEGER = "abcdefghij", {"type": "integer"}


def nested(depth, schema, around):
    """A schema within others, each referred to by the next."""
    levels = {f"n{i}": around({"$ref": f"#/$defs/n{i + 1}"}) for i in range(depth)}
    return {"$defs": levels | {f"n{depth}": schema}, "$ref": "#/$defs/n0"}


SCHEMAS = [
    {},
    OPEN,
    OPEN | {"additionalProperties": False, "minProperties": 1},
    {"type": "object", "minProperties": 3},
    {"type": "object", "propertyNames": {"pattern": "^[a-c]{1,3}$"}, "maxProperties": 4},
    {"type": "object", "not": {"propertyNames": {"enum": ["a", "b"]}}},
    {"type": "object", "properties": dict.fromkeys(LETTERS, INTEGER), "required": list(LETTERS[:4])},
    {"type": "object", "patternProperties": {"^x": INTEGER, "y$": {"minimum": 3}}, "additionalProperties": {"maxLength": 9}},
    {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 2},
    {"type": "array", "items": {"enum": [1, 10, 100, "a"]}, "uniqueItems": True, "maxItems": 3},
    {"type": "array", "items": INTEGER, "contains": {"minimum": 5}, "minContains": 2, "maxContains": 3},
    {"type": "array", "prefixItems": [{"const": 1}, {"type": "string", "maxLength": 3}], "items": False},
    {"type": "array", "items": {"type": "array", "items": INTEGER, "maxItems": 40}, "minItems": 3, "maxItems": 50},
    {"type": "string", "minLength": 20, "maxLength": 300},
    {"type": "string", "pattern": "^(ab|cd){3,60}x?$"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "email"},
    {"type": "string", "enum": [f"value {i}" for i in range(60)]},
    {"type": "number", "minimum": -3.5, "exclusiveMaximum": 120},
    {"type": "integer", "multipleOf": 7, "minimum": 30},
    {"oneOf": [{"type": "integer", "minimum": 3}, {"type": "integer", "maximum": 5}, {"type": "string", "maxLength": 2}]},
    {"type": "object", "anyOf": [{"properties": {"kind": {"const": k}, k: INTEGER}, "required": ["kind", k]} for k in LETTERS]},
    {"allOf": [{"anyOf": [{"required": [a]}, {"required": [b]}]} for a, b in ("ab", "cd", "ef")], "type": "object"},
    {"type": "object", "properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}, "additionalProperties": False},
    nested(40, {"const": 1}, lambda inside: {"type": "array", "items": inside, "minItems": 1}),
    nested(6, False, lambda inside: {"type": "object", "required": ["a"], "properties": {"a": inside}}),
    {"type": "object", "required": ["a"], "properties": {"a": {"type": "array", "minItems": 1, "items": False}}},
]  # fmt: skip
REGEXES = [
    "(?:[a-c]{2,40}d){1,30}",
    "(?s).*(?:abab|bb).*",
    "[^a]{1,100}[^b]{1,100}",
    r"\bfoo\b.{0,40}",
    "(?i)straße|ÉTÉ",
    "(a|b)*abb(a|b){12}",
]
GRAMMARS = [
    ("gbnf", 'root ::= item ("," item){2,40}\nitem ::= [a-c]+ | "(" root ")"'),
    ("lark", 'start: e\n?e: e "+" t | t\n?t: t "*" f | f\n?f: /[0-9]+/ | "(" e ")"'),
    ("lark", "start: (A | B){3,50}\nA: /a{1,20}/\nB: /b[^b]*b/"),
]


def constraints():
    """Yield functions that make constraints."""
    from tractile import constraints as c

    for schema in SCHEMAS:
        for more in ({}, {"order": "declared", "whitespace": "none"}):
            yield lambda schema=schema, more=more: c.json_schema(
                schema, on_narrowed="ignore", formats="assert", **more
            )
    for pattern in REGEXES:
        yield lambda pattern=pattern: c.regex(pattern)
    for syntax, text in GRAMMARS:
        yield lambda syntax=syntax, text=text: c.grammar(text, syntax=syntax)
    yield lambda: c.json_schema(OPEN) & ~c.regex(".*12.*")
    yield lambda: c.regex("(ab|c){2,30}") - c.regex(".*cc.*")


WORDS = [b'","', b'": ', b'{"', b'["', b'"}', b"], ", b"ab", b"cd", b"100", b"value ", b"12"]


def answers():
    """Return for each constraint what it answers: errors by their type, "-" where it is refused as too large."""
    import tractile as tt

    vocab = tt.Vocabulary([None, *(bytes([byte]) for byte in range(256)), *WORDS], 0)
    found = []
    for make in constraints():
        here = []
        try:
            constraint = make()
            here.append(constraint.is_empty())
            here.append(None if here[0] else len(constraint.shortest()))
            automaton = constraint.compile(vocab)
            least = automaton.fewest_after([])
            here.append(least)
            for more, rng in ((None, random.Random(1)), (0, random.Random(2)), (3, random.Random(3))):
                query = (
                    tt.lcd(automaton).start(1) if more is None else tt.gcd(automaton, least + more).start(1)
                )
                for _ in range(12 if more is None else least + more):
                    mask = query.mask()[0].nonzero().flatten().tolist()
                    here.append(mask if query.exact else "~")
                    token = rng.choice(mask) if mask else 0
                    if token == 0 or not query.exact:
                        break
                    query.advance([token])
        except (tt.errors.TooManyStates, tt.errors.ConstructionStopped):
            here.append("-")
        except tt.TractileError as error:
            here.append(type(error).__name__)
        found.append(here)
    return found


SCALE = tuple(map(int, sys.argv[1:3])) if __name__ == "__main__" else (1, 1)
NAMES: list[str] = []
LIMITS = listed_limits() if __name__ == "__main__" else set()

if __name__ == "__main__":
    sys.meta_path.insert(0, Finder())
    found = answers()
    print(json.dumps([NAMES, found]))
