"""Compare calls with gold calls; a gold call lists the accepted values of each argument, as in BFCL.

    {"forecast": {"city": ["Oslo"], "days": [3, ""], "at": [{"lat": [59.9], "lon": [10.7]}]}}

``""`` among the accepted values means that the argument may be left out; members of objects have lists of accepted values too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .syntax import Call

Gold = Mapping[str, Mapping[str, list[Any]]]
Same = Callable[[str, str], bool]


def exact(expected: str, value: str) -> bool:
    """Return whether the strings are equal."""
    return expected == value


def lenient(expected: str, value: str) -> bool:
    """Return whether the strings are equal up to case, blanks, ``, . / - _ * ^`` and the kind of quotes (BFCL's rule)."""
    return _standard(expected) == _standard(value)


def _standard(text: str) -> str:
    return re.sub(r"[ ,./\-_*^]", "", text).lower().replace("'", '"')


def alternatives(value: Any) -> Any:
    """Convert a plain value to the form of accepted values: each member of an object becomes a list of one."""
    if isinstance(value, dict):
        return {name: [alternatives(item)] for name, item in value.items()}
    return [alternatives(item) for item in value] if isinstance(value, list) else value


def first(expected: Any) -> Any:
    """Return the first accepted value as a plain value, without members that may be left out."""
    if isinstance(expected, dict):
        members = {n: options if isinstance(options, list) else [options] for n, options in expected.items()}
        return {n: first(options[0]) for n, options in members.items() if options and "" not in options}
    return [first(item) for item in expected] if isinstance(expected, list) else expected


def accepts(options: Sequence[Any], value: Any, same: Same = exact) -> bool:
    """Return whether a value is among the accepted ones. Numbers compare as numbers, 5 = 5.0, but never equal booleans."""
    return any(_equal(expected, value, same) for expected in options)


def _equal(expected: Any, value: Any, same: Same) -> bool:
    if isinstance(expected, bool) or isinstance(value, bool):
        return expected is value
    if isinstance(expected, str) and isinstance(value, str):
        return same(expected, value)
    if isinstance(expected, list) and isinstance(value, list):
        return len(expected) == len(value) and all(
            _equal(e, v, same) for e, v in zip(expected, value, strict=True)
        )
    if isinstance(expected, dict) and isinstance(value, dict):
        return right_arguments(expected, value, same) == len(expected.keys() | value.keys())
    return bool(expected == value)


def right_arguments(gold: Mapping[str, Any], arguments: Mapping[str, Any], same: Same = exact) -> int:
    """Count the right arguments among those of gold and call; a missing argument is right if it may be left out."""
    right = 0
    for name, options in gold.items():
        options = options if isinstance(options, list) else [options]
        right += accepts(options, arguments[name], same) if name in arguments else "" in options
    return right


def right_call(gold: Gold, call: Call, same: Same = exact) -> bool:
    """Return whether the call has the right name and only right arguments."""
    return share_right(gold, call, same) == 1.0


def share_right(gold: Gold, call: Call, same: Same = exact) -> float:
    """Return the share of right arguments among all arguments of gold and call; zero for another function."""
    ((name, arguments),) = gold.items()
    if call["name"] != name:
        return 0.0
    size = len(arguments.keys() | call["arguments"].keys())
    return right_arguments(arguments, call["arguments"], same) / size if size else 1.0


def right_calls(golds: Sequence[Gold], calls: Sequence[Call], same: Same = exact) -> bool:
    """Return whether the calls are the gold ones in any order: whether a perfect matching of the two exists."""
    if len(golds) != len(calls):
        return False
    taken: dict[int, int] = {}  # call -> gold

    def place(gold: int, tried: set[int]) -> bool:
        for index, call in enumerate(calls):
            if index not in tried and right_call(golds[gold], call, same):
                tried.add(index)
                if index not in taken or place(taken[index], tried):
                    taken[index] = gold
                    return True
        return False

    return all(place(gold, set()) for gold in range(len(golds)))


def share_of_arguments(golds: Sequence[Gold], calls: Sequence[Call], same: Same = exact) -> float:
    """Sum :func:`share_right` over greedily matched pairs of gold calls and calls, divided by the longer list's length."""
    shares = {
        (g, c): share_right(gold, call, same) for g, gold in enumerate(golds) for c, call in enumerate(calls)
    }
    total, golds_left, calls_left = 0.0, set(range(len(golds))), set(range(len(calls)))
    for g, c in sorted(shares, key=lambda pair: -shares[pair]):
        if g in golds_left and c in calls_left:
            total += shares[g, c]
            golds_left.remove(g)
            calls_left.remove(c)
    return total / max(len(golds), len(calls), 1)
