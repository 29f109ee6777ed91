"""Budgets of lazy automata against a search over tokens, and against the distances of what is written out."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tractile.circuits.automaton import NEVER
from tractile.constraints import Vocabulary, regex
from tractile.constraints.automata.epsilon import NO_SKIPS
from tractile.constraints.automata.lazy import Letters, Numbered
from tractile.constraints.automata.machines import Choice, Concatenation, DfaMachine, TextMachine
from tractile.constraints.automata.nfa import Nfa
from tractile.constraints.automata.stack import LocalBody, Region, StackAutomaton
from tractile.constraints.lifting.lazy_distances import Distances
from tractile.constraints.lifting.lifted import Lifted

ALPHABET = '()a,"bc'


def slowly(states, vocab, state, eos, most):
    """The fewest tokens to acceptance by breadth first over tokens; ``NEVER`` if there are more than ``most``."""
    level, seen = {state}, {state}
    for n in range(most + 1 - eos):
        if any(states.accepting(s) for s in level):
            return n + eos
        after = {states.run(s, t) for s in level for t in vocab.token_bytes if t}
        level = after - seen - {-1}
        seen |= level
    return NEVER


def vocabulary(rng, letters=ALPHABET, words=12, single=True):
    pieces = [c.encode() for c in letters if single or rng.random() < 0.7]
    pieces += ["".join(rng.choices(letters, k=rng.randint(2, 5))).encode() for _ in range(words)]
    return Vocabulary([*dict.fromkeys(pieces), None], eos_token_id=len(dict.fromkeys(pieces)))


class Brackets(Region):
    """``(`` value (``,`` value)* ``)`` or ``a``, at most ``items`` values in brackets."""

    def __init__(self, items=3):
        self.items = items

    def start(self):
        return "start"

    def moves(self, local):
        if local == "start":
            return [(40, 40, 0), (97, 97, "end")]
        if local == "end" or local == 0 or isinstance(local, tuple):
            return []
        return [(41, 41, "end"), *([(44, 44, (local,))] if local < self.items else [])]

    def calls(self, local):
        if local == 0:
            return [(self, 1)]
        return [(self, local[0] + 1)] if isinstance(local, tuple) else []

    def final(self, local):
        return local == "end"

    def completion(self, local):
        if isinstance(local, tuple) or local == 0:
            return b"a)"
        return {"start": b"a", "end": b""}.get(local, b")")


class Members(Region):
    """``a``, ``b``, ``c`` each at most once, in any order, some of them required; ``;`` after all."""

    def __init__(self, required):
        self.required = required

    def start(self):
        return frozenset()

    def moves(self, local):
        if local == "end":
            return []
        out = [(c, c, local | {c}) for c in b"abc" if c not in local]
        return [*([(44, 44, "end")] if self.required <= local else []), *out]

    def final(self, local):
        return local == "end"

    def completion(self, local):
        return b"" if local == "end" else bytes(sorted(self.required - local)) + b","


LETTER = Letters(
    Nfa(2, np.array([[0, 97, 99, 0], [0, 40, 40, 1], [1, 41, 41, 0]]), NO_SKIPS, np.array([0]), np.array([0]))
)


class Text(Region):
    """A quoted text of ``least`` to ``most`` letters: a, b, c and ``()``. Free text is annotated or not."""

    def __init__(self, least, most, told, shut=""):
        self.least, self.most, self.told, self.shut = least, most, told, shut

    def start(self):
        return -1

    def _after(self, n):
        return n if self.most is not None else min(n, self.least)

    def moves(self, local):
        if local == -1:
            return [(34, 34, 0)]
        if local == "end":
            return []
        if isinstance(local, tuple):
            return [(41, 41, self._after(local[0] + 1))]
        out = [(34, 34, "end")] if local >= self.least else []
        if self.most is None or local < self.most:
            if local == 0 and self.shut:
                out += [(40, 40, (local,)), (98, 99, 1 if self.most is not None else min(1, self.least))]
            else:
                out += [(40, 40, (local,)), (97, 99, self._after(local + 1))]
        return out

    def final(self, local):
        return local == "end"

    def completion(self, local):
        if local == "end":
            return b""
        if isinstance(local, tuple):
            return b")" + self.completion(self._after(local[0] + 1))
        return (b'"' if local < 0 else b"") + b"b" * (self.least - max(local, 0)) + b'"'

    def body(self, local):
        if not self.told or not isinstance(local, int) or local < 0:
            return None
        left = None if self.most is None else self.most - local
        exceptions = b"a" if local == 0 and self.shut else b""
        return LocalBody(LETTER, left, exceptions, max(self.least - local, 1) if left is None else None)

    def after_letters(self, local, count):
        return self._after(local + count)


def compare(automaton, vocab, texts, most=6):
    """Distances of the states along some texts, bound, exact and by the search."""
    states, found = Numbered(automaton), []
    for eos in (True, False):
        distances = Distances(states, vocab, eos)
        for text in texts:
            state = states.start()
            for byte in [*text, None]:
                expected = slowly(states, vocab, state, int(eos), most)
                found.append(expected)
                for left in (expected - 1, expected, most):
                    if 0 <= left <= most:
                        assert distances.within(state, left) == (expected <= left), (text, left, expected)
                if expected <= most:
                    assert distances.fewest(state) == expected
                    assert distances.bound(state) >= expected
                if byte is None:
                    break
                state = states.after(state, byte)
                if state < 0:
                    break
        assert distances.exact
    return found


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.booleans())
def test_nested_brackets_with_counters(seed, single):
    rng = random.Random(seed)
    automaton = StackAutomaton(Brackets(rng.randint(1, 3)))
    compare(automaton, vocabulary(rng, "()a,", single=single), [b"((a,a),(", b"(((", b"a"])


@settings(max_examples=60)
@given(st.integers(0, 10_000))
def test_members_in_any_order(seed):
    rng = random.Random(seed)
    members = Members(frozenset(rng.sample(b"abc", rng.randint(0, 3))))
    automaton = StackAutomaton(Concatenation([members, TextMachine(b"("), members, TextMachine(b")")]))
    compare(automaton, vocabulary(rng, "()abc,"), [b"ab", b"c,(ba,"])


@settings(max_examples=100)
@given(st.integers(0, 10_000), st.integers(0, 4), st.integers(0, 9), st.booleans(), st.booleans())
def test_free_text(seed, least, more, bounded, shut):
    """Annotated free text is only followed as far as it matters; the answers are the same."""
    rng = random.Random(seed)
    text = Text(least, least + more if bounded else None, True, shut)
    automaton = StackAutomaton(Concatenation([TextMachine(b"("), text, TextMachine(b")"), text]))
    compare(automaton, vocabulary(rng, '()abc"', 25), [b'("bb', b'("b()(', b'("bccb")"'])


@settings(max_examples=60)
@given(st.integers(0, 10_000))
def test_several_readings(seed):
    rng = random.Random(seed)
    long = Concatenation([TextMachine(b"ab"), TextMachine(b"abc")])
    choice = Choice([long, Concatenation([DfaMachine(regex("(ab)*").bytes_automaton), TextMachine(b"(")])])
    compare(
        StackAutomaton(Concatenation([choice, TextMachine(b"aa")])), vocabulary(rng, "abc("), [b"abab", b"("]
    )


@pytest.mark.parametrize("pattern", ["(a|aa|bc)*b", "[a-c]{3,9}", "a{2}(b|c{5})+", "(?:abc){1,4}|c*"])
def test_regular_languages_are_as_far_as_when_written_out(pattern):
    rng = random.Random(1)
    dfa = regex(pattern).bytes_automaton
    for _ in range(5):
        vocab = vocabulary(rng, "abc")
        expected = Lifted(dfa, vocab).distances
        states = Numbered(StackAutomaton(DfaMachine(dfa)))
        distances, state = Distances(states, vocab), states.start()
        while state < len(states.configurations):
            assert distances.fewest(state) == expected[states.configurations[state].local]
            states.moves(state)
            state += 1


def test_deep_stacks():
    class Nested(Region):
        def start(self):
            return 0

        def moves(self, local):
            return {0: [(40, 40, 1), (97, 97, 2)], 1: [], 3: [(41, 41, 2)], 2: []}[local]

        def calls(self, local):
            return [(self, 3)] if local == 1 else []

        def final(self, local):
            return local == 2

        def completion(self, local):
            return (b"a", b"a)", b"", b")")[local]

    vocab = Vocabulary([b"(", b")", b"a", b"))))", None], eos_token_id=4)
    states = Numbered(StackAutomaton(Nested()))
    distances = Distances(states, vocab)
    deep = states.run(states.start(), b"(" * 4000 + b"a")
    assert distances.bound(deep) == distances.fewest(deep) == 1001
    assert distances.within(deep, 1001)
    assert not distances.within(deep, 1000)
