"""The format "idn-hostname": nothing is accepted that the package ``idna`` (RFC 5890 to 5893) refuses."""

import json
import random

import pytest

import tractile as tt
from tractile.constraints.automata import utf8
from tractile.constraints.json.idn import LABELS, LAST, LONGEST, RUN, UNITS, hostnames, wide

idna = pytest.importorskip("idna")
WIDE = [chr(code) for low, high in wide() for code in range(low, high + 1)]
ASCII = "abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture(scope="module")
def constraint():
    schema = {"type": "string", "format": "idn-hostname"}
    return tt.constraints.json_schema(schema, on_narrowed="ignore")


def accepts(constraint, text):
    return constraint.accepts(json.dumps(text, ensure_ascii=False))


def test_all_wide_characters_may_stand_anywhere():
    assert len(WIDE) > 40_000
    for char in WIDE:
        for label in (char, f"{char}a", f"a{char}", f"a-{char}"):
            idna.encode(label)


def test_labels_fit_in_punycode():
    """The longest label of every composition, from the number of digits that the values to be encoded take."""
    thresholds = (0, 1, 36, 1_261, 28_886, 288_886, 2_888_886)
    for some in range(1, UNITS + 1):
        ascii_ = RUN * (UNITS - some)
        n = some + ascii_
        cost = [max(0, -(-(least - n) // (n + 1))) for least in thresholds]
        best = {0: 0}  # by the digits of the numbers so far, the least sum of their steps between code points
        for _ in range(some):
            after: dict[int, int] = {}
            for digits, spent in best.items():
                for more, step in enumerate(cost, 1):
                    if spent + step <= LAST:
                        after[digits + more] = min(after.get(digits + more, LAST), spent + step)
            best = after
        assert len("xn--") + ascii_ + (ascii_ > 0) + max(best) <= LONGEST
    assert LABELS * LONGEST + LABELS - 1 <= 253


def test_idna_encodes_what_is_accepted():
    automaton, rng = hostnames(utf8.utf8), random.Random(8)
    extremes = [WIDE[0], WIDE[1], WIDE[-1], WIDE[-2], *WIDE[::4_000]]

    def label():
        found, few = "", rng.choice((WIDE, extremes))
        for _ in range(rng.choice((1, 3, UNITS, UNITS))):
            kind = rng.random()
            found += (
                rng.choice(few) if kind < 0.6 else "".join(rng.choices(ASCII, k=RUN if kind < 0.9 else 1))
            )
        return found[:-1] + "-" + found[-1] if rng.random() < 0.2 and len(found) < 5 else found

    accepted = 0
    for _ in range(4_000):
        text = ".".join(label() for _ in range(rng.randint(1, LABELS)))
        if automaton.accepts(text.encode()):
            accepted += 1
            assert len(idna.encode(text)) <= 253
    assert accepted > 3_500


def test_examples(constraint):
    for text in (
        "straße.de",
        "例え.テスト",
        "한국.kr",
        "пример.рф",
        "Example.COM",
        "a-b.c",
        "ελλάς",
        "x" * 62,
        "०१.भ",
    ):
        idna.encode(text)
        assert accepts(constraint, text), text
    for text in (
        "", ".", "a.", "-a", "a-", "ab--c", "xn--a", "a_b", "a b", "Straße", "a\u0301", "\u0301a", "أهلا", "a・b", "l·l", "a..b",
        "x" * 64, "〱", "a\u200db", "Ａ",
    ):  # fmt: skip
        assert not accepts(constraint, text), text
    assert [each.keyword for each in constraint.narrowed] == ["format"]


def test_not_a_hostname_is_what_surely_is_none():
    schema = {"type": "string", "not": {"format": "idn-hostname"}}
    other = tt.constraints.json_schema(schema, on_narrowed="ignore")
    assert [accepts(other, text) for text in ("", "a b", "é_", "a", "é", "a.b.c.d.e")] == [True] * 3 + [
        False
    ] * 3


def test_beside_a_length():
    schema = {"type": "string", "format": "idn-hostname", "maxLength": 3, "pattern": "é"}
    some = tt.constraints.json_schema(schema, on_narrowed="ignore")
    assert [accepts(some, text) for text in ("é", "aé", "aéb", "aébc", "ab")] == [
        True,
        True,
        True,
        False,
        False,
    ]
