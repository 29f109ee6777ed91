"""What an automaton keeps of the texts that it has met has a bound: counted in live objects, over many requests."""

import gc
import json
import random

import pytest

import tractile as tt
from tractile.constraints import grammar, json_schema, regex
from tractile.constraints.automata.stack import Stack
from tractile.constraints.masks.steps import Steps

BYTES = tt.Vocabulary([*(bytes([byte]) for byte in range(256)), None], 256)
FEW = 300  # states in a table, for these tests


def names(rng):
    return json.dumps({f"n{rng.randrange(10**9)}": i for i in range(6)})


def brackets(rng):
    kinds = rng.choices(["[]", "{}"], k=14)
    return "".join(a for a, _ in kinds) + "".join(b for _, b in reversed(kinds))


def letters(rng):
    return "".join(rng.choices("ab", k=rng.randrange(200, 300)))


CASES = {
    "names": (lambda: json_schema({"type": "object", "minProperties": 4}), names),
    "brackets": (lambda: grammar('s: "[" s? "]" | "{" s? "}"', start="s"), brackets),
    "letters": (lambda: regex("[ab]{0,3000}"), letters),
    "budget": (lambda: regex("x?") + json_schema({"type": "object", "minProperties": 4}).tokens(400), names),
}


@pytest.mark.parametrize("case", CASES)
def test_states_of_many_requests_are_forgotten(case, monkeypatch):
    monkeypatch.setattr(Steps, "most_states", FEW)
    make, text_of = CASES[case]
    rng, fa, alive = random.Random(0), make().compile(BYTES), []
    shared = tt.gcd(fa, 3_000)
    for i in range(60):
        query = (shared.fork() if i % 2 else tt.gcd(fa, 2_000)).start(budgets=1_000)
        for byte in text_of(rng).encode():
            assert query.mask()[0, byte]
            query.advance([byte])
        assert query.mask()[0, 256]
        if i % 10 == 9:
            gc.collect()
            alive.append(sum(type(one) is Stack for one in gc.get_objects()))
    assert max(alive[2:]) < 1.5 * min(alive[2:]) + 3 * FEW


def test_rows_in_flight_keep_their_states(monkeypatch):
    monkeypatch.setattr(Steps, "most_states", 50)
    fa, rng = CASES["names"][0]().compile(BYTES), random.Random(1)
    plain = tt.gcd(fa, 2_000)
    text = names(rng).encode()
    kept, at = plain.fork().start(budgets=500), 0
    for _ in range(8):
        other, same = tt.gcd(fa, 2_000).start(budgets=500), plain.fork().start(budgets=500)
        for byte in text[:at]:
            same.advance([byte])
        assert (same.mask() == kept.mask()).all()
        for byte in names(rng).encode():
            other.advance([byte])
        for byte in text[at : at + 7]:
            assert kept.mask()[0, byte]
            kept.advance([byte])
        at += 7
    kept.rollback(at)
    assert (kept.mask() == tt.gcd(fa, 2_000).start(budgets=500).mask()).all()


def test_texts_that_are_checked_are_forgotten(monkeypatch):
    monkeypatch.setattr("tractile.constraints.lazy_constraint.MOST_STATES", FEW)
    constraint, rng, alive = CASES["names"][0](), random.Random(0), []
    for i in range(120):
        assert constraint.accepts(names(rng))
        if i % 20 == 19:
            gc.collect()
            alive.append(sum(type(one) is Stack for one in gc.get_objects()))
    assert max(alive[2:]) < 1.5 * min(alive[2:]) + 3 * FEW
