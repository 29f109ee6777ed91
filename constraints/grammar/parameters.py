"""Rules with a parameter, a 64-bit number: ``perm::_ : "a" perm::set_bit(0) %if bit_clear(0)``.

Each value that a rule is called with yields a copy of the rule, with the alternatives whose conditions hold for the value.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import TooManyStates, UnsupportedConstraint
from .. import limits
from .tree import Call, Choice, Expression, Repeat, Rules, Series, Text, calls, ending, mapped, texts

Step = Callable[[int], int]
"""The function from the parameter of the calling rule to that of the called one."""
Condition = Callable[[int], bool]
MASK = (1 << 64) - 1
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
CALL = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
RANGE = re.compile(r"\[(\d+):(\d+)\]")


def unknown(text: str, line: int) -> UnsupportedConstraint:
    """Return the error for text that is no parameter or condition."""
    return UnsupportedConstraint(f"{text!r} is no parameter or condition of a rule", path=f"line {line}")


def number(text: str, line: int) -> int:
    """Parse a number, decimal or hexadecimal."""
    try:
        found = int(text, 0)
    except ValueError:
        raise unknown(text, line) from None
    if not 0 <= found <= MASK:
        raise unknown(text, line)
    return found


def bits(text: str, line: int) -> tuple[int, int]:
    """Return the first bit and the number of bits of ``[x:y]`` or ``_``."""
    if text == "_":
        return 0, 64
    match = RANGE.fullmatch(text)
    if match is None or not int(match[1]) < int(match[2]) <= 64:
        raise unknown(text, line)
    return int(match[1]), int(match[2]) - int(match[1])


def parts(text: str) -> list[str]:
    """Split the arguments of a call at the commas outside parentheses."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return found


def step(text: str, line: int) -> Step:
    """Parse the function that a call applies to the parameter."""
    if text == "_":
        return lambda p: p
    match = CALL.fullmatch(text)
    if match is None:
        value = number(text, line)
        return lambda p: value
    name, inside = match[1], match[2]
    if name in ("set_bit", "clear_bit"):
        bit = 1 << number(inside, line)
        return (lambda p: p | bit) if name == "set_bit" else (lambda p: p & ~bit)
    if name in ("bit_and", "bit_or"):
        value = number(inside, line)
        return (lambda p: p & value) if name == "bit_and" else (lambda p: p | value)
    if name in ("incr", "decr"):
        first, count = bits(inside, line)
        last = (1 << count) - 1
        if name == "incr":
            return lambda p: p if (p >> first) & last == last else p + (1 << first)
        return lambda p: p if not (p >> first) & last else p - (1 << first)
    raise unknown(text, line)


def condition(text: str, line: int) -> Condition:
    """Parse a condition as a function of the parameter."""
    if text in ("true", "true()"):
        return lambda p: True
    match = CALL.fullmatch(text)
    if match is None:
        raise unknown(text, line)
    name, given = match[1], parts(match[2])
    if name == "not" and len(given) == 1:
        inner = condition(given[0], line)
        return lambda p: not inner(p)
    if name in ("and", "or") and len(given) == 2:
        left, right = (condition(each, line) for each in given)
        return (lambda p: left(p) and right(p)) if name == "and" else (lambda p: left(p) or right(p))
    if name in ("bit_set", "bit_clear") and len(given) == 1:
        bit, wanted = 1 << number(given[0], line), name == "bit_set"
        return lambda p: bool(p & bit) == wanted
    if name in ("is_ones", "is_zeros") and len(given) == 1:
        first, count = bits(given[0], line)
        last = (1 << count) - 1
        value = last if name == "is_ones" else 0
        return lambda p: (p >> first) & last == value
    counted = name.removeprefix("bit_count_")
    if counted in COMPARISONS and len(given) == 2:
        (first, count), value, compare = bits(given[0], line), number(given[1], line), COMPARISONS[counted]
        last = (1 << count) - 1
        if counted != name:
            return lambda p: compare(((p >> first) & last).bit_count(), value)
        return lambda p: compare((p >> first) & last, value)
    raise unknown(text, line)


def instantiated(
    grammar: Rules,
    start: str,
    parametric: set[str],
    steps: Mapping[str, tuple[str, Step]],
    conditions: Mapping[str, Condition],
) -> Rules:
    """Return the grammar with a copy of each parametric rule for each value that it is called with.

    ``steps`` and ``conditions``: what the terminals for calls and conditions stand for. Raises ``TooManyStates`` for more
    than ``limits.ALTERNATIVES`` rules.
    """
    dependent = set(parametric)  # and the helper rules that Lark makes of their parts
    size = -1
    while len(dependent) > size:
        size = len(dependent)
        for name, expression in grammar.rules.items():
            if name.startswith(("__", "repeated_")) and depends(expression, steps, conditions, dependent):
                dependent.add(name)
    found: dict[str, Expression] = {}
    todo: list[tuple[str, int | None]] = [(start, None)]

    def named(rule: str, value: int | None) -> str:
        name = rule if value is None else f"{rule}::{value}"
        if name not in found:
            if len(found) >= limits.ALTERNATIVES:
                raise TooManyStates(
                    f"the rules are called with more than {limits.ALTERNATIVES} values of their parameters",
                    limit=limits.ALTERNATIVES,
                )
            found[name] = Choice([])
            todo.append((rule, value))
        return name

    def copy(expression: Expression, value: int | None) -> Expression:
        if isinstance(expression, Text):
            if expression.name in steps:
                rule, function = steps[expression.name]
                return Call(named(rule, function(value or 0) & MASK))
            if expression.name in conditions:
                return Series([]) if conditions[expression.name](value or 0) else Choice([])
            return expression
        if isinstance(expression, Call):
            if expression.rule not in grammar.rules:
                return expression
            return Call(
                named(expression.rule, value if expression.rule in dependent - parametric else None),
                expression.line,
            )
        if isinstance(expression, Series | Choice):
            if isinstance(expression, Series) and any(fails(part, value) for part in expression.parts):
                return Choice([])  # decided before copies of the called rules are made
            return type(expression)([copy(part, value) for part in expression.parts])
        if isinstance(expression, Repeat):
            return Repeat(copy(expression.part, value), expression.low, expression.high)
        return expression

    def fails(part: Expression, value: int | None) -> bool:
        test = conditions.get(part.name) if isinstance(part, Text) else None
        return test is not None and not test(value or 0)

    found[start] = Choice([])
    while todo:
        rule, value = todo.pop()
        found[rule if value is None else f"{rule}::{value}"] = copy(grammar.rules[rule], value)
    return without_dead_instances(Rules(found, grammar.lines))


def depends(
    expression: Expression,
    steps: Mapping[str, object],
    conditions: Mapping[str, object],
    dependent: set[str],
) -> bool:
    """Return whether an expression depends on the parameter."""
    return any(text.name in steps or text.name in conditions for text in texts(expression)) or any(
        call.rule in dependent for call, _, _ in calls(expression)
    )


def without_dead_instances(grammar: Rules) -> Rules:
    """Drop the calls of parametric copies that have no text under their conditions."""
    dead = {name for name in grammar.rules if "::" in name} - ending(grammar.rules)

    def alive(part: Expression) -> Expression:
        return Choice([]) if isinstance(part, Call) and part.rule in dead else part

    return Rules(
        {name: mapped(e, alive) for name, e in grammar.rules.items() if name not in dead}, grammar.lines
    )
