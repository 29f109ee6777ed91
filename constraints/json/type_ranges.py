"""Patterns of texts within bounds: integers, and texts of digits at fixed places, such as dates."""

from __future__ import annotations

from .type_marks import Schema


def beyond(digits: str, least: bool) -> list[str]:
    """Return patterns of the texts of the same form as ``digits`` that are less, or with ``least`` greater.
    Digits are compared one by one; what stands between them stays."""
    found = []
    for i, c in enumerate(digits):
        if c.isdigit():
            others = (
                f"[{int(c) + 1}-9]"
                if least and c < "9"
                else f"[0-{int(c) - 1}]"
                if not least and c > "0"
                else ""
            )
            if others:
                tail = "".join("[0-9]" if d.isdigit() else d for d in digits[i + 1 :])
                found.append(digits[:i] + others + tail)
    return found


def between(low: str | None, high: str | None) -> list[Schema]:
    """Return schemas to be met by a text that begins with digits not less than ``low`` and not greater than ``high``."""
    found = []
    if low is not None:
        found.append({"pattern": f"^(?:{'|'.join([low, *beyond(low, True)])})"})
    if high is not None:
        found.append({"pattern": f"^(?:{'|'.join([high, *beyond(high, False)])})"})
    return found


def whole(low: int, high: int) -> str:
    """Return a pattern of the integers from ``low`` to ``high``, neither negative."""
    found = []
    for size in range(len(str(low)), len(str(high)) + 1):
        least = max(low, 10 ** (size - 1) if size > 1 else 0)
        most = min(high, 10**size - 1)
        found.append(same_size(str(least), str(most)))
    return "(?:" + "|".join(found) + ")"


def same_size(low: str, high: str) -> str:
    """Return a pattern of the integers between two of the same number of digits."""
    if not low:
        return ""
    if low == high:
        return low
    rest = len(low) - 1
    if low[0] == high[0]:
        return low[0] + same_size(low[1:], high[1:])
    ways, first, last = [], int(low[0]), int(high[0])
    if low[1:].strip("0"):
        ways.append(low[0] + same_size(low[1:], "9" * rest))
        first += 1
    if high[1:].strip("9"):
        ways.append(high[0] + same_size("0" * rest, high[1:]))
        last -= 1
    if first <= last:
        ways.append(f"[{first}-{last}][0-9]{{{rest}}}")
    return f"(?:{'|'.join(ways)})"
