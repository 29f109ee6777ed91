"""The members of the formats of structural tags, and the tokens that formats name by text or by number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...circuits.narrowing import TOKEN
from ...errors import FormatError
from ..constraint import Constraint
from ..narrowing import Narrowing
from ..vocabulary.numbered import OPENING, text_of
from ..words.free_text import strings
from ..words.literals import literal

KINDS: dict[str, type | tuple[type, ...]] = {
    "elements": list, "tags": list, "rules": list, "structures": list, "value": str, "pattern": str, "grammar": str,
    "separator": str, "begin": str, "end": (str, list), "trigger_tokens": list,
}  # fmt: skip


def get(spec: Any, key: str, path: str, kind: Any = None) -> Any:
    """Return a required member of a format, of the type that ``KINDS`` gives it or of ``kind``.

    Raises ``FormatError`` if it is missing or of a wrong type.
    """
    if not isinstance(spec, Mapping) or key not in spec:
        raise FormatError(f"{path or 'the structural tag'} has no {key!r}")
    value = spec[key]
    if not isinstance(value, kind or KINDS.get(key, object)):
        raise FormatError(f"{path}/{key}: {value!r:.60} is of a wrong type")
    return value


class TokenNames:
    """The texts of the tokens that a structural tag names by text or by number.

    ``texts``: by number, as the caller gave them. ``unnamed``: placeholders of numbers without a text; ``compile`` fills them.
    """

    def __init__(self, texts: Mapping[int, str]) -> None:
        self.texts, self.unnamed = texts, dict[str, None]()

    def names(self) -> Constraint:
        """Accept the empty text, and tell ``compile`` which tokens are named by number alone."""
        why = "a token that is named by its number"
        cuts = (Narrowing("format", TOKEN, text, "its text", why) for text in self.unnamed)
        return Constraint(literal("").nfa, tuple(cuts))

    def mark(self, spec: Any, key: str, path: str) -> Any:
        """Return a tag's ``begin`` or ``end``: a text, or the text of a token."""
        if isinstance(spec, Mapping) and isinstance(token := spec.get(key), Mapping):
            return self.text(get(token, "token", f"{path}/{key}"), f"{path}/{key}")
        return get(spec, key, path)

    def banned(self, spec: Any, path: str) -> list[str]:
        """Return the texts that the free text of a format must not contain; free tokens may be any tokens."""
        found = strings(spec.get("excludes", ()), f"{path}/excludes", least=0)
        return [*found, OPENING] if self.unnamed and "token" not in spec["type"] else found

    def excluded(self, spec: Any, path: str) -> list[str]:
        """Return the texts of the tokens that a format excludes."""
        named = spec.get("exclude_tokens", [])
        if not isinstance(named, list | tuple):
            raise FormatError(f"{path}/exclude_tokens: {named!r:.60} is no list of tokens")
        return [self.text(token, f"{path}/exclude_tokens") for token in named]

    def text(self, token: Any, path: str) -> str:
        """Return the text of a token, given by text or number.

        Raises ``FormatError`` for anything else.
        """
        number = isinstance(token, int) and not isinstance(token, bool) and token >= 0
        if not number and (not isinstance(token, str) or not token):
            raise FormatError(f"{path}: {token!r:.60} is no token: a text or a number")
        if isinstance(token, str):
            return token
        if token in self.texts:
            return self.texts[token]
        self.unnamed[text_of(token)] = None
        return text_of(token)
