"""Rehearsals: masks are the same with and without, most are found cached, limits hold; threads do not disturb each other."""

import itertools
import json
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Event

import numpy as np
import pytest
import torch
from counting import HANGS

import tractile as tt
from tractile.constraints.engine.native import CompiledTokens
from tractile.decoding.grammar_rows import Grammars
from tractile.decoding.rehearsal import Rehearsals, drawn, rehearse
from tractile.embedded import load_lm
from tractile.inference.next_token.gcd import GCDQuery

STRING = {"type": "string"}


@cache
def tokenizer():
    return load_lm()[1]


def new_vocabulary():
    """A vocabulary whose own caches are empty."""
    return tt.Vocabulary.from_tokenizer(tokenizer())


def json_of(name, **more):
    schema = {
        "type": "array",
        "minItems": 2,
        "items": {"type": "object", "properties": {name: STRING, **more}, "required": [name],
                  "additionalProperties": False},
    }  # fmt: skip
    return json.dumps(["json_schema", schema, {}])


CONSTRAINTS = [
    json_of("name"),
    json_of("b", count={"type": "integer"}, kind={"enum": ["cat", "dog"]}),
    json.dumps(["json_schema", {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 3}, {}]),
    json.dumps(["regex", r"[a-z]{3,9}( and [a-z]{3,9})*\.", {}]),
    json.dumps(["grammar", 'root ::= "(" root ")" | "a" root | "b"', {}]),
    json.dumps(["choice", ["yes", "no", "nobody knows"], {}]),
]  # fmt: skip


