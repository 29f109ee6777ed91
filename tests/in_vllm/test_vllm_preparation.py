"""Requests of logits processors wait for their tables in the scheduler: the others go on."""

import time

import pytest
from engines import processor
from test_vllm_engine import PROMPT, SCHEMA, SENTENCE, answers, params, texts

from tractile.decoding.vllm import batch

SECONDS = 2


def new(name):
    """A request whose constraint no request had before."""
    schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    return params(max_tokens=40, extra_args={"tractile": {"json_schema": schema}})


@pytest.fixture
def slow(monkeypatch):
    """HMM tables that take two seconds."""
    pgcd = batch.pgcd

    def slowly(*args, **options):
        time.sleep(SECONDS)
        return pgcd(*args, **options)

    monkeypatch.setattr(batch, "pgcd", slowly)


def test_a_request_with_a_new_schema_does_not_hold_up_the_others(start, slow):
    llm = start(logits_processors=[processor()])
    engine = llm.llm_engine
    known = params(max_tokens=300, min_tokens=300, extra_args={})
    warm = params(max_tokens=14, extra_args={"tractile": {"regex": SENTENCE}})
    texts(llm, [known, warm])
    engine.add_request("running", PROMPT, known)
    engine.step()
    begun = time.perf_counter()
    engine.add_request("new", PROMPT, new("a"))
    engine.add_request("warm", PROMPT, warm)
    order, longest = [], 0.0
    while engine.has_unfinished_requests():
        step = time.perf_counter()
        order += [output.request_id for output in engine.step() if output.finished]
        longest = max(longest, time.perf_counter() - step)
    assert time.perf_counter() - begun > SECONDS
    assert longest < SECONDS / 2
    assert order == ["warm", "running", "new"] or order == ["warm", "new", "running"]


def test_texts_are_those_of_tables_made_in_the_step(start, monkeypatch):
    requests = [new("b"), new("c"), params(extra_args={"tractile": {"json_schema": SCHEMA}})]
    held = [o.text for o in texts(start(logits_processors=[processor()]), requests)]
    assert answers(held[2])
    monkeypatch.setattr(batch.Batch, "ready", lambda *_: True)
    assert [o.text for o in texts(start(logits_processors=[processor()]), requests)] == held


def test_tables_that_cannot_be_made_end_their_request_alone(start, monkeypatch):
    llm = start(logits_processors=[processor()])

    def fails(*_, **__):
        raise MemoryError("no room for the tables")

    monkeypatch.setattr(batch, "pgcd", fails)
    broken, free = texts(llm, [new("d"), params(max_tokens=5)])
    assert broken.finish_reason == "error"
    assert free.finish_reason == "length"


def test_a_request_that_waits_can_be_aborted(start, slow):
    llm = start(logits_processors=[processor()])
    engine = llm.llm_engine
    engine.add_request("new", PROMPT, new("e"))
    engine.step()
    engine.abort_request(["new"])
    assert not engine.has_unfinished_requests()
    assert answers(texts(llm, [params(extra_args={"tractile": {"json_schema": SCHEMA}})])[0].text)
