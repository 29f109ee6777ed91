"""Patterns that count characters, against ``re`` and against automata of the counts."""

import itertools
import json
import re

import pytest

import tractile as tt
from tractile.constraints.json import counted_patterns
from tractile.constraints.json.counted_patterns import pattern_shapes, without_count

COUNTED = {
    "^[a-z][a-z0-9_-]{0,63}$": ("^[a-z][a-z0-9_-]*$", 1, 64), "^.{1,255}$": ("^.*$", 1, 255),
    "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$": ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", 1, 63),
    "^([a-f]{40})$": ("^([a-f]*)$", 40, 40), "^a{40}b{50}$": ("^a*b{50}$", 90, 90), "^a{40}b{0,50}$": ("^a{40}b*$", 40, 90),
    "^[a-z]{64,}$": ("^[a-z]*$", 64, None), "^(a{0,40}b{40})?$": ("^(a*b{40})?$", 0, 80),
    "^[^{50}]{32}$": ("^[^{50}]*$", 32, 32), "^(a|b){1,64}$": ("^(a|b)*$", 1, 64),
    "^(?!-)[a-z-]{1,64}(?<!-)$": ("^(?!-)[a-z-]*(?<!-)$", 1, 64),
}  # fmt: skip
NOT_COUNTED = [
    "^[a-z]{40}(bc)?$", "^a([b]{40})?$", "^[{40}]*$", "a{1,64}", r"^(?:\S+\s+){0,99}\S+$", r"^\w{1,64}x?$",
    "^a{1,64}|b$", "^$|^a{1,64}$", "^x?a{1,64}$", "(?m)^a{1,64}$", "^a{1,31}$", "^a{40", "^a{1,64}+$",
    "^x{0,40}(?:y$)?", "^(x|yz){0,40}$", "^(a{0,40})?b?$",
]  # fmt: skip


@pytest.mark.parametrize("pattern", COUNTED)
def test_the_length_tells_the_count(pattern):
    assert without_count(pattern) == COUNTED[pattern]


@pytest.mark.parametrize("pattern", NOT_COUNTED)
def test_the_length_does_not_tell_the_count(pattern):
    assert without_count(pattern) is None


SMALL = [
    "^[ab]{2,3}$", "^a[ab]{0,2}$", "^a{2}b{0,2}$", "^a(b{0,2}a)?$", "^a((b{0,3}))?b$", "^(a{2})$", "^a{2}b{1}$", "^b{2,}$",
    "^a{2}(b)?$", "^a(b{2})?$", "^[a{2}]*$", "^(ab?){2}$", "^a{0,2}?b$", "^(a{1,2}b{1,2})?$", "^(b{0,2})?a{2}$",
    "ab", "b?", "a{2}", "^ab|ba", "a(b|a$)", "(a|ab)(b|$)", r"aa|b\b", "b(?=a)", "a(?!b)", "(?<=a)b", "^a*b", "(?:ab?a|b{3})",
]  # fmt: skip


@pytest.mark.parametrize("pattern", SMALL)
def test_the_same_strings_as_re(pattern, monkeypatch):
    monkeypatch.setattr(counted_patterns, "LARGE", 2)
    pattern_shapes.cache_clear()
    try:
        which = tt.constraints.json_schema({"type": "string", "pattern": pattern})
        other = tt.constraints.json_schema({"type": "string", "not": {"pattern": pattern}})
    finally:
        pattern_shapes.cache_clear()
    for size in range(6):
        for letters in itertools.product("ab", repeat=size):
            text = "".join(letters)
            found = re.search(pattern, text) is not None
            assert which.accepts(json.dumps(text)) == found, text
            assert other.accepts(json.dumps(text)) != found, text


@pytest.mark.parametrize("pattern", ["\n", "[\n\t]x", "^(\n\n\n)*$", "\u00e9\n"])
@pytest.mark.parametrize("most", [None, 9])
def test_a_short_text_is_found_where_letters_must_be_escaped(pattern, most):
    bounds = {"minLength": 4} | ({} if most is None else {"maxLength": most})
    found = tt.constraints.json_schema({"type": "string", "pattern": pattern} | bounds)
    text = json.loads(found.shortest())
    assert len(text) >= 4
    assert re.search(pattern, text)
