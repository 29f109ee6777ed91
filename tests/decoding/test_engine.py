"""An engine: requests of many callers in one batch, which come, go, are cancelled and run out of time."""

import asyncio
import gc
import threading
import time
from contextlib import contextmanager
from typing import Annotated, Literal

import pytest
import torch
from counting import HANGS
from pydantic import AfterValidator, BaseModel, Field

import tractile as tt
from tractile.errors import (
    BudgetTooSmall,
    ContextTooLong,
    EngineBusy,
    EngineClosed,
    EvidenceError,
    NoParticleSurvived,
    PotentialError,
    TimeLimitPassed,
)
from tractile.inference.smc import LookaheadProposal, proposals

MODEL, TOKENIZER = tt.embedded.load_lm()
HMM = tt.embedded.load_hmm()
NAME = tt.constraints.regex(r" [A-Z][a-z]{2,9}\.")
LONG = tt.constraints.regex(r"( [a-z]{1,9}){40,60}\.")
PROMPTS = ["My name is", "Once upon a time, there was a girl named", "I am", "The cat said: I am"]


class Pet(BaseModel):
    name: Literal["Tom", "Sue"]
    kind: Literal["cat", "dog"]


ASKED = [
    (NAME, {"max_new_tokens": 10, "particles": 3}),
    (Pet, {"max_new_tokens": 32, "particles": 2}),
    (Literal[" cat", " dog"], {"max_new_tokens": 6, "samples": 5}),
    (NAME, {"max_new_tokens": 8, "hmm": HMM, "method": LookaheadProposal(1.0), "particles": 2}),
]


@pytest.fixture(params=[False, True], ids=["padded", "shared"])
def engine(request):
    lm = tt.TransformersLM(MODEL, TOKENIZER, share_prompts=request.param)
    with tt.Engine(lm, batch=6) as made:
        yield made


ROUND = [(PROMPTS[i % 4], *ASKED[i % 3 if i % 5 else 3], i) for i in range(12)]


@pytest.fixture(scope="module")
def expected():
    """What a caller alone gets of each request."""
    return [tt.generate(MODEL, TOKENIZER, p, o, seed=s, **more) for p, o, more, s in ROUND]


def test_requests_get_what_a_caller_alone_gets(engine, expected):

    async def all_of_them():
        return await asyncio.gather(*(engine.generate(p, o, seed=s, **more) for p, o, more, s in ROUND))

    assert asyncio.run(all_of_them()) == expected
    assert [engine.submit(p, o, seed=s, **more).result(HANGS) for p, o, more, s in ROUND] == expected


def test_streams_run_beside_each_other(engine):
    expected = [tt.generate(MODEL, TOKENIZER, p, NAME, max_new_tokens=10, particles=1) for p in PROMPTS]

    async def read(prompt):
        stream = await engine.stream(prompt, NAME, max_new_tokens=10)
        return [part async for part in stream]

    async def all_of_them():
        return await asyncio.gather(*map(read, PROMPTS))

    found = asyncio.run(all_of_them())
    assert ["".join(part.new for part in parts) for parts in found] == expected
    assert all(len(parts) > 2 and parts[-1].done for parts in found)
    assert "".join(part.new for part in engine.stream(PROMPTS[0], NAME, max_new_tokens=10)) == expected[0]


@contextmanager
def counted():
    """Count the rows of each forward pass."""
    rows = []
    hook = MODEL.register_forward_pre_hook(
        lambda _, __, given: rows.append(len(given["input_ids"])), with_kwargs=True
    )
    yield rows
    hook.remove()


def test_requests_share_passes_of_the_model_and_draws(monkeypatch):
    drawn, draw = [], proposals.draw_sparse
    monkeypatch.setattr(proposals, "draw_sparse", lambda *given: drawn.append(len(given[0])) or draw(*given))
    with tt.Engine(MODEL, TOKENIZER, batch=4) as engine, counted() as rows:
        asked = [engine.submit(p, LONG, max_new_tokens=100, particles=1) for p in PROMPTS]
        assert all(LONG.accepts(one.result(HANGS)) for one in asked)
    assert 4 in rows
    assert 4 in drawn
    assert sum(n > 1 for n in rows) > len(rows) / 2


