"""Regular expressions, grammars, tools and databases made to exhaust the compiler, for ``hostile.py``."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import tractile as tt

Make = Callable[[], tt.constraints.Constraint]
UPPER, LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
WORDS = [f"{a}{b}{c}" for a in "bdfglmnprst" for b in "aeiou" for c in "bdglmnprst"]


def patterns() -> dict[str, str]:
    """Regular expressions."""
    dice = random.Random(0)
    points = sorted(dice.sample(range(0x80, 0x30000), 400))
    ranges = "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in zip(points[::2], points[1::2], strict=True))
    return {
        "look-aheads, ten of .*": "^" + "".join(f"(?=.*{c})" for c in UPPER[:10]) + ".*$",
        "look-aheads, ten classes": "^" + "".join(f"(?=.*[{c}{d}])" for c, d in zip(UPPER, LOWER[:10], strict=False)) + ".+$",
        "look-aheads, counted": r"^(?=.{1,50}$)(?=(.*[A-Z]){3})(?=(.*\d){4})(?=(.*[a-z]){5})\S+$",
        "look-aheads, counted up to": r"^(?=.{8,100}$)(?=(?:.*[A-Z]){2,9})(?=(?:.*[0-9]){2,9})(?=(?:.*[!-/]){2,9}).*$",
        "look-aheads, counted more": r"^(?=(.*a){9})(?=(.*b){9})(?=(.*c){9})(?=(.*d){9}).*$",
        "look-aheads, negative": r"^(?!.*(.)x{3,20}y)(?!.*z{5,30}q)(?!.*[ab]{20}c)\w{1,64}$",
        "look-aheads, from the end": r"^(?=.*a.{12}$)(?=.*b.{13}$)(?=.*c.{14}$).*$",
        "look-aheads, distances": r"^(?=.*a.{5,15}b)(?=.*c.{5,15}d)(?=.*e.{5,15}f)[a-f]{1,80}$",
        "look-aheads, nested": "^" + "".join(f"(?=.{{0,20}}{c}(?=.{{0,20}}{d}" for c, d in ("ab", "cd", "ef")) + "))" * 3 + ".*$",
        "look-aheads under a repeat": r"^(?:(?=.{0,9}a)(?!.{0,7}bb)\w(?=[ab]{0,9}c)\w){1,30}$",
        "look-aheads under a star": r"^((?=a{1,20}b)a|(?=b{1,20}c)b|(?=c{1,20}a)c)*$",
        "look-behinds": "^" + "".join(f"(?:(?<=[^{c}]{{3}}).)?" for c in LOWER) + "$",
        "look-behinds under a repeat": r"^(?:\w(?<!a{9}b{9})(?<!b{9}c{9})(?<!c.{9}d))*$",
        "twenty look-arounds under a star": "^(?:" + "|".join(f"(?={c}{{1,9}}x){c}" for c in LOWER[:20]) + ")*$",
        "repeats of repeats": "(a{1,1000}){1,1000}",
        "repeats of repeats of repeats": "((a{0,100}){0,100}){0,100}",
        "a long repeat": "^(ab?c?){1,100000}$",
        "many long repeats": "".join(f"[{c}b]{{1,400}}" for c in LOWER),
        "words and edges": r"(\b\w+\b\W?){1,50}",
        "words and edges, more": r"(\b\w+\b\W?){1,2000}",
        "edges everywhere": r"(\b.\b|\B..\B){1,200}",
        "lines": r"(?m)(^.{0,30}$\n?){1,50}",
        "a class of two hundred ranges": f"[{ranges}]",
        "many of those": f"[{ranges}]{{1,40}}[^{ranges}]{{1,40}}",
        "a class of all the odd letters": "[" + "".join(f"\\U{c:08x}" for c in range(0x101, 0x9001, 2)) + "]{1,9}",
        "ignoring case": r"(?i)\w{300}",
        "properties": r"(\p{L}\p{M}*[\p{Zs}&&[^ ]]?){1,300}",
        "the seventh from the end": r"^.*a.{25}$",
        "the seventh from the end, many": "|".join(f".*{c}.{{20}}{d}" for c in "abc" for d in "xyz"),
        "alternatives and their alternatives": "(" * 12 + "a" + "|b.*c)" * 12 + "{1,20}",
        "ambiguous stars": "(a*)*" * 12 + "(a|aa|aaa)*b",
        "a hundred stars": "^" + "".join(f"(.*{c})*" for c in (UPPER + LOWER) * 2) + "$",
        "groups ten thousand deep": "(" * 10_000 + "a" + ")" * 10_000,
        "a hundred thousand alternatives": "|".join(f"w{i}" for i in range(100_000)),
        "twenty thousand letters": "abcdefghij" * 2_000,
        "a huge repeat of nothing": "(?:){4000000000}a",
        "classes ignoring case": "(?i)" + "".join(f"[a-{chr(0x400 + i)}]" for i in range(300)),
        "classes of properties": "".join(f"[\\p{{L}}{chr(0x2000 + i)}]" for i in range(200)),
        "look-aheads, optional": "^" + "".join(f"(?:(?=.*{c}{d}))?" for c in LOWER for d in "xy") + ".*$",
        "look-aheads, in alternatives": "^(?:" + "|".join(f"(?=.*{c})(?!.*{c.upper()}).*" for c in LOWER) + ")$",
        "look-aheads, none in none": "^" + "(?!.*a" * 40 + "b" + ")" * 40 + ".*$",
        "stars of alternatives of stars": "(" * 8 + "(a*|b*)*" + "|c*)*" * 8,
        "words of words": r"^(?:\b\w{1,30}\b[ ,;]{0,3}){1,300}$",
        "a class of many under a repeat": "[" + "".join(map(chr, range(0x4E00, 0x9000, 3))) + "]{1,500}",
        "long texts, each after anything": "(?:" + "|".join(".*" + "".join(dice.choices("ab", k=40)) for _ in range(60)) + ").*",
        "lazy and greedy in each other": "(?:(?:a+?b*?)+?c{2,50}?)+?" * 6 + "(?:(a|b)*c){1,60}",
        "letters at counted distances": "^.{0,60}a.{0,60}b.{0,60}c.{0,60}d.{0,60}$",
        "ends of many lengths": "^(?:" + "|".join(f".*{c}.{{{i}}}" for i, c in enumerate(LOWER)) + ")$",
    }  # fmt: skip


def grammars() -> dict[str, Make]:
    """Grammars in GBNF and in Lark's format."""
    doubling = "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(40)) + '\nr40 ::= "a"\n'
    branching = (
        "\n".join(f'r{i} ::= "(" r{i + 1} ")" | "[" r{i + 1} "]" | r{i + 1}' for i in range(40))
        + '\nr40 ::= "a"\n'
    )
    texts = {
        "a grammar that doubles": "root ::= r0\n" + doubling,
        "a grammar that branches": "root ::= r0\n" + branching,
        "a grammar within itself": 'root ::= "a" root root root "b" | "(" root ")" root | "c"',
        "a grammar that never ends": "root ::= root root",
        "a grammar of repeats": 'root ::= (("a" | "b" root? "c"){1,100}){1,100}',
        "a grammar of a long repeat": 'root ::= [a-z]{1,100000} "x"{1,100000}',
        "a grammar ten thousand brackets deep": "root ::= " + "(" * 10_000 + '"a"' + ")" * 10_000,
        "a grammar of twenty thousand rules": "root ::= r0\n"
        + "\n".join(f'r{i} ::= "a" r{i + 1} | "b"' for i in range(20_000))
        + '\nr20000 ::= "c"',
        "a grammar of many alternatives": "root ::= " + " | ".join(f'"{w}" root "{w}"' for w in WORDS) + ' | "x"',
        "a grammar of calls in circles": "root ::= a0\n"
        + "\n".join(f'a{i} ::= a{(i + 1) % 30} "x" a{(i + 7) % 30} | "y"' for i in range(30)),
        "a grammar of rules in each other": "root ::= a\n" + "\n".join(
            f'{c} ::= "{c}" {LOWER[(i + 1) % 26]} "{c}" | {LOWER[(i + 3) % 26]} {LOWER[(i + 5) % 26]} | "."'
            for i, c in enumerate(LOWER)
        ),
        "a grammar of classes": "root ::= (" + " | ".join(f"[{c}-\\U0001F600]{{1,30}}" for c in LOWER) + "){1,30}",
        "a grammar of left recursion": 'root ::= root "+" root | root "*" t | t\nt ::= t t | "(" root ")" | [0-9]+',
        "a grammar of empty loops": 'root ::= ("" | root ""){0,1000} ("a"*)*',
    }  # fmt: skip
    found: dict[str, Make] = {
        name: lambda t=text: tt.constraints.grammar(t, syntax="gbnf") for name, text in texts.items()
    }
    optional = (
        " ".join(f"[x{i}]" for i in range(100)) + "\n" + "\n".join(f'x{i}: "{i}" start?' for i in range(100))
    )
    letters = " | ".join(f'"{c}"' for c in LOWER)
    doubled = (
        "\n".join(f"t{i}{{x}}: t{i + 1}{{a{{x}}}} t{i + 1}{{b{{x}}}}" for i in range(30)) + "\nt30{x}: x\n"
    )
    larks = {
        "one": 'start: e\ne: e "+" e | e "*" e | "(" e ")" | N\nN: /(?=.*1)(?=.*2)(?=.*3)[0-9]{1,99}/\n%ignore /[ \\t]+/\n',
        "a hundred that may be absent": f"start: {optional}",
        "terminals that double": "start: A0\n" + "\n".join(f"A{i}: A{i + 1} A{i + 1}" for i in range(25)) + '\nA25: "x"',
        "repeats of repeats": 'start: (a~1..50)~1..50\na: (b~1..50)+\nb: "x"~1..50',
        "repeats of alternatives": f"start: ({letters})~1..1000",
        "repeats of alternatives of repeats": 'start: ((("a" | "b" | "c")~1..40) | "d")~1..40',
        "what it ignores": 'start: e+\ne: "a" e* "b" | "c" [e] "d"\n%ignore /\\s+/\n%ignore /#.{0,80}\\n/',
        "templates": "start: " + " ".join(f"sep{{a{i}}}" for i in range(20)) + '\nsep{x}: x ("," x)*\n'
        + "\n".join(f'a{i}: "{c}" | "(" start ")"' for i, c in enumerate(LOWER[:20])),
        "templates that double": f'start: t0{{"x"}}\n{doubled}a{{x}}: x "a"\nb{{x}}: x "b"',
        "twenty thousand that may be absent": "start: " + '"a"? ' * 20_000,
        "templates without end": 'start: a{"x"}\na{x}: "y" | x a{b{x, x}}\nb{x, y}: x y',
    }  # fmt: skip
    return found | {
        f"a grammar in Lark's format: {name}": lambda t=text: tt.constraints.grammar(t)
        for name, text in larks.items()
    }


