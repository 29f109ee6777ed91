"""Potentials are asked where they should be, once for each text, and their failures have a name."""

import math
import multiprocessing
import os
import signal
import time
from multiprocessing import connection
from types import SimpleNamespace

import pytest
import torch
from counting import HANGS
from smc_reference import (
    CASES,
    HMM,
    Fsa,
    N,
    as_automaton,
    phi,
)

import tractile as tt
from tractile.inference.smc import (
    ConstraintPotential,
    FunctionPotential,
    LookaheadPotential,
    PrefixPotential,
    at_end,
    every_clause,
    every_json_value,
    every_line,
    every_statement,
    every_token,
    user_function,
)
from tractile.inference.smc.user_function import Workers


def zero_after_two(text):
    """No text with two b's, whatever follows."""
    return 0.0 if text.count("b") > 1 else 1.5


def test_phi_pgcd_is_added_unless_the_potential_steers():
    lm, fsa = CASES["ended"]
    asked = []

    class Watched(FunctionPotential.__mro__[1]):
        is_twist = False

        def log_value(self, rows):
            asked.append(type(self))
            return torch.zeros(len(rows.tokens), dtype=torch.float64)

    def run(potential, proposal="pgcd"):
        return tt.smc(
            lm, [], as_automaton(fsa), proposal, HMM, 16, N, 1, potential=potential, ess_threshold=0.0
        )

    both, alone = run(Watched()), run(None)
    assert asked
    assert both.ess_trace == alone.ess_trace
    assert run(PrefixPotential() * Watched()).ess_trace == run(PrefixPotential()).ess_trace != alone.ess_trace
    assert (LookaheadPotential() * Watched()).is_twist
    half = tt.inference.smc.LookaheadProposal(0.5)
    assert run(None, half).ess_trace == run(LookaheadPotential(0.5), half).ess_trace
    assert run(None, half).ess_trace != run(LookaheadPotential(), half).ess_trace
    with pytest.raises(tt.errors.EvidenceError, match="strength"):
        LookaheadPotential(-1.0)


# Where it is asked


def test_a_function_is_asked_once_for_every_text_and_only_at_its_boundary():
    calls = []

    def watched(text):
        calls.append(text)
        return phi(text)

    lm, fsa = CASES["ended"]
    potential = FunctionPotential(watched, every_line)
    for seed in range(5):
        tt.smc(lm, [], as_automaton(fsa), "gcd", None, 16, N, seed, potential=potential, ess_threshold=1.1)
    assert len(calls) == len(set(calls))
    post = tt.smc(lm, [], as_automaton(fsa), "gcd", None, 16, N, 0, potential=potential)
    finals = {p.text for p in post.particles}
    assert all(text.endswith("\n") or not fsa.accepts(text) for text in calls if text not in finals)


def test_at_the_end_means_only_there():
    calls = []
    lm, fsa = CASES["exact"]
    potential = FunctionPotential(lambda text: calls.append(text) or 1.0, at_end)
    post = tt.smc(lm, [], as_automaton(fsa), "gcd", None, 16, N, 0, potential=potential, ess_threshold=1.1)
    assert sorted(calls) == sorted({p.text for p in post.particles})


def test_dead_particles_are_not_shown():
    """The language model as proposal leaves the constraint; a later factor sees no particle that an earlier one killed."""
    lm, fsa = CASES["ended"]
    seen = []
    first = FunctionPotential(zero_after_two)
    second = FunctionPotential(lambda tokens: seen.append(tokens) or 1.0, tokens=True)
    for seed in range(5):
        tt.smc(lm, [], as_automaton(fsa), "lm", None, 16, N, seed, potential=first * second)
    assert seen
    assert all(fsa.survives(fsa.states(tokens)) for tokens in seen)
    assert all(tokens.count(1) < 2 for tokens in seen)