def test_first_come_first_served_and_a_queue_that_ends():
    done, turn = [], threading.Event()
    slow = tt.constraints.OutputType(NAME, lambda text: turn.wait(HANGS) and text)
    with tt.Engine(MODEL, TOKENIZER, batch=1, queue=3) as engine:
        first = engine.submit(PROMPTS[0], slow, max_new_tokens=10, particles=1)
        waiting = [engine.submit(PROMPTS[0], NAME, max_new_tokens=10, particles=1, seed=i) for i in range(3)]
        for i, one in enumerate(waiting):
            one.add_done_callback(lambda _, i=i: done.append(i))
        with pytest.raises(EngineBusy, match="3 requests wait") as busy:
            engine.submit(PROMPTS[0], NAME, max_new_tokens=10)
        assert busy.value.waiting == 3
        waiting[1].cancel()
        turn.set()
        assert NAME.accepts(first.result(HANGS))
        assert NAME.accepts(waiting[2].result(HANGS))
    assert done == [1, 0, 2]


def test_a_request_that_is_cancelled_stops_and_leaves_the_others():
    async def cancel_one(engine):
        ask = [
            asyncio.create_task(engine.generate(p, LONG, max_new_tokens=100, particles=1)) for p in PROMPTS
        ]
        while len(rows) < 8:
            await asyncio.sleep(0.001)
        ask[1].cancel()
        return await asyncio.gather(*ask, return_exceptions=True)

    with tt.Engine(MODEL, TOKENIZER) as engine, counted() as rows:
        found = asyncio.run(cancel_one(engine))
        assert isinstance(found.pop(1), asyncio.CancelledError)
        assert all(map(LONG.accepts, found))
        assert rows[-1] < 4


@pytest.mark.parametrize("how", ["closed", "dropped", "broken off"])
def test_a_stream_that_is_left_stops(how):
    async def leave(engine):
        stream = engine.stream(PROMPTS[0], LONG, max_new_tokens=200)
        await anext(stream)
        if how == "closed":
            await stream.aclose()

    with tt.Engine(MODEL, TOKENIZER) as engine, counted() as rows:
        if how == "dropped":
            next(engine.stream(PROMPTS[0], LONG, max_new_tokens=200))
        else:
            asyncio.run(leave(engine))
        gc.collect()
    assert len(rows) < 40


def test_two_hundred_streams_that_are_dropped():
    with tt.Engine(MODEL, TOKENIZER, queue=300) as engine:
        expected = tt.generate(MODEL, TOKENIZER, PROMPTS[0], NAME, max_new_tokens=10, particles=1)
        for seed in range(200):
            stream = engine.stream(PROMPTS[seed % 4], LONG, max_new_tokens=100, seed=seed)
            if not seed % 10:
                next(stream)
        del stream
        assert engine.submit(PROMPTS[0], NAME, max_new_tokens=10, particles=1).result(HANGS) == expected
        assert not [visit for visit in gc.get_objects() if type(visit).__name__ == "Visit" and not visit.over]


@pytest.mark.parametrize("waits", [False, True], ids=["in the batch", "in the queue"])
def test_a_request_has_a_time_limit(waits):
    with tt.Engine(MODEL, TOKENIZER, batch=1) as engine:
        other = engine.submit(PROMPTS[0], LONG, max_new_tokens=100, particles=1) if waits else None
        late = engine.submit(PROMPTS[0], LONG, max_new_tokens=100, time_limit=0.0001)
        with pytest.raises(TimeLimitPassed, match=r"time limit of 0\.0001 seconds"):
            late.result(HANGS)
        assert other is None or LONG.accepts(other.result(HANGS))
    with tt.Engine(MODEL, TOKENIZER, time_limit=0.0001) as engine:
        stream = engine.stream(PROMPTS[0], LONG, max_new_tokens=100)
        with pytest.raises(TimeLimitPassed):
            list(stream)
        assert NAME.accepts(engine.submit(PROMPTS[0], NAME, max_new_tokens=10, time_limit=HANGS).result())


def never(text):
    raise ValueError("no")


GUIDED = {"hmm": HMM, "method": LookaheadProposal(1.0)}
SHARP = tt.HMM(torch.ones(1), torch.ones(1, 1), (torch.arange(1024) % 2 / 512)[None])
NEVER = Annotated[int, Field(ge=0, le=9), AfterValidator(never)]


FAILING = tt.constraints.OutputType(tt.constraints.regex(r"\[1,1,1{5,9}\]"), never)  # at the first item


