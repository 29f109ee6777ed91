"""What an automaton keeps of the texts that it has met has a bound: counted in live objects, over many requests."""

import gc
import json
import random

import pytest

import tractile as tt
from tractile.constraints import grammar, json_schema, regex
from tractile.constraints.engine import cores

BYTES = tt.Vocabulary([*(bytes([byte]) for byte in range(256)), None], 256)
FEW = 1 << 26  # bytes that an engine keeps, for these tests


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
    "budget": (lambda: regex("x?") + json_schema({"type": "object"}).tokens(400), names),
}


def engines():
    gc.collect()
    return [one for one in gc.get_objects() if type(one) is cores.CoreEngine]


def kept(others):
    """The engines that are alive besides others, and the most bytes that one of them keeps."""
    found = [engine for engine in engines() if engine not in others]
    return len(found), max(engine.core.bytes() for engine in found)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_what_many_requests_leave_is_forgotten(case, monkeypatch):
    monkeypatch.setattr(cores, "MOST_BYTES", FEW)
    monkeypatch.setattr(cores, "_shared", type(cores._shared)())
    others, (make, text_of) = engines(), CASES[case]
    rng, fa, alive = random.Random(0), make().compile(BYTES), []
    shared = tt.gcd(fa, 3_000)
    for i in range(30):
        query = (shared.fork() if i % 2 else tt.gcd(fa, 2_000)).start(budgets=1_000)
        for byte in text_of(rng).encode():
            assert query.mask()[0, byte]
            query.advance([byte])
        assert query.mask()[0, 256]
        if i % 10 == 9:
            alive.append(kept(others))
    assert max(count for count, _ in alive) <= alive[0][0] + 2
    assert max(size for _, size in alive) < 2 * FEW


def test_rows_in_flight_keep_their_states(monkeypatch):
    monkeypatch.setattr(cores, "MOST_BYTES", 1)  # each row has an engine of its own
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


def test_what_one_constraint_needs_to_start_is_found_once(monkeypatch):
    monkeypatch.setattr(cores, "MOST_BYTES", 1)
    monkeypatch.setattr(cores, "_shared", type(cores._shared)())
    fa = tt.constraints.regex(".{10,60}").tokens(50, 4).compile(BYTES)
    engine = fa.lazy.engine
    found = engine.core.work()["lexed"]
    assert found > 0
    for _ in range(3):
        tt.gcd(fa, 40).start(budgets=30)
    assert fa.lazy.engine is engine
    assert engine.core.work()["lexed"] == found
