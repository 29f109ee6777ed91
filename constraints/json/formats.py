"""The formats of JSON Schema as patterns, each a full match, by the RFC that the specification names for it.

No format accepts what its RFC rejects: dates have the days that their month has, a hostname has at most 253 characters. The
labels of a ``hostname`` are those of RFC 1123; after ``xn--`` no Punycode is decoded. Times have no leap seconds. Nor
does any accept what the ``jsonschema`` package (with all its optional checkers) rejects, but for the year 0000,
the reserved operators of URI templates and characters beyond the plane 3 in IRIs, which the RFCs have and that package has not.
The formats ``regex`` and ``idn-hostname`` are annotations, as formats that no draft defines.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from numpy import ndarray
from safetensors.numpy import load_file

from ..automata import dfa
from ..automata.nfa import Nfa
from ..automata.utf8 import Alphabet
from ..automata.work import metered
from ..regex.pattern import compile_pattern
from .patterns import any_text, matching
from .text import JSON

# RFC 3339. Days by month, then 29 February of leap years.
_DAYS = (
    r"(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8])"
)
_LEAP = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
DATE = rf"(?:\d\d\d\d-(?:{_DAYS})|{_LEAP}-02-29)"
_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d"
ZONE = r"(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_MORE = rf"(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60){ZONE}"
_T = r"(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)"
_D = rf"(?:\d+D|\d+M(?:\d+D)?|\d+Y(?:\d+M(?:\d+D)?)?)(?:T{_T})?"

# RFC 4291, as Python's ipaddress reads it, without zones.
IPV4 = r"(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_H = r"[0-9a-fA-F]{1,4}"
_LS = rf"(?:{_H}:{_H}|{IPV4})"
IPV6 = "(?:" + "|".join(
    [rf"(?:{_H}:){{6}}{_LS}", rf"::(?:{_H}:){{5}}{_LS}"]
    + [rf"(?:(?:{_H}:){{0,{k}}}{_H})?::(?:{_H}:){{{4 - k}}}{_LS}" for k in range(5)]
    + [rf"(?:(?:{_H}:){{0,5}}{_H})?::{_H}", rf"(?:(?:{_H}:){{0,6}}{_H})?::"]
) + ")"  # fmt: skip

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
HOST = rf"{_LABEL}(?:\.{_LABEL})*"


def _groups(least: int, most: int | None = None) -> str:
    """Return a pattern of ``least`` to ``most`` groups of an IPv6 address, or exactly ``least``."""
    some = rf"{_H}(?::{_H}){{{max(least, 1) - 1},{(least if most is None else most) - 1}}}"
    return "" if most == 0 or (most is None and not least) else some if least else f"(?:{some})?"


# RFC 5321 with the dots and quotes of local parts; RFC 6531 adds every character beyond ASCII.
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
_WIDE = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\x80-\U0010FFFF-]"
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_QUOTED = r'"(?:[ !#-\[\]-~]|\\[ -~])*"'
_WIDE_QUOTED = r'"(?:[ !#-\[\]-~\x80-\U0010FFFF]|\\[ -~])*"'
_BYTE = r"(?:25[0-5]|2[0-4]\d|[01]?\d?\d)"
_FOUR = rf"{_BYTE}(?:\.{_BYTE}){{3}}"
_SIX = "|".join(
    [rf"(?:{_H}:){{7}}{_H}", rf"(?:{_H}:){{6}}{_FOUR}"]
    + [rf"{_groups(i)}::{_groups(0, 6 - i)}" for i in range(7)]
    + [rf"{_groups(i)}::(?:{_H}:){{0,{4 - i}}}{_FOUR}" for i in range(5)]
)  # where :: stands for two groups or more
_AT = rf"(?:{_NAME}(?:\.{_NAME})*|\[(?:{_FOUR}|[Ii][Pp][Vv]6:(?:{_SIX}))\])"
_WIDE_LABEL = r"[A-Za-z0-9\x80-\U0010FFFF](?:[A-Za-z0-9\x80-\U0010FFFF-]*[A-Za-z0-9\x80-\U0010FFFF])?"

# RFC 3986 (and 3987: `_U` holds the characters beyond ASCII).
_U = r"\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    rf"\U000{plane:x}{'1' if plane == 14 else '0'}000-\U000{plane:x}fffd" for plane in range(1, 15)
)
_PRIVATE = r"\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*"


def _uri(wide: str, private: str = "") -> tuple[str, str]:
    """Return patterns of a URI and of a relative reference.
    ``wide``: further characters, allowed everywhere; ``private``: further ones, in queries only."""
    plain = rf"A-Za-z0-9._~{wide}"
    percent = "%[0-9A-Fa-f]{2}"
    some = rf"(?:[{plain}!$&'()*+,;=:@-]|{percent})"
    no_colon = rf"(?:[{plain}!$&'()*+,;=@-]|{percent})"
    user = rf"(?:(?:[{plain}!$&'()*+,;=:-]|{percent})*@)?"
    host = rf"(?:\[(?:{IPV6}|[vV][0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\]|(?:[{plain}!$&'()*+,;=-]|{percent})*)"
    authority = rf"//{user}{host}(?::\d*)?(?:/{some}*)*"
    rooted = rf"/(?:{some}+(?:/{some}*)*)?"
    query = rf"(?:\?(?:{some}|[/?{private}])*)?(?:#(?:{some}|[/?])*)?"
    absolute = rf"{_SCHEME}:(?:{authority}|{rooted}|{some}+(?:/{some}*)*|){query}"
    relative = rf"(?:{authority}|{rooted}|{no_colon}+(?:/{some}*)*|){query}"
    return absolute, relative


_URI, _REFERENCE = _uri("")
_IRI, _IRI_REFERENCE = _uri(_U, _PRIVATE)
_POINTER = r"(?:/(?:[^/~]|~[01])*)*"
_VARIABLE = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*(?::[1-9]\d{0,3}|\*)?"
# RFC 6570 with erratum 6937, which allows the apostrophe.
_LITERAL = rf"[!#$&-;=?-\[\]_a-z~{_U}{_PRIVATE}]|%[0-9A-Fa-f]{{2}}"

PATTERNS: dict[str, str] = {
    "date": DATE,
    "time": f"{_CLOCK}{ZONE}",
    "date-time": f"{DATE}[Tt]{_CLOCK}{ZONE}",
    "duration": rf"P(?:{_D}|T{_T}|\d+W)",
    "email": rf"(?:{_ATOM}+(?:\.{_ATOM}+)*|{_QUOTED})@{_AT}",
    "idn-email": rf"(?:{_WIDE}+(?:\.{_WIDE}+)*|{_WIDE_QUOTED})@(?:{_WIDE_LABEL}(?:\.{_WIDE_LABEL})*|{_AT})",
    "hostname": HOST,
    "ipv4": IPV4,
    "ipv6": IPV6,
    "uri": _URI,
    "uri-reference": rf"(?:{_URI}|{_REFERENCE})",
    "iri": _IRI,
    "iri-reference": rf"(?:{_IRI}|{_IRI_REFERENCE})",
    "uri-template": rf"(?:{_LITERAL}|\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}})*",
    "uuid": r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
    "json-pointer": _POINTER,
    "relative-json-pointer": rf"(?:0|[1-9]\d*)(?:#|{_POINTER})",
}
WITH_SIXTY = {"time": _MORE, "date-time": f"{DATE}[Tt]{_MORE}"}
"""Of formats of which some strings are left out, a pattern of these strings and all others of the format."""
LEFT_OUT = (
    "times without leap seconds",
    "a second 60 is right at some minutes only: write 59 or the next minute",
)
"""What is accepted of these formats instead, and why."""
MOST_CHARACTERS = {"hostname": 253}
"""The most characters of a format, beside its pattern."""
KNOWN = frozenset(PATTERNS)
"""The formats of the specification; others are annotations."""


FILE = Path(__file__).with_name("formats.safetensors")
"""The automata of the formats in JSON: of each its edges, and its starts and ends behind its number of states.
``tests/constraints/json/test_formats_file.py`` writes them."""


@lru_cache(maxsize=1)
def kept() -> dict[str, ndarray[Any, Any]]:
    """Return the arrays of :data:`FILE`."""
    return load_file(FILE)


def read(name: str) -> Nfa:
    """Return the automaton of a format in JSON, made before."""
    states, start, *ends = kept()[f"{name} ends"].tolist()
    return Nfa(states, kept()[name], (), [start], ends, minimal=True)


def compiled(pattern: str, alphabet: Alphabet) -> Nfa:
    """Return the automaton of the string contents that match a pattern in full."""
    return dfa.minimize(compile_pattern(pattern.replace(r"\d", "[0-9]"), 0, alphabet))


@metered(maxsize=64)
def leaves_out(name: str, pattern: str) -> bool:
    """Return whether a string of the format that is left out matches a pattern."""
    left = dfa.difference(compiled(WITH_SIXTY[name], JSON.alphabet), formatted(name, True, JSON.alphabet))
    return not dfa.intersect(left, matching(pattern, True, JSON.alphabet)).is_empty


@metered(maxsize=64)
def formatted(name: str, sign: bool, alphabet: Alphabet) -> Nfa:
    """Return the automaton of the string contents that have (or have not) the format.

    A time with the second 60 is among neither. Lengths of :data:`MOST_CHARACTERS` are left to a count.
    The alphabet encodes their characters.
    """
    if not sign:
        has_sixty = name in WITH_SIXTY
        had = compiled(WITH_SIXTY[name], alphabet) if has_sixty else formatted(name, True, alphabet)
        return dfa.minimize(dfa.difference(any_text(alphabet), had))
    return read(name) if alphabet is JSON.alphabet else compiled(PATTERNS[name], alphabet)
