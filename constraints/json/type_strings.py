"""The texts of a ``str`` or of ``bytes`` of a type, within its conditions, as schemas."""

from __future__ import annotations

import re
from typing import Any

from .type_marks import Schema, differing
from .type_texts import URL_SAFE, encoded, matching
from .type_validators import OF_BYTES, ONLY_ASCII

BEYOND_ASCII = re.compile(r"\\[DWSsbBpP]|\[\^[^\]]*\\[dws]|\(\?[a-z]*i")
"""What in a pattern means other characters to Pydantic than to ECMA-262, beyond ASCII."""
ASCII = r"^[\t\n\r -~]*$"
NO_EDGES = r"^(?:[^\s\x85](?:[^]*[^\s\x85])?)?$"
"""Texts that stay as they are when white space at both ends is taken away."""


def string(found: Schema, schema: Any, strips: bool) -> Schema:
    """Return the schema of a ``str`` whose patterns mean to ECMA-262 what they mean to Pydantic."""
    pattern, more = schema.get("pattern"), list[Schema]()
    if isinstance(pattern, re.Pattern):
        flags = "".join(letter for letter in "imsx" if pattern.flags & getattr(re, letter.upper()))
        found = {**found, "pattern": f"(?{flags}){pattern.pattern}" if flags else pattern.pattern}
    if strips and {"minLength", "maxLength", "pattern"} & found.keys():
        more.append({"pattern": NO_EDGES})
    if schema.get("ascii_only"):
        more.append({"pattern": ONLY_ASCII})
    if "pattern" in found and BEYOND_ASCII.search(found["pattern"]):
        more.append({"pattern": ASCII})
        why = "beyond ASCII its classes mean other characters to Pydantic than to JSON Schema"
        found = differing(found, "pattern", "all texts that the pattern matches", "those in ASCII", why)
    return {**found, "allOf": more} if more else found


def octets(schema: Any, encoding: str | None) -> Schema:
    """Return the schema of ``bytes``, which are written in UTF-8, base 64 or hexadecimal digits."""
    least, most = schema.get("min_length") or 0, schema.get("max_length")
    if encoding == "hex":
        return matching(f"(?:[0-9A-Fa-f]{{2}}){{{least},{'' if most is None else most}}}")
    if encoding == "base64":
        return matching(encoded(URL_SAFE, least, most, padded=False))
    if not least and most is None:
        return {"type": "string"}
    found: Schema = {"type": "string", "minLength": least, "pattern": ONLY_ASCII}
    found |= {} if most is None else {"maxLength": most}
    return differing(found, "pattern", *OF_BYTES)