@pytest.mark.parametrize(
    ("boundary", "text", "seen"),
    [
        (every_token, "ab", "ab"), (at_end, "ab", ""), (every_line, "a\nb", "a\n"), (every_line, "ab", ""),
        (every_clause, "Yes, it is 3.5", "Yes,"), (every_clause, "He left. So", "He left."), (every_clause, "Done.", ""),
        (every_statement, "x = 1\ny = (2,\n 3", "x = 1\n"),
        (every_statement, "x = 1\ny = {2,\n 3}\n", "x = 1\ny = {2,\n 3}\n"),
        (every_statement, "SELECT ';' FROM t; DE", "SELECT ';' FROM t;"),
        (every_statement, 'd = """a\nb"""\nc', 'd = """a\nb"""\n'), (every_statement, 'd = "a\\"\n;', ""),
        (every_statement, 'd = "\\"a"\ne', 'd = "\\"a"\n'), (every_statement, 'd = "a\\\\"\ne;"', 'd = "a\\\\"\ne;'),
        (every_statement, 'd = "a\\', ""), (every_json_value, '{"a": 1, "b', '{"a": 1'), (every_json_value, '{"a": 12', ""),
        (every_json_value, '{"a": "x"', '{"a": "x"'), (every_json_value, '{"a"', ""),
        (every_json_value, '{"a": [true, {"k": "v"}', '{"a": [true, {"k": "v"}'),
        (every_json_value, '{"a": [true, {"k": "\\"', '{"a": [true'), (every_json_value, '{"a": [], "b": nul', '{"a": []'),
        (every_json_value, '{"a": {}, "b": {"c"', '{"a": {}'), (every_json_value, "[-1.5e3 ", "[-1.5e3"),
        (every_json_value, '{"a": {"b": 1}, "c": 2}', '{"a": {"b": 1}, "c": 2}'),
    ],
)  # fmt: skip
def test_boundaries(boundary, text, seen):
    assert text[: boundary(text)] == seen


@pytest.mark.parametrize("boundary", [every_line, every_clause, every_statement, every_json_value])
def test_boundaries_do_not_move_back(boundary):
    text = '{"a, b": [1, "x; \\" y", {"k": null}],\n "n": -2.5e1}\nx = (1;\n2); d = \'a\n\'; e'
    cuts = [boundary(text[:n]) for n in range(len(text) + 1)]
    assert cuts == sorted(cuts)
    assert all(cut <= n for n, cut in enumerate(cuts))


# Failures


def raises(text):
    raise KeyError("no such plan")


def hangs(text):
    time.sleep(60)


def crashes(text):
    os._exit(3)


