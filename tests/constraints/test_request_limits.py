"""Limits of a request: refused by work, stopped by seconds or from outside, never raised by the request; nothing fetched."""

import asyncio
import itertools
import json
import sys
import threading
from contextlib import suppress
from types import SimpleNamespace

import pytest
from counting import HANGS

import tractile as tt
from tractile import constraints
from tractile.constraints import Limits
from tractile.constraints.automata import request_limits
from tractile.decoding.grammar_rows import Grammars
from tractile.decoding.request import build_constraint, compile_request, read_request

VOCAB = tt.Vocabulary([*(bytes([b]) for b in range(128)), b'{"', b'":', None], eos_token_id=130)
HEAVY = [["regex", f"([ab]{{{n},900}}c|b[bc]*){{1,{n}}}", {}] for n in range(30, 60)]


def build_heavy():
    """Constructions that take work for a long time, none of them too much."""
    for kind, description, options in HEAVY:
        build_constraint(kind, description, options).compile(VOCAB)
    pytest.fail("not stopped")


def test_work_is_counted_the_same_every_time():
    def build():
        return constraints.json_schema({"enum": [f"{i:05d}" for i in range(2_000)]}).compile(VOCAB)

    for _ in range(2):
        with pytest.raises(tt.errors.TooManyStates):
            Limits(work=10_000).run(build)
    Limits(work=1e9).run(build)  # no more than any constraint may take, but that suffices
    with pytest.raises(tt.errors.TooManyStates):
        Limits(work=10_000).run(build)


def test_limits_around_limits_stay_in_force():
    with pytest.raises(tt.errors.TooManyStates):
        Limits(work=250).run(lambda: Limits().run(lambda: constraints.regex("(a|b)*a(a|b){12}")))


def test_a_construction_stops_after_its_seconds(monkeypatch):
    """A hundredth of a second passes between two looks at the clock."""
    looks = itertools.count()
    monkeypatch.setattr(request_limits, "time", SimpleNamespace(monotonic=lambda: next(looks) / 100))
    with pytest.raises(tt.errors.ConstructionStopped, match=r"0\.2 s"):
        Limits(seconds=0.2).run(build_heavy)
    assert next(looks) in (21, 22, 23)


def test_a_construction_is_stopped_from_another_thread():
    stop, raised = threading.Event(), []

    def work():
        try:
            Limits(seconds=1_000).run(build_heavy, stop)
        except tt.errors.ConstructionStopped as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    stop.set()
    thread.join(HANGS)
    assert not thread.is_alive()
    assert raised


def test_an_event_loop_goes_on_and_a_cancelled_task_stops_its_construction():
    running = threading.Event()
    ended = threading.Event()

    def work():
        running.set()
        try:
            build_heavy()
        finally:
            ended.set()

    async def main():
        task = asyncio.create_task(Limits(seconds=1_000).run_async(work))
        while not running.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await Limits().run_async(lambda: constraints.regex("a").accepts("a"))

    asyncio.run(main())
    assert ended.wait(HANGS)


def test_an_event_loop_goes_on_while_constraints_are_compiled():
    """Three constructions are under way at once, and none goes on before another coroutine has run."""
    begun, go_on = [], threading.Event()

    def make(n):
        constraint = constraints.regex(f"([ab]{{{n},9}}c|b[bc]*){{1,{n}}}")
        begun.append(n)
        assert go_on.wait(HANGS)
        return constraint.compile(VOCAB)

    async def other(tasks):
        while len(begun) < len(tasks):
            await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)
        go_on.set()

    async def main():
        tasks = [asyncio.create_task(Limits().run_async(lambda n=n: make(n))) for n in (3, 4, 5)]
        await asyncio.gather(*tasks, other(tasks))
        return [task.result().num_states for task in tasks]

    assert min(asyncio.run(main())) > 20


@pytest.mark.parametrize(
    "values", [{"work": 0}, {"seconds": float("nan")}, {"bytes": "1"}, {"seconds": True}]
)
def test_limits_that_are_none(values):
    with pytest.raises(tt.errors.UnsupportedConstraint, match="Limits"):
        Limits(**values)


def asked(wish):
    return read_request(SimpleNamespace(extra_args={"tractile": wish}, max_tokens=20)).constraint


def test_what_a_request_asks_for_is_refused_beyond_the_limits():
    big = asked({"choice": [f"{i:05d}" for i in range(2_000)]})
    with pytest.raises(tt.errors.UnsupportedConstraint, match="bytes"):
        compile_request(big, VOCAB, Limits(bytes=1_000))
    heavy = asked({"json_schema": {"enum": [f"{i:05d}" for i in range(2_000)]}})
    with pytest.raises(tt.errors.UnsupportedConstraint, match="work"):
        compile_request(heavy, VOCAB, Limits(work=10_000))


@pytest.mark.parametrize("name", ["limits", "work", "seconds", "bytes"])
def test_a_request_cannot_raise_the_limits(name):
    for wish in ({"regex": "a", name: 10**9}, {"regex": "a", "options": {name: 10**9}}):
        with pytest.raises(tt.errors.UnsupportedConstraint):
            compile_request(asked(wish), VOCAB, Limits())