def calls() -> dict[str, Make]:
    """Tools, and databases to query."""

    def tool(i: int, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"name": f"f{i}", "parameters": {"type": "object", "properties": arguments}}

    kinds = ("string", "integer", "array", "object")
    many = [tool(i, {f"a{j}": {"type": kinds[j % 4]} for j in range(40)}) for i in range(300)]
    hard = [
        tool(i, {"p": {"type": "string", "pattern": f"(?=.*a{{{i % 7 + 3}}})(?=.*b.{{9}}c).*{i}"}})
        for i in range(30)
    ]
    keys = ", ".join(f"f{i} INTEGER REFERENCES t{i}(id)" for i in range(20))
    joined = "\n".join(f"CREATE TABLE t{i} (id INTEGER PRIMARY KEY, {keys});" for i in range(20))
    return {
        "tools: three hundred of forty arguments": lambda: tt.constraints.function_calls(many),
        "tools: thirty of hard patterns": lambda: tt.constraints.function_calls(hard),
        "tools: five thousand names": lambda: tt.constraints.function_calls(
            [tool(i, {}) for i in range(5_000)], parallel=(1, 64)
        ),
        "sql: three hundred tables": lambda: tt.constraints.sql({f"t{i}": [f"c{i}_{j}" for j in range(40)] for i in range(300)}),
        "sql: joins of many keys": lambda: tt.constraints.sql(joined, columns="tables", max_tables=6),
    }  # fmt: skip
