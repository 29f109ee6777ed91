"""Digests of compiled programs, printed as JSON: run in two processes, they must be the same.

``python same_program.py [FILE FIRST EVERY]``: of the constraints below, and of the schemas of a file of JSON lines.
"""

import gzip
import hashlib
import json
import sys
from pathlib import Path

import tractile as tt
from tractile.errors import TractileError

C = tt.constraints
WORDS = ["delta", "alpha", "echo", "bravo", "charlie", "foxtrot", "golf"]
SCHEMAS = {
    "distinct words": {"type": "array", "items": {"enum": WORDS}, "uniqueItems": True},
    "equal words": {"type": "array", "items": {"enum": WORDS}, "not": {"uniqueItems": True}},
    "names": {"propertyNames": {"enum": WORDS}, "minProperties": 2},
    "patterns": {
        "patternProperties": {f"^{word}": {"enum": [i]} for i, word in enumerate(WORDS)},
        "required": WORDS,
    },
    "other names": {"not": {"propertyNames": {"enum": WORDS}}, "properties": dict.fromkeys(WORDS, True)},
    "other words": {"not": {"enum": WORDS}, "pattern": "a", "format": "hostname", "maxLength": 40},
    "one of": {"oneOf": [{"required": [word]} for word in WORDS[:4]]},
    "counted": {"contains": {"enum": WORDS}, "minContains": 2, "maxContains": 3},
}
EXPRESSIONS = 'a ::= b "x" | c "y" | "1"\nb ::= a "+" c | c | "2"\nc ::= a | b "*" | "3"\nroot ::= a'
LAZY = "start: (A | B | D)*\nA[lazy]: /a.*x/\nB[lazy]: /a.*y/\nD: /a[a-z]*/"
CONSTRAINTS = {
    **{
        name: lambda schema=schema: C.json_schema(schema, on_narrowed="ignore")
        for name, schema in SCHEMAS.items()
    },
    "rules that begin with each other": lambda: C.grammar(EXPRESSIONS, syntax="gbnf"),
    "first matches": lambda: C.grammar(LAZY, syntax="lark"),
    "anchors": lambda: C.regex(r"(?i)\b(straße|kiss)\b.*|^é$"),
    "keywords": lambda: C.keywords(WORDS, inflections=False),
}


def digest(root):
    """A digest of a program by its shape alone: nodes are numbered as they are met from the root."""
    number, order, found = {root: 0}, [root], hashlib.sha256()
    for node in order:  # grows meanwhile
        for part in node.parts:
            if part not in number:
                number[part] = len(order)
                order.append(part)
        given = node.kind.name, node.low, node.high, node.required, node.members, node.ordered
        found.update(repr((given, [number[part] for part in node.parts])).encode())
        for table in node.tables:
            while table is not None:
                for each in (table.edges, table.label, table.between):
                    found.update(each.tobytes())
                table = table.base
    return found.hexdigest()


def compiled(make):
    try:
        constraint = make()
    except TractileError as error:
        return f"{type(error).__name__}: {error}"
    kept = hashlib.sha256(constraint.to_bytes()).hexdigest()
    return "".join([digest(constraint.program), kept, *map(str, constraint.narrowed)])


def digests(path=None, first=0, every=1):
    """A digest of each constraint, and of the schemas of a file, by its name."""
    found = {name: compiled(make) for name, make in CONSTRAINTS.items()}
    lines = gzip.decompress(Path(path).read_bytes()).splitlines() if path else []
    for row in map(json.loads, lines[int(first) :: int(every)]):
        found[row["id"]] = compiled(lambda row=row: C.json_schema(row["schema"], on_narrowed="ignore"))
    return found


if __name__ == "__main__":
    json.dump(digests(*sys.argv[1:]), sys.stdout)
