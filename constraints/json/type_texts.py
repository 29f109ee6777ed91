"""The texts of types whose format Pydantic names and no draft of JSON Schema defines, as schemas.

ipv4network, …   addresses and networks whose host bits are zero, as Python's ``ipaddress`` reads them
uuid4, …         UUIDs with their version and the variant of RFC 9562
base64, …        RFC 4648, padded
email            the addresses of RFC 5321 that the package ``email-validator`` passes
regex            patterns without nested groups, which Python and Rust read
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable
from typing import Any

from .formats import IPV4, IPV6

Schema = dict[str, Any]
Entry = tuple[Schema | Callable[[Schema], Schema], str, str]
"""What to add to the schema that Pydantic writes, or a function from that to all of it; what of the format it allows, and why not
all of it. The latter two are empty where it allows all."""

_H = "[0-9A-Fa-f]"
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_BITS4, _BITS6 = r"(?:3[0-2]|[12]?[0-9])", r"(?:12[0-8]|1[01][0-9]|[1-9]?[0-9])"


def exactly(pattern: str) -> str:
    """Return a pattern that matches whole texts only."""
    return f"^(?:{pattern})$"


def any_case(word: str) -> str:
    """Return a pattern of a word in letters of either case, those of ASCII only."""
    return "".join(f"[{c.lower()}{c.upper()}]" for c in word)


def matching(pattern: str) -> Schema:
    """Return the schema of the strings that match a pattern in full."""
    return {"type": "string", "pattern": exactly(pattern)}


# ---------------------------------------------------------------- addresses


def networks4() -> str:
    """Return a pattern of the IPv4 networks, by the length of their prefix."""
    ways = [IPV4]
    for bits in range(33):
        full, rest = divmod(bits, 8)
        octets = [_BYTE] * full
        if rest:
            step = 2 ** (8 - rest)
            octets.append("(?:" + "|".join(str(value) for value in range(0, 256, step)) + ")")
        octets += ["0"] * (4 - len(octets))
        ways.append(r"\.".join(octets) + f"/{bits}")
    return "|".join(ways)


def networks6() -> str:
    """Return a pattern of the IPv6 networks, by the length of their prefix; the groups after the prefix are ``::``."""
    ways = [rf"(?:{IPV6})(?:/128)?", "::/0"]
    for bits in range(1, 128):
        full, rest = divmod(bits, 16)
        groups = [_H + "{1,4}"] * full
        if rest:
            digits, odd = divmod(rest, 4)
            part = (_H + f"{{{digits}}}") if digits else ""
            if odd:
                part += "[" + "".join(f"{v:x}" for v in range(0, 16, 2 ** (4 - odd))) + "]"
            groups.append(part + "0" * (4 - digits - (odd > 0)))
        ways.append(":".join(groups) + ("::" if len(groups) < 8 else "") + f"/{bits}")
    return "|".join(ways)


NO_ZONE = "IPv6 addresses without a zone"
ZONES = "what follows a % names an interface of one computer"


def addresses(four: str, six: str, given: str = "") -> Entry:
    """Return the entry of a type of addresses, from patterns of both versions."""
    return matching("|".join(filter(None, (four, six)))), given, ZONES if given else ""


# ---------------------------------------------------------------- encoded bytes

STANDARD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
URL_SAFE = STANDARD.replace("+/", "-_")


def some(alphabet: str, keep: Callable[[int], bool]) -> str:
    """Return a class of the characters of an alphabet whose places pass a test."""
    return "[" + "".join(c for place, c in enumerate(alphabet) if keep(place)).replace("-", r"\-") + "]"


def encoded(
    alphabet: str, least: int = 0, most: int | None = None, padded: bool = True, ascii: bool = False
) -> str:
    """Return a pattern of ``least`` to ``most`` bytes in base 64; with ``ascii``, of bytes below 128."""
    any_ = some(alphabet, lambda v: True)
    first = some(alphabet, lambda v: not ascii or v < 32)
    second = some(alphabet, lambda v: not ascii or not v & 8)
    third = some(alphabet, lambda v: not ascii or not v & 2)
    # Bits behind the last byte may be any to Python's decoder, which wants padding, and are 0 to Pydantic's own.
    before_two = some(alphabet, lambda v: padded or v % 16 == 0)
    before_one = some(alphabet, lambda v: padded or v % 4 == 0)
    two, one = ("==", "=") if padded else ("(?:==)?", "=?")
    ends = ["", first + before_two + two, first + second + before_one + one]
    ways = []
    for rest, end in enumerate(ends):
        low = max(0, -((rest - least) // 3))
        high = None if most is None else (most - rest) // 3
        if high is None or high >= low:
            ways.append(f"(?:{first}{second}{third}{any_}){{{low},{'' if high is None else high}}}{end}")
    return "|".join(ways) or "[]"


def in_base64(alphabet: str, ascii: bool = False) -> Callable[[Schema], Schema]:
    """Return the schema of encoded bytes from that of Pydantic, whose own bounds, outside ``allOf``, are of the bytes."""

    def schema(given: Schema) -> Schema:
        pattern = encoded(alphabet, given.get("minLength", 0), given.get("maxLength"), ascii=ascii)
        return {
            key: value for key, value in given.items() if key not in ("minLength", "maxLength")
        } | matching(pattern)

    return schema


# ---------------------------------------------------------------- addresses of mail

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:-?[A-Za-z0-9]){0,18}"
MAIL = rf"{_ATOM}(?:\.{_ATOM})*@(?:{_LABEL}\.){{1,4}}[A-Za-z]{{2,30}}"
NAMED = rf"{MAIL}|[A-Za-z0-9][A-Za-z0-9 ]{{0,98}}[A-Za-z0-9] <{MAIL}>"
MAIL_GIVEN = (
    "ASCII addresses of up to 64 characters at a domain of two to five labels, each of up to 37 characters"
)
MAIL_WHY = "quoted names, characters beyond ASCII and longer labels are left out"


def mail(pattern: str) -> Callable[[Schema], Schema]:
    """Return the schema of addresses of mail, without the domains that are reserved."""

    def schema(given: Schema) -> Schema:
        from email_validator import SPECIAL_USE_DOMAIN_NAMES  # Pydantic needs it for this type

        ends = "|".join(name.replace(".", r"\.") for name in SPECIAL_USE_DOMAIN_NAMES)
        return {
            **given,
            **matching(pattern),
            "allOf": [
                {"pattern": "^(?:[^<>@]* <)?[^<>@]{1,64}@"},
                {"not": {"pattern": rf"(?i)[.@](?:{ends})>?$"}},
            ],
        }

    return schema


# ---------------------------------------------------------------- the rest

_LETTER = r"[A-Za-z0-9 _,;:=@%&~/-]"
_PIECE = rf"(?:{_LETTER}|\\[dDwWsS.*+?^$|(){{}}\[\]\\]|\.|\[\^?[A-Za-z0-9_]+\])"
_REPEATED = rf"{_PIECE}(?:[*+?]|\{{[0-9]{{1,2}}\}})?"
_GROUP = rf"\(\?:{_REPEATED}(?:\|?{_REPEATED})*\)[*+?]?"
PATTERN = rf"\^?(?:(?:{_REPEATED}|{_GROUP})(?:\|?(?:{_REPEATED}|{_GROUP}))*)?\$?"


def versions(version: int) -> str:
    """Return a pattern of the UUIDs of a version."""
    return rf"{_H}{{8}}-{_H}{{4}}-{version}{_H}{{3}}-[89abAB]{_H}{{3}}-{_H}{{12}}"


TEXTS: dict[str, Entry] = {
    "ipv4network": addresses(networks4(), ""),
    "ipv6network": addresses("", networks6(), NO_ZONE),
    "ipv4interface": addresses(f"{IPV4}(?:/{_BITS4})?", ""),
    "ipv6interface": addresses("", f"{IPV6}(?:/{_BITS6})?", NO_ZONE),
    "ipvanyaddress": addresses(IPV4, IPV6, NO_ZONE),
    "ipvanyinterface": addresses(f"{IPV4}(?:/{_BITS4})?", f"{IPV6}(?:/{_BITS6})?", NO_ZONE),
    "ipvanynetwork": addresses(networks4(), networks6(), NO_ZONE),
    **{f"uuid{version}": (matching(versions(version)), "", "") for version in range(1, 9)},
    "base64": (in_base64(STANDARD), "", ""),
    "base64url": (in_base64(URL_SAFE), "", ""),
    "base64 of text": (in_base64(STANDARD, True), "texts in ASCII", "longer codes of characters are not followed"),
    "base64url of text": (in_base64(URL_SAFE, True), "texts in ASCII", "longer codes of characters are not followed"),
    "pydantic-email": (mail(MAIL), MAIL_GIVEN, MAIL_WHY),
    "name-email": (mail(NAMED), f"{MAIL_GIVEN}, after a name in ASCII", MAIL_WHY),
    "zoneinfo": (lambda given: {**given, "enum": sorted(zoneinfo.available_timezones())}, "", ""),
    "regex": (matching(PATTERN), "patterns without nested groups", "they are no regular language"),
    "color": (matching(rf"#(?:{_H}{{3,4}}|{_H}{{6}}|{_H}{{8}})"), "#rgb, #rgba, #rrggbb and #rrggbbaa", "each has other names"),
}  # fmt: skip
"""By format: see :data:`Entry`."""
