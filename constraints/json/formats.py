"""The formats of JSON Schema as patterns, each a full match, by the RFC that the specification names for it.

No format accepts what its RFC rejects: dates have the days that their month has, a hostname has at most 253 characters. The
labels of a ``hostname`` are those of RFC 1123; after ``xn--`` no Punycode is decoded. Nor
does any accept what the ``jsonschema`` package (with all its optional checkers) rejects, but for the year 0000, leap seconds,
the reserved operators of URI templates and characters beyond the plane 3 in IRIs, which the RFCs have and that package has not.
"""

from __future__ import annotations

from ..automata import dfa
from ..automata.nfa import Nfa
from ..automata.region import Machine
from ..automata.repeats import repeat
from ..automata.utf8 import Alphabet
from ..automata.work import metered
from ..regex.pattern import compile_pattern
from . import idn
from .patterns import any_text
from .regexes import DEEPEST, FEW, PatternsText, patterns
from .text import spelled
from .times import TimeText

# RFC 3339. Days by month, then 29 February of leap years.
_DAYS = (
    r"(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8])"
)
_LEAP = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
DATE = rf"(?:\d\d\d\d-(?:{_DAYS})|{_LEAP}-02-29)"
_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d"
ZONE = r"(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_SOME = rf"(?:{_CLOCK}{ZONE}|23:59:60(?:\.\d+)?(?:[Zz]|[+-]00:00))"
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
TIMES: dict[str, str | None] = {"time": None, "date-time": rf"{DATE}[Tt]"}
"""The formats with leap seconds, with the pattern of what precedes the time: see ``times.py``."""
IN_UTC, ANYWHERE = ", leap seconds in UTC", ", leap seconds anywhere"
for _name, _before in TIMES.items():
    PATTERNS[_name + IN_UTC], PATTERNS[_name + ANYWHERE] = (_before or "") + _SOME, (_before or "") + _MORE
SHALLOW, BEGUN = f"regex, groups nested {FEW} levels", "regex, perhaps"
PATTERNS[BEGUN] = r"(?:[^*+?)](?:.|\n)*)?"
SOME_HOSTS, MORE_HOSTS = "idn-hostname, four short labels", "idn-hostname, perhaps"
PATTERNS[MORE_HOSTS] = r"[A-Za-z0-9.\-\x80-\U0010FFFF]+"
FEWER_AND_MORE = {name: (name + IN_UTC, name + ANYWHERE) for name in TIMES} | {"regex": (SHALLOW, BEGUN)}
"""For each format with a machine: formats of few states that have fewer strings, and more."""
LEFT_OUT = dict.fromkeys(TIMES, "left out is the second 60 but at 23:59:60 in UTC") | {
    "regex": f"left out are back-references, and groups within groups within {FEW} others"
}
"""What the first of them lacks, for messages."""
PARTIAL = {
    "regex": (
        SHALLOW,
        BEGUN,
        "what ECMA-262 (with the flag u or without) and Python read alike, without named groups",
        f"groups nest at most {DEEPEST} levels ({FEW} beside other conditions, without references); ranges of letters or digits",
    ),
    "idn-hostname": (
        SOME_HOSTS,
        MORE_HOSTS,
        f"at most {idn.LABELS} labels of letters, digits and single hyphens, without marks, written from left to right",
        f"others depend on tables; a label beyond ASCII has at most {idn.UNITS} characters, where {idn.RUN} of ASCII are one",
    ),
}
"""For each format of which strings are left out: formats of fewer and of more strings; which are accepted; why."""
KNOWN = frozenset([*TIMES, *PARTIAL, *(name for name in PATTERNS if ", " not in name)])
"""The formats of the specification; others are annotations."""


def rounded(name: str, up: bool) -> str:
    """Return a format of few states that has more strings (``up``) or fewer.
    Other formats are returned unchanged."""
    return FEWER_AND_MORE.get(name, (name, name))[up]


@metered(maxsize=8)
def machine(name: str, alphabet: Alphabet) -> Machine:
    """Return the machine of the string contents that have a format with many states (see ``FEWER_AND_MORE``)."""
    return PatternsText(alphabet) if name == "regex" else times(name)


@metered(maxsize=2)
def times(name: str) -> TimeText:
    """Return the machine of a format with leap seconds."""
    before = TIMES[name]
    return TimeText(None if before is None else compiled(before), compiled(ZONE))


def compiled(pattern: str, alphabet: Alphabet = spelled) -> Nfa:
    """Return the automaton of the string contents that match a pattern in full."""
    return dfa.minimize(compile_pattern(pattern.replace(r"\d", "[0-9]"), 0, alphabet))


@metered(maxsize=64)
def formatted(name: str, sign: bool, alphabet: Alphabet) -> Nfa:
    """Return the automaton of the string contents that have (or have not) the format.

    Of a format in ``PARTIAL`` it lacks the strings of which neither is known. The alphabet encodes their characters.
    """
    if name in PARTIAL:
        return formatted(PARTIAL[name][not sign], sign, alphabet)
    if not sign:
        return dfa.minimize(dfa.difference(any_text(alphabet), formatted(name, True, alphabet)))
    if name in TIMES:
        return times(name).automaton()
    if name == SHALLOW:
        return patterns(alphabet, FEW)
    if name == SOME_HOSTS:
        return idn.hostnames(alphabet)
    found = compiled(PATTERNS[name], alphabet)
    if name == "hostname":
        found = dfa.minimize(dfa.intersect(found, repeat(alphabet(((33, 126),)), 1, 253)))
    return found
