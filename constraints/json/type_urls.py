"""The texts of URLs and data source names of a type, as schemas: RFC 3986 with hosts that every reader of URLs passes.

    scheme://user:password@host:port/path?query#fragment

Hosts are names of ASCII labels without ``--``, of which the last begins with a letter, or addresses. A data source may have
several hosts.
"""

from __future__ import annotations

import re
from typing import Any

from .formats import IPV4, IPV6
from .type_marks import Schema, differing
from .type_texts import matching

_LABEL = r"[A-Za-z0-9](?:-?[A-Za-z0-9])*"
NAME = rf"(?:{_LABEL}\.)*[A-Za-z](?:-?[A-Za-z0-9])*"
HOST = rf"(?:{NAME}|{IPV4}|\[{IPV6}\])"
USER = r"(?:[A-Za-z0-9._~-]+(?::[A-Za-z0-9._~-]*)?@)?"
PORT = r"(?::(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[0-9]{1,4}))?"
_SOME = r"(?:[A-Za-z0-9._~!$&()*+,;=:@-]|%[0-9A-Fa-f]{2})"
TAIL = rf"(?:/{_SOME}*)*(?:\?(?:{_SOME}|[/?])*)?(?:#(?:{_SOME}|[/?])*)?"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*"
OPAQUE = rf"(?:mailto|urn|tel|sms|geo|news|data|magnet):{_SOME}(?:{_SOME}|/)*(?:\?(?:{_SOME}|[/?])*)?"
FILE = rf"file://(?:{NAME})?/{_SOME}*(?:/{_SOME}*)*"
NO_FILE = {"not": {"pattern": "^[Ff][Ii][Ll][Ee]:"}}


def urls(schema: Any, several: bool = False) -> Schema:
    """Return the schema of the URLs of a core schema; ``several``: whether there may be several hosts."""
    place = f"{USER}{HOST}{PORT}"
    authority = f"{place}(?:,{place})*" if several else place
    schemes = schema.get("allowed_schemes")
    ways: list[Schema] = []
    if schemes is None:
        ways = [{**matching(f"{_SCHEME}://{authority}{TAIL}"), **NO_FILE}]
        ways += [] if schema.get("host_required") else [matching(f"{OPAQUE}|{FILE}")]
    else:
        named = [re.escape(name).replace(r"\-", "-") for name in schemes if name != "file"]
        ways += [matching(f"(?:{'|'.join(named)})://{authority}{TAIL}")] if named else []
        ways += [matching(FILE)] if "file" in schemes else []
    found: Schema = {**ways[0]} if len(ways) == 1 else {"type": "string", "anyOf": ways}
    if schema.get("max_length") is not None:
        found["maxLength"] = max(schema["max_length"] - 1, 0)  # a slash is added after a bare host
    why = "readers of URLs differ in other hosts, and in what they escape"
    return differing(
        found, "format", "all URLs of the type", "URLs in ASCII with a name or an address as host", why
    )
