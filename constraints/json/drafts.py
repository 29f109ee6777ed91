"""The drafts of JSON Schema: the names that ``$schema`` gives them, and their own documents at json-schema.org."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from ...errors import UnsupportedConstraint

LATEST = 0
"""The draft of documents without ``$schema``, which may have every keyword of all drafts."""
NAMES = {
    "0?3": 3, "0?4": 4, "0?5": 4, "0?6": 6, "0?7": 7, "0?8|2019-09": 2019, "2020-12": 2020,
}  # fmt: skip
"""By pattern of a name, the draft; 5 renamed nothing, and 8 became 2019-09."""
HOST = r"(?:(?:https?:)?//)?(?:www\.)?json-schema\.org/"
OPENAPI = "https://spec.openapis.org/oas/3.1/"
"""OpenAPI 3.1 describes data in the vocabularies of 2020-12."""
IN_DRAFT_3 = {"divisibleBy": "multipleOf", "disallow": "not", "extends": "allOf"}
"""The keywords of draft 3 alone, and what they have been called since."""


@lru_cache(256)
def draft_of(name: str) -> int:
    """Return the draft that ``$schema`` names, in any of the ways in which it is written. Raises ``UnsupportedConstraint``."""
    text = name.strip().rstrip("#/").lower()
    if not text or re.fullmatch(f"{HOST}(?:hyper-)?schema", text):
        return LATEST
    if text.startswith(OPENAPI):
        return 2020
    for pattern, draft in NAMES.items():
        named = rf"draft[-/]?v?(?:{pattern})"
        if re.fullmatch(f"{HOST}{named}(?:/(?:hyper-)?schema)?", text) or re.fullmatch(named, text):
            return draft
        if re.fullmatch(pattern, text) and "-" in text:
            return draft
    raise UnsupportedConstraint(
        f"{name!r} is no draft; without $schema all keywords are read", path="/$schema"
    )


def published(uri: str, draft: int, path: str) -> dict[str, Any] | None:
    """Return the document of json-schema.org at a URI, ``None`` if none of its drafts has this URI.

    ``draft``: the draft of the schema that refers to it. Raises ``UnsupportedConstraint`` if the document is of draft 3, or of a
    draft that ``draft`` reads differently, or if ``jsonschema-specifications``, which has it, is not installed.
    """
    found = re.fullmatch(rf"{HOST}draft[-/]([\d-]+)/(schema|meta/[a-z-]+)/?", uri)
    if found is None:
        return None
    own = next((draft for pattern, draft in NAMES.items() if re.fullmatch(pattern, found[1])), 0)
    if own == 3:
        raise UnsupportedConstraint("the meta-schema of draft 3 is not read; later ones are", path=path)
    # the meta-schemas of drafts 6 and 7 mean the same to later drafts
    if draft not in (LATEST, own) and not (own in (6, 7) and draft >= 6):
        raise UnsupportedConstraint(
            f"{uri!r} is of another draft than the document; without $schema every keyword is read", path=path
        )
    try:
        from jsonschema_specifications import REGISTRY
    except ImportError:
        raise UnsupportedConstraint(
            f"{uri!r} is read by jsonschema-specifications, which is not installed: pip install jsonschema-specifications, "
            "or give it in documents={URI: schema}",
            path=path,
        ) from None
    scheme = "http" if own < 2019 else "https"
    known = REGISTRY.get(f"{scheme}://json-schema.org/{uri.partition('json-schema.org/')[2].rstrip('/')}")
    return None if known is None else dict(known.contents)
