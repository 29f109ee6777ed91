"""Budgets of lazy automata against a search over tokens, and against the distances of what is written out."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tractile.circuits.automaton import UNREACHABLE
from tractile.constraints import Constraint, Vocabulary, regex
from tractile.constraints.automata.epsilon import NO_EPSILONS
from tractile.constraints.automata.lazy import Letters, Numbered
from tractile.constraints.automata.machines import Choice, Concatenation, DfaMachine, TextMachine
from tractile.constraints.automata.nfa import Nfa, trim
from tractile.constraints.automata.nfa_machine import NfaMachine
from tractile.constraints.automata.region import LocalBody, Region
from tractile.constraints.automata.stack import StackAutomaton
from tractile.constraints.json.document import read_schema
from tractile.constraints.json.lazy.schema import lazy_schema
from tractile.constraints.lifting.lazy_distances import Distances
from tractile.constraints.lifting.text_steps import TextTokens

ALPHABET = '()a,"bc'


def slowly(states, vocab, state, eos, most):
    """The fewest tokens to acceptance by breadth first over tokens; ``UNREACHABLE`` if there are more than ``most``."""
    level, seen = {state}, {state}
    for n in range(most + 1 - eos):
        if any(states.accepting(s) for s in level):
            return n + eos
        after = {states.run(s, t) for s in level for t in vocab.token_bytes if t}
        level = after - seen - {-1}
        seen |= level
    return UNREACHABLE


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
    Nfa(
        2,
        np.array([[0, 97, 99, 0], [0, 40, 40, 1], [1, 41, 41, 0]]),
        NO_EPSILONS,
        np.array([0]),
        np.array([0]),
    )
)


class Text(Region):
    """A quoted text of ``least`` to ``most`` letters: a, b, c and ``()``. Free text is annotated or not."""

    def __init__(self, least, most, told, shut=""):
        self.least, self.most, self.told, self.shut = least, most, told, shut

    def start(self):
        return -1

    def _after(self, n):
        return (
            n if self.most is not None else min(n, max(1, self.least))
        )  # 0 is the beginning, where it may be shut

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
                out += [(40, 40, (local,)), (98, 99, self._after(1))]
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


@pytest.mark.parametrize("word", ["aaaa", 'aaa"', "a()("])
def test_tokens_that_begin_with_an_exception_shorten_no_free_text(word):
    """Where ``a`` may not come first, a token of several letters that begins with it is of no use."""
    pieces = [c.encode() for c in [*'()abc"', word]]
    vocab = Vocabulary([*pieces, None], eos_token_id=len(pieces))
    for most in (4, 6, None):
        automaton = StackAutomaton(Text(4, most, True, "a"))
        compare(automaton, vocab, [b'"b'], most=7)


@settings(max_examples=60)
@given(st.integers(0, 10_000))
def test_tokens_together_do_in_free_text_what_they_do_one_by_one(seed):
    """From every node, and with first bytes that lead elsewhere; kept tables are not changed by what is asked next."""
    rng = random.Random(seed)
    vocab = vocabulary(rng, "abc()x", 40)
    tables = [vocab.token_dag.text(LETTER), TextTokens(vocab.token_dag, vocab.token_dag.text(LETTER).table)]
    nodes = sorted(set(vocab.token_dag.node.tolist()))
    asked = [(node, bytes(rng.sample(b"abc(", rng.randint(0, 3)))) for node in rng.choices(nodes, k=12)]

    def answers(one_by_one, tokens):
        found = [tokens._one_by_one(*each) if one_by_one else tokens._together(*each) for each in asked]
        ends = [{state: list(counts) for state, counts in steps.ends.items()} for steps in found]
        leaving = [
            {b: sorted((n, list(c)) for n, c in to) for b, to in steps.leaving.items()} for steps in found
        ]
        return ends, leaving

    expected = answers(True, tables[0])
    assert answers(False, tables[1]) == expected
    assert answers(False, tables[1]) == expected


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
        expected = Constraint(dfa).compile(vocab).finite.distances
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


SCHEMAS = [
    {"type": "object", "properties": {"ab": {"type": "integer"}, "ac": {"enum": ["x", "yy"]}, "b": {"type": "null"}},
     "required": ["ac", "ab"]},
    {"type": "object", "properties": {"a": {"type": "string", "minLength": 3, "maxLength": 5}, "b": {"type": "boolean"}},
     "required": ["a", "b"], "additionalProperties": False},
    {"type": "array", "items": {"type": "string", "pattern": "^a.*b$"}, "minItems": 2, "maxItems": 3},
    {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "number"}, "minItems": 1}},
     "required": ["a"], "additionalProperties": {"type": "string"}},
    {"anyOf": [{"type": "string", "minLength": 9}, {"type": "array", "items": {"type": "string"}, "minItems": 3}]},
]  # fmt: skip
PIECES = [
    '{"',
    '": ',
    '", "',
    '"}',
    "ab",
    "ac",
    '"ac": ',
    "aaa",
    "aaaa",
    '"]',
    '", ',
    '["',
    '"yy"',
    "null",
    "true",
    '["a',
    'b", "a',
    'b"',
    'a"',
    "\\",
    "u00",
    "aé",
    "00",
    ', "',
]


def json_vocabulary(rng):
    pieces = [bytes([b]) for b in range(256)] + [p.encode() for p in rng.sample(PIECES, 14)]
    return Vocabulary([*pieces, None], eos_token_id=len(pieces))


def test_members_of_an_object_in_any_order():
    """Equal to a search over tokens."""
    schema = {
        "type": "object",
        "properties": {"a": {"const": 1}, "b": {"enum": [True, "a"]}, "c": {"const": 0}, "aa": {"const": 0}},
        "required": ["a", "b", "c"],
        "additionalProperties": False,
    }
    options = ("none", "any", None, None, True, "auto", True, None)
    automaton, _ = lazy_schema(read_schema(schema), False, options)
    pieces = [
        '{"a',
        '":',
        '1,"',
        '"a":1,',
        "true",
        ',"c":0',
        '0,"b',
        '":"',
        '"}',
        "1}",
        "0}",
        '{"c":',
        'a","',
        "aa",
    ]
    rng, letters = random.Random(0), sorted(set('{}":,10abctrue'))
    for _ in range(3):
        vocab = Vocabulary(
            [c.encode() for c in [*letters, *rng.sample(pieces, 8)]] + [None], len(letters) + 8
        )
        states = Numbered(automaton)
        distances, state = Distances(states, vocab), states.start()
        for byte in b'{"b":true,"a":1,"c"':
            expected = slowly(states, vocab, state, 1, 25)
            assert distances.fewest(state) == expected
            assert distances.lower_bound(state) <= expected
            state = states.after(state, byte)


ONE = {"const": 1}
THREE_NAMES = {"propertyNames": {"pattern": "^[ab]?$"}, "additionalProperties": ONE}
NAMED_APART = {
    "two members": {"minProperties": 2, "propertyNames": {"pattern": "^[ab]*$"}, "additionalProperties": ONE},
    "three of three names": {**THREE_NAMES, "minProperties": 3},
    "a name with a b": {"not": {"propertyNames": {"pattern": "^[^b]*$"}}, "additionalProperties": ONE},
    "a member that is 1": {"not": {"patternProperties": {"a": {"not": ONE}}}, "additionalProperties": {"enum": [1, 0]}},
    "two that must exist": {
        "allOf": [{"not": {"propertyNames": {"pattern": f"^[^{c}]*$"}}} for c in "ab"], "additionalProperties": ONE},
    "one inside another": {
        **THREE_NAMES, "minProperties": 2, "additionalProperties": {**THREE_NAMES, "minProperties": 1}},
    "a long name": {"minProperties": 2, "propertyNames": {"pattern": "^(a|b{6,})$"}, "additionalProperties": ONE},
    "one in two ways": {"minProperties": 2, "propertyNames": {"pattern": "^(é|a{6,})$"}, "additionalProperties": ONE},
}  # fmt: skip


@pytest.mark.parametrize("which", NAMED_APART)
def test_names_that_must_differ(which):
    """Equal to a search over tokens; no less where names may come again, no more where their first bytes must differ."""
    options = ("none", "any", None, None, True, "auto", True, None)
    automaton, _ = lazy_schema(read_schema({"type": "object", **NAMED_APART[which]}), False, options)
    pieces = [
        "\\u00e9",
        '{"',
        '":',
        '1,"',
        '":1}',
        '":1,"',
        'a":1',
        'b":1',
        ',"a',
        "}}",
        '":{"',
        "aa",
        "ba",
        '"":1,',
    ]
    rng, letters, limit = random.Random(1), sorted(set('{}":,10abé\\')), 24
    for _ in range(3):
        tokens = [c.encode() for c in [*letters, *rng.sample(pieces, 5)]]
        vocab = Vocabulary([*tokens, None], len(tokens))
        states = Numbered(automaton)
        distances, state = Distances(states, vocab), states.start()
        for byte in b'{"":1,"ab":1,"':
            expected = slowly(states, vocab, state, 1, limit)
            configuration = states.configurations[state]
            least, most = (
                search.distance(configuration, limit, 10**6)
                for search in (distances._lower, distances._upper)
            )
            assert least <= expected <= most
            assert distances.within(state, limit) == (expected <= limit)
            assert expected > limit or distances.fewest(state) == expected
            state = states.after(state, byte)
            if state < 0:
                break


def test_what_a_search_gives_up_is_told():
    rng = random.Random(0)
    states = Numbered(
        StackAutomaton(Concatenation([Brackets(3), Text(3, 9, False), Members(frozenset(b"abc"))]))
    )
    vocab = vocabulary(rng)
    distances = Distances(states, vocab, most_positions=5)
    state = states.start()
    exact = Distances(states, vocab).fewest(state)
    assert distances.fewest(state) == distances.bound(state) >= exact
    assert not distances.exact
    assert distances.given_up == 1


@pytest.mark.parametrize("positions", [300, 700, 1000, 1500])
def test_a_search_that_was_given_up_at_the_end_of_a_region_goes_on(positions):
    """The level in which the end was found is finished when the search is taken up again."""
    part = regex("(a|b)*a(a|b){14}").bytes_automaton
    vocab = Vocabulary([None, b"a", b"b", b"ab", b"ba", b"aab"], eos_token_id=0)
    states = Numbered(StackAutomaton(NfaMachine(trim(part.plain))))
    distances, start = Distances(states, vocab, False, positions), states.start()
    for left in range(5, 10):
        distances.within(start, left)
    with distances.up_to(300_000):
        assert distances.within(start, 14)
        assert distances.fewest(start) == 5