@pytest.mark.parametrize(
    "wish",
    [
        {"json_schema": {"$ref": "http://127.0.0.1:9/schema.json"}}, {"json_schema": {"$ref": "file:///etc/passwd"}},
        {"json_schema": {"$schema": "http://127.0.0.1:9/draft", "type": "integer"}},
        {"grammar": "%import .secret.X\nstart: X"}, {"grammar": "%import secret.X\nstart: X"},
        {"grammar": "%import common.INT\n%import .secret (X)\nstart: X"}, {"grammar": "secret.lark"},
        {"grammar": "start: /(?{print(1)})a/"}, {"regex": "(?{__import__('os')})"},
        {"tools": [{"name": "f", "parameters": {"$ref": "http://127.0.0.1:9/"}}]},
        {"structural_tag": {"type": "__import__('os')"}},
    ],
)  # fmt: skip
def test_nothing_is_fetched_opened_or_imported(wish, tmp_path, monkeypatch):
    (tmp_path / "secret.lark").write_text('X: "the secret"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(tmp_path / "server.py"), raising=False)
    touched = []
    forbidden = ("socket.", "subprocess.", "os.system", "urllib", "os.exec", "ftplib", "http.")

    def audit(event, arguments):
        if audit.on and (event.startswith(forbidden) or (event == "open" and "secret" in str(arguments[0]))):
            touched.append((event, arguments))

    audit.on = True
    sys.addaudithook(audit)  # there is no way to remove it
    try:
        found = compile_request(asked(wish), VOCAB, Limits())
        assert not found.accepts_tokens([*b"the secret", 130])
    except tt.TractileError:
        pass
    finally:
        audit.on = False
    assert not touched


BYTES = tt.Vocabulary([*(bytes([b]) for b in range(256)), b'{"', b'":', b'", "', None], eos_token_id=259)


def nested(depth, least, item):
    """Arrays of ``least`` items within one another."""
    levels = {"a0": item} | {
        f"a{i}": {"type": "array", "minItems": least, "items": {"$ref": f"#/$defs/a{i - 1}"}}
        for i in range(1, depth + 1)
    }
    return {"$defs": levels, "$ref": f"#/$defs/a{depth}"}


PAIR = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}


def many_members(count):
    members = {f"member{i}": {"type": "string"} for i in range(count)}
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


@pytest.mark.parametrize("text", ["x" * 2_000_000, "é\n" * 100_000])
def test_a_long_text_is_refused_by_its_work(text):
    with pytest.raises(tt.errors.TooManyStates):
        Limits().run(lambda: constraints.json_schema({"enum": [text]}).compile(BYTES))


@pytest.mark.parametrize(
    ("schema", "budget"),
    [
        (nested(4, 10, PAIR), 64),
        (nested(4, 10, {"type": "array", "minItems": 10}), 64),
        (many_members(400), 900),
    ],
)
def test_a_search_for_what_fits_a_budget_is_within_the_limits(schema, budget):
    """In ``start``, in the fewest tokens, and in masks; the error says what may be done."""
    fa = constraints.json_schema(schema).compile(BYTES)
    for search in (lambda: tt.gcd(fa, 100_000).start(budgets=budget), lambda: fa.fewest_after([])):
        with pytest.raises(tt.errors.TooManyStates, match="budget"):
            Limits(work=10).run(search)


def test_what_a_finite_automaton_needs_is_within_the_limits():
    """A count and a word that may come at any place: states are many, and so are the ways through them."""
    fa = constraints.regex(r"<t>[\s\S]{0,200}?</thought>\s*(yes|no)").compile(BYTES)
    for _ in range(2):
        with pytest.raises(tt.errors.TooManyStates, match="budget"):
            Limits(work=150).run(lambda: tt.gcd(fa, 900).start(budgets=15))


def test_a_search_that_limits_stop_changes_no_later_answer():
    schema = {"type": "object", "properties": {name: {"type": "boolean"} for name in "abcdef"}}
    schema |= {"required": list("abcdef"), "additionalProperties": False}
    # a byte is a token, but for the seven of two bytes: {" and ":
    known = len(json.dumps(dict.fromkeys("abcdef", True))) + 1 - 7
    fa, stopped = constraints.json_schema(schema).compile(BYTES), 0
    for work in (*range(1, 50), *range(50, 4_000, 50), *range(4_000, 40_000, 1_000)):
        try:
            found = Limits(work=work).run(lambda: fa.fewest_after([]))
        except tt.errors.TooManyStates:
            stopped += 1
        else:
            assert found == known
    assert stopped
    assert fa.fewest_after([]) == known
    query = tt.gcd(fa, 200).start(budgets=known + 1)
    fresh = tt.gcd(constraints.json_schema(schema).compile(BYTES), 200).start(budgets=known + 1)
    while (mask := fresh.mask()).any() and int(fresh.remaining[0]):
        for work in (1, 10, 200, 2_000):
            with suppress(tt.errors.TooManyStates):
                assert (Limits(work=work).run(query.mask) == mask).all()
        assert (query.mask() == mask).all()
        token = int(mask[0].nonzero()[-1])
        query.advance([token])
        fresh.advance([token])


def test_what_a_request_needs_before_its_first_token_is_within_the_limits():
    asked_for = asked({"json_schema": many_members(400)})
    rows = Grammars(BYTES, limits=Limits(work=300_000))
    # the machines take too much work to find out; the engine finds what is needed
    with pytest.raises((tt.errors.UnsupportedConstraint, tt.errors.BudgetTooSmall), match="budget"):
        rows.row(asked_for, 900)