def walk(row, dice):
    """The masks along a random text, to its end."""
    masks = []
    mask = torch.zeros(1, -(-row._query.vocab_size // 32), dtype=torch.int32)
    while not row.terminated:
        row.fill(mask)
        masks.append(mask[0].numpy().copy())
        assert row.accept([drawn(masks[-1], dice)])
    return np.stack(masks)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("budget", [40, 25, None])
def test_masks_are_the_same_with_and_without(constraint, budget):
    plain, rehearsed = Grammars(new_vocabulary()), Grammars(new_vocabulary())
    for _ in rehearsed.row(constraint, budget).rehearse(HANGS):
        pass
    for seed in range(2):
        for own in (budget or 48, 30 + seed):
            walks = [walk(g.row(constraint, own), random.Random(seed)) for g in (plain, rehearsed)]
            np.testing.assert_array_equal(*walks)


def test_rehearsed_masks_are_those_of_enumeration():
    letters = [None, b"a", b"b", b"ab", b"c"]
    pattern, budget = r"(ab)*c|a?b", 6
    accepts = tt.constraints.regex(pattern).accepts
    texts = {
        (*tokens, 0)
        for n in range(budget)
        for tokens in itertools.product(range(1, 5), repeat=n)
        if accepts(b"".join(letters[t] for t in tokens))
    }
    prefixes = {text[:n] for text in texts for n in range(len(text) + 1)}
    row = Grammars(tt.Vocabulary(letters, eos_token_id=0)).row(json.dumps(["regex", pattern, {}]), budget)
    assert sum(1 for _ in row.rehearse(HANGS)) > 1
    mask = torch.zeros(1, 1, dtype=torch.int32)
    for prefix in sorted(prefixes - texts):
        row.reset()
        assert row.accept(prefix)
        row.fill(mask)
        assert {t for t in range(5) if int(mask) >> t & 1} == {
            t for t in range(5) if (*prefix, t) in prefixes
        }


def test_texts_find_their_masks_cached(monkeypatch):
    made = []
    for tokens, name in itertools.product((CompiledTokens,), ("words_from", "words_within")):
        original = getattr(tokens, name)

        def counted(self, state, *left, original=original):
            made.append(state)
            return original(self, state, *left)

        monkeypatch.setattr(tokens, name, counted)
    grammars, counts = Grammars(new_vocabulary()), {}
    for rehearsal in (False, True):
        counts[rehearsal] = 0
        for i in range(3):
            row = grammars.row(json_of(f"n{i}{rehearsal}"), 64)
            for _ in row.rehearse(HANGS) if rehearsal else ():
                pass
            made.clear()
            walk(row, random.Random(i))
            counts[rehearsal] += len(made)
    assert counts[True] < counts[False] / 3


def test_limits_and_what_a_rehearsal_leaves_alone():
    grammars = Grammars(new_vocabulary())
    fa = tt.constraints.regex("[a-z]+").compile(new_vocabulary())
    query = tt.gcd(fa, 100).start(batch=2, budgets=[7, 9])
    before = query.mask()
    assert sum(1 for _ in rehearse(query, texts=3, tokens=4, seconds=HANGS)) in range(3, 13)
    assert sum(1 for _ in rehearse(query, texts=1, seconds=HANGS)) <= 7
    assert sum(1 for _ in rehearse(query, seconds=0)) == 1
    assert torch.equal(query.mask(), before)
    assert query.remaining.tolist() == [7, 9]

    row = grammars.row(CONSTRAINTS[0], 40)
    assert row.left == 40
    assert not list(row.rehearse(0))  # off
    steps = row.rehearse(HANGS)
    next(steps)
    assert row.accept([drawn(np.array(row._read(), np.int32), random.Random(0))])
    assert sum(1 for _ in steps) > 10
    assert (len(row.tokens), row.left) == (1, 39)
    assert not list(grammars.row(CONSTRAINTS[0], 60).rehearse(HANGS))  # once for each constraint
    row = grammars.row(CONSTRAINTS[-1], 9)
    while not row.terminated:
        assert row.accept([drawn(np.array(row._read(), np.int32), random.Random(0))])
    assert not list(row.rehearse(HANGS))  # the text has ended


def test_a_rehearsal_goes_on_from_the_text_so_far(monkeypatch):
    row, began = Grammars(new_vocabulary()).row(json_of("name"), 64), []
    words = GCDQuery.words
    monkeypatch.setattr(
        GCDQuery, "words", lambda query: began.append(query.states + query.remaining.tolist()) or words(query)
    )
    assert row.accept(tokenizer().convert_tokens_to_ids([f"<0x{byte:02X}>" for byte in b"[{"]))
    steps = row.rehearse(HANGS)
    assert row.accept(tokenizer().convert_tokens_to_ids(["<0x22>"]))  # the row goes on meanwhile
    list(steps)
    assert began[0][1] == 62
    assert [left for _, left in began].count(62) == 2  # two continuations, both from there


@pytest.fixture
def hasty_threads():
    """Threads that take turns every few instructions."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_threads_that_rehearse_and_write_one_constraint(hasty_threads):
    names = ["a", "bc", "def"]
    alone = {
        name: walk(Grammars(new_vocabulary()).row(json_of(name), 40), random.Random(1)) for name in names
    }
    for _ in range(2):
        grammars = Grammars(new_vocabulary())
        # rows of one constraint share one lock, all share the caches of the vocabulary
        rows = {name: grammars.row(json_of(name), 40) for name in names}

        def run(work, rows=rows):
            kind, name, seed = work
            if kind == "write":
                return walk(rows[name].fork(), random.Random(1))
            for _ in rehearse(rows[name]._query, seconds=HANGS, seed=seed, lock=rows[name]._lock):
                pass
            return None

        jobs = [(kind, name, seed) for seed in range(2) for name in names for kind in ("rehearse", "write")]
        with ThreadPoolExecutor(6) as pool:
            for (kind, name, _), found in zip(jobs, pool.map(run, jobs), strict=True):
                if kind == "write":
                    np.testing.assert_array_equal(found, alone[name])


# ------------------------------------------------------------ the thread


class Owner:
    """What a rehearsal is for."""


def test_rehearsals_wait_for_holds_and_end():
    rehearsals, owner, seen = Rehearsals(pause=0), Owner(), []

    def steps(name, count):
        for i in range(count):
            seen.append((name, i))
            yield

    with rehearsals:
        rehearsals.add(steps("a", 3), owner)
        rehearsals.add(steps("b", 2), owner)
        assert not rehearsals.join(0.1)
        assert not seen
    assert rehearsals.join(HANGS)
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
    rehearsals.add(steps("c", 1), owner)  # a new thread
    assert rehearsals.join(HANGS)
    assert seen[-1] == ("c", 0)


def test_a_rehearsal_ends_with_what_it_is_for():
    rehearsals, owner, running, go_on = Rehearsals(pause=0), Owner(), Event(), Event()

    def endless():
        while True:
            running.set()
            yield

    def other():
        go_on.set()
        yield

    other_owner = Owner()
    rehearsals.add(endless(), owner)
    rehearsals.add(other(), other_owner)
    assert running.wait(HANGS)
    assert not go_on.is_set()
    del owner
    assert go_on.wait(HANGS)
    assert rehearsals.join(HANGS)


def test_an_error_ends_one_rehearsal():
    rehearsals, owner, reached = Rehearsals(pause=0), Owner(), Event()

    def fails():
        raise MemoryError
        yield

    def fine():
        reached.set()
        yield

    rehearsals.add(fails(), owner)
    rehearsals.add(fine(), owner)
    assert rehearsals.join(HANGS)
    assert reached.is_set()