FAILURES = {
    "raises": (raises, {}, "raised KeyError"),
    "NaN": (lambda text: math.nan, {}, "returned nan"),
    "infinite": (lambda text: math.inf, {}, "returned inf"),
    "negative": (lambda text: -1, {}, "returned -1"),
    "no number": (lambda text: "much", {}, "returned 'much', which is not a number"),
    "batched": (lambda texts: [math.nan] * len(texts), {"batched": True}, "returned nan"),
    "batch raises": (lambda texts: [raises(text) for text in texts], {"batched": True}, "raised KeyError"),
    "batch too short": (lambda texts: texts[1:], {"batched": True}, "raised StopIteration|returned"),
    "raises in a process": (raises, {"processes": 2}, "raised KeyError"),
    "hangs": (hangs, {"processes": 2, "timeout": 0.2}, "did not answer within 0.2 s"),
    "crashes": (crashes, {"processes": 1}, "ended its process"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_stops_the_run_with_name_and_text(failure):
    function, settings, message = FAILURES[failure]
    lm, fsa = CASES["exact"]
    potential = FunctionPotential(function, name="my check", **settings)
    with pytest.raises(tt.errors.PotentialError, match=f"'my check' ({message})") as error:
        tt.smc(lm, [], as_automaton(fsa), "gcd", particles=2, max_new_tokens=N, potential=potential)
    assert error.value.name == "my check"
    assert isinstance(error.value.text, str)
    assert error.value.text


@pytest.fixture
def hang(monkeypatch):
    """A function that hangs in a worker. Its timeout passes once every other call has answered; no other timeout passes."""
    told, tell = multiprocessing.Pipe(duplex=False)
    clock = [0.0]

    def hang(text):
        tell.send(text)
        hangs(text)

    def wait_for_all(connections, _seconds):
        ready, hanging = [], 0
        while len(ready) + hanging < len(connections):
            found = connection.wait([told, *(one for one in connections if one not in ready)])
            if told in found:
                told.recv()
                hanging += 1
            ready += [one for one in found if one is not told]
        clock[0] += 1000.0 * hanging
        return ready

    monkeypatch.setattr(user_function, "wait", wait_for_all)
    monkeypatch.setattr(user_function, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    return hang


@pytest.mark.parametrize("settings", [{}, {"processes": 2, "timeout": 10.0}])
def test_a_failure_counts_as_zero_if_asked(settings, hang):
    def bad_with_c(text):
        if "c" in text:
            hang(text) if settings else raises(text)
        return 1.0

    lm, fsa = CASES["exact"]
    potential = FunctionPotential(bad_with_c, at_end, zero_on_error=True, **settings)
    post = tt.smc(lm, [], as_automaton(fsa), "gcd", None, 8, N, 0, potential=potential, ess_threshold=0.0)
    plain = tt.smc(lm, [], as_automaton(fsa), "gcd", None, 8, N, 0, ess_threshold=0.0)
    assert [p.log_weight > -math.inf for p in post.particles] == ["c" not in p.text for p in plain.particles]
    assert any("c" in p.text for p in plain.particles)


def test_processes_give_what_one_does():
    lm, fsa = CASES["exact"]
    here, there = (
        tt.smc(lm, [], as_automaton(fsa), "gcd", None, 8, N, 3, potential=FunctionPotential(phi, processes=n))
        for n in (0, 2)
    )
    assert here.to_dict() == there.to_dict()


def kill(workers):
    for process in workers._workers.values():
        os.kill(process.pid, signal.SIGKILL)
        process.join()


def test_workers_that_died_while_idle_are_replaced():
    workers = Workers(str, 2)
    for _ in range(2):
        assert workers.map([1, 2, 3]) == ["1", "2", "3"]
        kill(workers)


def test_after_an_interrupt_no_old_answer_is_taken_for_a_new_one(monkeypatch):
    workers = Workers(str, 2)
    monkeypatch.setattr(user_function, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        workers.map([1, 2])
    monkeypatch.undo()
    assert workers.map([3, 4]) == ["3", "4"]


def interrupted(connections, _seconds):
    """The interrupt comes when all answers are there."""
    for one in connections:
        assert one.poll(HANGS)
    raise KeyboardInterrupt


def test_bad_settings_are_errors():
    lm, fsa = CASES["ended"]
    fa = as_automaton(fsa)
    for bad in ({"timeout": 1.0}, {"processes": 1, "batched": True}, {"twist": True, "final": phi}):
        with pytest.raises(tt.errors.EvidenceError):
            FunctionPotential(phi, **bad)
    with pytest.raises(tt.errors.PotentialError, match="boundary at 999"):
        tt.smc(lm, [], fa, "gcd", max_new_tokens=N, potential=FunctionPotential(phi, lambda text: 999))
    two = as_automaton(Fsa([(0, [0, 1], 0)], 0, [0], 2))
    with pytest.raises(tt.errors.VocabularyMismatch, match="2 tokens"):
        tt.smc(lm, [], fa, "gcd", max_new_tokens=N, potential=ConstraintPotential(two))


# One meaning of a boundary


@pytest.mark.parametrize("boundary", [every_token, every_line, every_clause, every_statement, at_end])
def test_a_function_at_a_boundary_is_the_function_with_that_boundary(boundary):
    """It sees the text up to the boundary, whichever way it is asked for, alone and in a product."""
    lm = CASES["exact"][0]
    seen = {}
    for name, make in {
        "constructor": lambda f: FunctionPotential(f, boundary),
        "at": lambda f: FunctionPotential(f).at(boundary),
        "product": lambda f: (FunctionPotential(f) * PrefixPotential()).at(boundary),
        "both": lambda f: FunctionPotential(f, boundary).at(boundary),
    }.items():
        texts = set()
        post = tt.smc(lm, [], None, "gcd", None, 16, N, 3, ess_threshold=1.1,
                      potential=make(lambda text, texts=texts: texts.add(text) or phi(text)))  # fmt: skip
        seen[name] = texts, post.token_ids, post.log_weights.tolist()
    assert len({str((sorted(texts), rest)) for texts, *rest in seen.values()}) == 1
    if boundary is every_clause:  # the token "a, " goes on behind the boundary
        assert "a," in seen["at"][0]


def test_boundaries_can_be_nested():
    """Of a function at lines, asked at the end alone, and at clauses: the last line before the last clause."""
    function = FunctionPotential(phi, every_line)
    assert function.at(at_end)._boundary("a, b\nc") == 0
    assert function.at(every_token)._boundary("a, b\nc") == 5
    assert function.at(every_clause)._boundary("a\nb, c") == 2
    assert FunctionPotential(phi, at_end).at(every_clause)._boundary("a\nb, c") == 0
    assert function._boundary("a, b\nc") == 5


def test_functions_of_token_ids_see_whole_tokens_at_a_boundary_of_the_text():
    seen = []
    lm = CASES["exact"][0]
    potential = FunctionPotential(lambda tokens: seen.append(tokens) or 1.0, tokens=True).at(every_clause)
    post = tt.smc(lm, [], None, "gcd", None, 16, N, 3, potential=potential)
    assert seen
    assert all(tokens in post.token_ids or tokens[-1] in (0, 1) or tokens[-2] == 0 for tokens in seen)
