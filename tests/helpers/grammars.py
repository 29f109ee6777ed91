"""Grammars, and random walks over them within budgets."""

from parts_oracle import Either, Leaf, Repeated, Series, Tokens

ARITHMETIC = """
    start: sum
    sum: sum "+" product | sum "-" product | product
    product: product "*" atom | product "/" atom | atom
    atom: NUMBER | "-" atom | "(" sum ")"
    NUMBER: /[0-9]+/
"""
JSON = r"""
    start: value
    value: object | array | STRING | NUMBER | "true" | "false" | "null"
    array: "[" [value ("," value)*] "]"
    object: "{" [pair ("," pair)*] "}"
    pair: STRING ":" value
    STRING: /"([^"\\\x00-\x1f]|\\(["\\\/bfnrt]|u[0-9a-fA-F]{4}))*"/
    NUMBER: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/
    %ignore /[ \t\n\r]+/
"""
STATEMENTS = r"""
    root ::= block
    block ::= (statement ws)*
    statement ::= "if" ws "(" ws expr ws ")" ws statement (ws "else" ws statement)? | "{" ws block "}" | assignment
    assignment ::= name ws "=" ws expr ws ";"
    expr ::= expr ws [-+*/<] ws expr | "(" ws expr ws ")" | name ws "(" ws (expr (ws "," ws expr)*)? ws ")" | name | [0-9]+
    name ::= [a-z]+
    ws ::= [ \n]*
"""
JAVA = r"""
start: unit
unit: "class " NAME " {" member* "}"
member: type NAME "(" [type NAME ("," type NAME)*] ")" block | type NAME ["=" e] ";"
type: NAME | NAME "<" type ("," type)* ">" | type "[]" | "int"
block: "{" statement* "}"
statement: block | type " " NAME ["=" e] ";" | e ";" | "if(" e ")" statement ["else " statement] | "return " e ";" | ";"
e: e OP e | "(" type ")" e | "(" e ")" | e "." NAME | e "(" [e ("," e)*] ")" | e "[" e "]" | "new " type "(" ")" | NAME | NUMBER
   | STRING | [params] "->" (e | block)
params: NAME | "(" [NAME ("," NAME)*] ")"
OP: "+" | "-" | "*" | "<" | ">" | "==" | "=" | "&&"
NAME: /[a-z][a-zA-Z]*/
NUMBER: /[0-9]+/
STRING: /"[^"\\\n]*"/
"""
MOLECULES = r"""
start: chain ("." chain)*
chain: part* atom closure*
part: atom closure* branch* bond?
branch: "(" bond? chain ")"
closure: bond? /[1-9]|%[1-9][0-9]/
bond: /[-=#$:]/
atom: "B" | "Br" | "C" | "Cl" | "N" | "O" | "P" | "S" | "F" | "I" | /[bcnops]/ | "[" /[0-9]{0,3}/ symbol "H"? /[-+]?/ "]"
symbol: "C" | "Co" | "O" | "Os" | "Si" | "S" | "Sn" | /[cnos]|se/
"""


def walk(query, vocab, budget, rng):
    """One text within a budget by random tokens of the masks; every mask must allow one."""
    query.start(budgets=budget)
    text = b""
    for left in range(budget, 0, -1):
        tokens = query.mask()[0].nonzero()[:, 0].tolist()
        assert tokens, f"nothing is allowed after {text!r} with {left} tokens left"
        token = rng.choice(tokens)
        query.advance([token])
        if token == vocab.eos_token_id:
            return text
        text += vocab.token_bytes[token]
    raise AssertionError(f"{text!r} has no end within {budget} tokens")


def least(query):
    return int(query.feasible_lengths().nonzero()[0, 0])


def lark(node):
    """An expression as a grammar in Lark's format, with a rule for each budget."""
    rules = []

    def written(node):
        match node:
            case Leaf():
                return f"/{node.pattern}/"
            case Either():
                return f"({' | '.join(map(written, node.options))})"
            case Series():
                return f"({' '.join(map(written, node.parts))})"
            case Repeated():
                times = {None: "*" if node.low == 0 else "+"}.get(node.high, f"~{node.low}..{node.high}")
                return f"({written(node.part)}){times}"
        name = f"x{len(rules)}"
        rules.append(name)
        rules[rules.index(name)] = f"{name}[max_tokens={node.at_most}]: {written(node.part)}"
        return name

    start = written(node)
    return "\n".join([f"start: {start}", *rules])


BALANCED = Leaf("|ab|aabb|aaabbb|aaaabbbb|aaaaabbbbb|aaaaaabbbbbb")
CASES = {
    "at the end of a recursive rule": (
        'start: "a" start | x\nx[max_tokens=1]: /b*/',
        Series((Leaf("a*"), Tokens(Leaf("b*"), 1, 0))),
    ),
    "recursive itself": (
        'start: x y\nx[max_tokens=1]: "a"\ny[max_tokens=2]: "a" y "b" |',
        Series((Tokens(Leaf("a"), 1, 0), Tokens(BALANCED, 2, 0))),
    ),
    "before a recursive rule": (
        'start: x y\nx[max_tokens=1]: /[ab]+/\ny: "a" y "b" |',
        Series((Tokens(Leaf("[ab]+"), 1, 0), BALANCED)),
    ),
    "what is ignored counts": (
        'start: x y\n%ignore "b"\nx[max_tokens=1]: "a"\ny[max_tokens=2]: "a"',
        Series((Tokens(Leaf("b*a"), 1, 0), Tokens(Leaf("b*a"), 2, 0), Leaf("b*"))),
    ),
    "lazy": ('start: x "b"\nx[max_tokens=2, lazy]: /a*b/', Series((Tokens(Leaf("a*b"), 2, 0), Leaf("b")))),
    "suffix": (
        'start: x /b+/\nx[max_tokens=2, suffix="b"]: /a*/',
        Series((Tokens(Leaf("a*b"), 2, 0), Leaf("b+"))),
    ),
    "within a recursive rule": (
        'start: x | "a" start "b"\nx[max_tokens=1]: /b+/',
        Either(
            (
                Tokens(Leaf("b+"), 1, 0),
                Series((Leaf("a"), Tokens(Leaf("b+"), 1, 0), Leaf("b"))),
                Series((Leaf("aa"), Tokens(Leaf("b+"), 1, 0), Leaf("bb"))),
            )
        ),
    ),
    "lazy beside others": (
        'start: (x | y) "b"\nx[lazy]: /a*b/\ny[max_tokens=2]: /[ab]*/',
        Series((Either((Leaf("a*b"), Tokens(Leaf("a*"), 2, 0))), Leaf("b"))),
    ),
    "of a nested grammar": (
        'start: x /b+/\nx[max_tokens=3]: %lark { start: "b" y\ny[max_tokens=1, lazy]: /a*b/ }',
        Series((Tokens(Series((Leaf("b"), Tokens(Leaf("a*b"), 1, 0))), 3, 0), Leaf("b+"))),
    ),
    "of a template": (
        'start: x{A} x{B}\nA: "a"\nB: "b"\nx[max_tokens=1]{y}: y y?',
        Series((Tokens(Leaf("aa?"), 1, 0), Tokens(Leaf("bb?"), 1, 0))),
    ),
}
