"""The formats of JSON Schema as patterns, each a full match, by the RFC that the specification names for it.

No format accepts what its RFC rejects: dates have the days that their month has, a hostname has at most 253 characters. Nor
does any accept what the ``jsonschema`` package (with all its optional checkers) rejects, but for the year 0000, leap seconds
(``23:59:60`` in UTC) and the reserved operators of URI templates, which the RFCs have and that package has not. Leap seconds
at other offsets from UTC are left out: they would take 1,440 states for each time.
"""

from __future__ import annotations

from ..automata import dfa, nfa
from ..automata.nfa import Nfa
from ..automata.work import metered
from ..regex.constraint import compile_pattern
from .patterns import BODY
from .text import spelled

# RFC 3339. Days by month, then 29 February of leap years. Leap seconds are those written in UTC.
_DAYS = (
    r"(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8])"
)
_LEAP = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
DATE = rf"(?:\d\d\d\d-(?:{_DAYS})|{_LEAP}-02-29)"
_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?"
_ZONE = r"(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_TIME = rf"(?:{_CLOCK}{_ZONE}|23:59:60(?:\.\d+)?(?:[Zz]|[+-]00:00))"
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

# RFC 5321 with the dots and quotes of local parts; RFC 6531 adds every character beyond ASCII.
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
_WIDE = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\x80-\U0010FFFF-]"
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_QUOTED = r'"(?:[ !#-\[\]-~]|\\[ -~])*"'
_AT = rf"(?:{_NAME}(?:\.{_NAME})*|\[(?:{IPV4}|IPv6:{IPV6})\])"
_WIDE_LABEL = r"[A-Za-z0-9\x80-\U0010FFFF](?:[A-Za-z0-9\x80-\U0010FFFF-]*[A-Za-z0-9\x80-\U0010FFFF])?"

# RFC 3986 (and 3987: `_U` holds the characters beyond ASCII).
_U = r"\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\U00010000-\U0001fffd\U00020000-\U0002fffd\U00030000-\U0003fffd"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*"


def _uri(wide: str, private: str = "") -> tuple[str, str]:
    """A URI and a relative reference, with further characters allowed everywhere (and some in queries only)."""
    plain = rf"A-Za-z0-9._~{wide}"
    percent = "%[0-9A-Fa-f]{2}"
    some = rf"(?:[{plain}!$&'()*+,;=:@-]|{percent})"
    no_colon = rf"(?:[{plain}!$&'()*+,;=@-]|{percent})"
    user = rf"(?:(?:[{plain}!$&'()*+,;=:-]|{percent})*@)?"
    host = rf"(?:\[(?:{IPV6}|v[0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\]|(?:[{plain}!$&'()*+,;=-]|{percent})*)"
    authority = rf"//{user}{host}(?::\d*)?(?:/{some}*)*"
    rooted = rf"/(?:{some}+(?:/{some}*)*)?"
    query = rf"(?:\?(?:{some}|[/?{private}])*)?(?:#(?:{some}|[/?])*)?"
    absolute = rf"{_SCHEME}:(?:{authority}|{rooted}|{some}+(?:/{some}*)*|){query}"
    relative = rf"(?:{authority}|{rooted}|{no_colon}+(?:/{some}*)*|){query}"
    return absolute, relative


_URI, _REFERENCE = _uri("")
_IRI, _IRI_REFERENCE = _uri(_U, r"\ue000-\uf8ff")
_POINTER = r"(?:/(?:[^/~]|~[01])*)*"
_VARIABLE = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*(?::[1-9]\d{0,3}|\*)?"
_LITERAL = rf"[!#$&(-;=?-\[\]_a-z~{_U}\ue000-\uf8ff]|%[0-9A-Fa-f]{{2}}"

PATTERNS: dict[str, str] = {
    "date": DATE,
    "time": _TIME,
    "date-time": rf"{DATE}[Tt]{_TIME}",
    "duration": rf"P(?:{_D}|T{_T}|\d+W)",
    "email": rf"(?:{_ATOM}+(?:\.{_ATOM}+)*|{_QUOTED})@{_AT}",
    "idn-email": rf"(?:{_WIDE}+(?:\.{_WIDE}+)*|{_QUOTED})@(?:{_WIDE_LABEL}(?:\.{_WIDE_LABEL})*|{_AT})",
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
_LEAP_CLOCK = _CLOCK.replace(":[0-5]\\d(?:", ":(?:[0-5]\\d|60)(?:")
_WIDER_URI, _WIDER_REFERENCE = _uri(
    r"\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\U00010000-\U000efffd", r"\ue000-\uf8ff"
)
LOOSE = {
    "email": r"(?s:.*@.*)",
    "idn-email": r"(?s:.*@.*)",
    "time": _LEAP_CLOCK + _ZONE,
    "date-time": rf"{DATE}[Tt]{_LEAP_CLOCK}{_ZONE}",
    "duration": r"[+-]?P[0-9.,YMWDTHS]*",
    "hostname": rf"{HOST}\.?",
    "iri": _WIDER_URI,
    "iri-reference": rf"(?:{_WIDER_URI}|{_WIDER_REFERENCE})",
}
"""What the specification, or the ``jsonschema`` package, takes for a format where that is more: the complement is taken of
this, and ``Constraint.narrowed`` names the format."""
_SIXTY = (
    "the second 60 but at 23:59:60 in UTC: at other offsets RFC 3339 has leap seconds, jsonschema has none"
)
LEFT_OUT = {
    "email": "what RFC 5321 does not have, such as a@, which jsonschema takes",
    "idn-email": "what RFC 6531 does not have, such as a@, which jsonschema takes",
    "time": _SIXTY,
    "date-time": _SIXTY,
    "duration": "any other form, with fractions or signs, say, which RFC 3339 does not have and jsonschema takes",
    "hostname": "a dot at the end, which RFC 1123 does not have and jsonschema takes",
    "iri": "every character of the planes 4 to 14, of which most are not assigned",
    "iri-reference": "every character of the planes 4 to 14, of which most are not assigned",
}
"""What the formats of ``LOOSE`` leave out, and who takes it."""
REFUSED = ("regex", "idn-hostname")
KNOWN = frozenset([*PATTERNS, *REFUSED])
"""The formats of the specification; others are annotations. Those in ``REFUSED`` are not regular or need tables."""


@metered(maxsize=64)
def formatted(name: str, sign: bool) -> Nfa:
    """The insides of JSON strings that have (or have not) the format."""
    pattern = PATTERNS[name] if sign else LOOSE.get(name, PATTERNS[name])
    found = dfa.minimize(compile_pattern(pattern.replace(r"\d", "[0-9]"), 0, spelled))
    if name == "hostname":
        short = nfa.repeat(spelled(((33, 126),)), 1, 253 if sign else 254)
        found = dfa.minimize(dfa.intersect(found, short))
    return found if sign else dfa.minimize(dfa.difference(BODY, found))