@pytest.mark.parametrize(
    ("prompt", "output", "more", "error"),
    [
        (PROMPTS[0], NAME, {"max_new_tokens": 1}, BudgetTooSmall),
        (PROMPTS[0], NAME, {"max_new_tokens": 100_000}, ContextTooLong),
        (PROMPTS[0], 3, {}, tt.errors.FormatError),
        (PROMPTS[0], NAME, {"seed": "x"}, EvidenceError),
        ("", tt.constraints.regex("a"), {"max_new_tokens": 3, "method": "no"}, EvidenceError),
        (PROMPTS[0], NEVER, {"max_new_tokens": 6}, NoParticleSurvived),
        (PROMPTS[0], NAME, {"max_new_tokens": 10, **GUIDED, "hmm": SHARP}, EvidenceError),
        (PROMPTS[0], FAILING, {"max_new_tokens": 60}, (PotentialError, ValueError)),
    ],
)
def test_errors_reach_their_caller_alone(prompt, output, more, error):
    late = output in (NEVER, FAILING) or "hmm" in more
    with tt.Engine(MODEL, TOKENIZER) as engine:
        good = engine.submit(PROMPTS[0], LONG, max_new_tokens=100, particles=1, **GUIDED)
        with pytest.raises(error):
            engine.submit(prompt, output, **more).result(HANGS)

        async def stream():
            parts = await engine.stream(prompt, output, **more)
            assert late
            return [part async for part in parts]

        with pytest.raises(error):
            asyncio.run(stream())
        assert LONG.accepts(good.result(HANGS))


def test_a_prompt_that_is_read_together_with_others_fails_alone():
    held, turn = threading.Event(), threading.Event()
    slow = tt.constraints.OutputType(NAME, lambda text: held.set() or (turn.wait(HANGS) and text))
    with tt.Engine(MODEL, TOKENIZER) as engine:
        first = engine.submit(PROMPTS[0], slow, max_new_tokens=10, particles=1)
        assert held.wait(HANGS)
        asked = [engine.submit(p, NAME, max_new_tokens=10, particles=1) for p in ([5, 6], [1 << 20], [7])]
        while len(engine._arrived) < 3:
            time.sleep(0.001)
        turn.set()
        with pytest.raises(tt.errors.VocabularyMismatch):
            asked[1].result(HANGS)
        assert all(NAME.accepts(one.result(HANGS)) for one in (first, asked[0], asked[2]))


def test_a_model_that_fails_fails_those_in_the_batch_alone():
    calls = iter(range(1, 100))

    def fail(*_):
        if next(calls) == 5:
            raise RuntimeError("out of memory")

    with tt.Engine(MODEL, TOKENIZER) as engine:
        hook = MODEL.register_forward_hook(fail)
        try:
            with pytest.raises(RuntimeError, match="out of memory"):
                engine.submit(PROMPTS[0], LONG, max_new_tokens=100).result(HANGS)
        finally:
            hook.remove()
        assert NAME.accepts(engine.submit(PROMPTS[0], NAME, max_new_tokens=10).result(HANGS))


def test_an_engine_that_is_closed_stops_its_requests():
    engine = tt.Engine(MODEL, TOKENIZER, batch=1)
    asked = [engine.submit(PROMPTS[0], LONG, max_new_tokens=200) for _ in range(3)]
    engine.close()
    for one in asked:
        with pytest.raises(EngineClosed):
            one.result(HANGS)
    with pytest.raises(EngineClosed, match="make another one"):
        engine.submit(PROMPTS[0], NAME)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tractile-")]


def test_what_an_engine_does_not_take():
    with pytest.raises(EvidenceError, match="TableLM has no batch"):
        tt.Engine(tt.lm.TableLM({(): torch.tensor([0.5, 0.5]).log()}))
    with pytest.raises(EvidenceError, match="Engine: batch"):
        tt.Engine(MODEL, TOKENIZER, batch=0)
    with tt.Engine(MODEL, TOKENIZER) as engine, pytest.raises(EvidenceError, match=r"ask engine\.stream"):
        engine.submit(PROMPTS[0], NAME, stream=True)


def test_an_engine_in_an_event_loop():
    async def ask():
        async with tt.Engine(MODEL, TOKENIZER) as engine:
            return await engine.generate(PROMPTS[0], NAME, max_new_tokens=10)

    assert NAME.accepts(asyncio.run(ask()))
