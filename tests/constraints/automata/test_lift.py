"""Lifting is exact: a token sequence is accepted iff its bytes are, EOS ends the text, special tokens never match."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation import Simulation, lifted

import tractile as tt
from tractile.constraints import Constraint, Vocabulary, any_of, keywords, literal, regex
from tractile.constraints.automata import dfa, nfa
from tractile.constraints.lift import lift

PIECES = [
    b"a", b"b", b"ab", b"ba", b"aab", b"\xc3", b"\xa9", b"\xc3\xa9", b"a\xc3", b"\xa9b", b"\xc3\xa9\xc3", b"\n", b"bb\xff",
]  # fmt: skip
PATTERNS = [
    "", "a*b", "(a|b)*a(a|b)", "[^a]*", "é+|a", "(ab|é){1,3}", "a{0,3}", "(?s).*é.*", r"(?=a).*b", "a?é?b?", r"(a|ab)(b|ba)",
]  # fmt: skip


def check_exact(constraint: Constraint, vocab: Vocabulary, longest: int, deterministic: bool = True) -> int:
    """Compare with the bytes over every sequence of up to ``longest`` tokens; returns how many are accepted."""
    try:
        automaton = Simulation(lifted(constraint, vocab))
        loose = Simulation(lifted(constraint, vocab, require_eos=False))
    except tt.errors.EmptyLanguage:
        automaton = loose = None
    accepted = 0
    for length in range(longest + 1):
        for tokens in itertools.product(range(len(vocab)), repeat=length):
            text = list(tokens)
            while text and text[-1] == vocab.eos_token_id:
                text.pop()
            pieces = [vocab.token_bytes[t] for t in text]
            good = None not in pieces and constraint.accepts(b"".join(p or b"" for p in pieces))
            ended = len(text) < length
            accepted += good and ended
            if automaton is None:
                assert not (good and ended)
                continue
            paths, loose_paths = automaton.paths(tokens), loose.paths(tokens)
            if deterministic:
                assert (paths, loose_paths) == (int(good and ended), int(good)), tokens
            else:
                assert (paths > 0, loose_paths > 0) == (good and ended, good), tokens
    return accepted


@st.composite
def vocabularies(draw) -> Vocabulary:
    # the same bytes twice, too
    pieces = draw(st.lists(st.sampled_from([*PIECES, None]), min_size=2, max_size=5))
    eos = draw(st.integers(0, len(pieces)))
    return Vocabulary([*pieces[:eos], b"</s>", *pieces[eos:]], eos_token_id=eos)


@settings(max_examples=120)
@given(st.sampled_from(PATTERNS), vocabularies())
def test_every_short_sequence(pattern, vocab):
    check_exact(regex(pattern), vocab, 4 if len(vocab) <= 5 else 3)


@settings(max_examples=40)
@given(st.sampled_from(PATTERNS), vocabularies())
def test_every_short_sequence_of_an_nfa(pattern, vocab):
    """The same through the automaton as it is written down, before it is made deterministic."""

    class Raw(Constraint):
        @property
        def bytes_automaton(self):
            return self.nfa.plain

    check_exact(Raw(regex(pattern).nfa), vocab, 3, deterministic=False)


def test_something_is_accepted():
    """The comparison above is not one of empty sets."""
    vocab = Vocabulary([b"a", b"\xc3", b"\xa9", b"ab", None, None], eos_token_id=5)
    assert check_exact(regex("a*é?b?"), vocab, 4) > 10
    assert check_exact(keywords(["ab"], inflections=False, word_boundaries=False), vocab, 4) > 10


def test_unambiguous_stays_unambiguous():
    """An NFA with one path for each word keeps one path for each token sequence."""
    letter = nfa.byte_ranges([(97, 98)])
    third = nfa.concat([nfa.star(letter), nfa.literal(b"a"), letter, letter])  # the third from last is an a
    assert not third.plain.is_deterministic
    vocab = Vocabulary([b"a", b"b", b"ab", b"ba", None], eos_token_id=4)
    automaton = Simulation(lift(third.plain, vocab))
    for tokens in itertools.product(range(4), repeat=4):
        word = b"".join(vocab.token_bytes[t] for t in tokens)
        assert automaton.paths([*tokens, 4]) == int(word[-3:-2] == b"a")


def test_one_row_for_each_transition_and_one_class_for_each_behaviour():
    rng = random.Random(0)
    pieces = list({bytes(rng.choices(b"abcdefgh \xc3\xa9", k=rng.randint(1, 5))) for _ in range(300)})
    vocab = Vocabulary([*pieces, None], eos_token_id=len(pieces))
    arrays = lifted(regex(r"(abc|é|[a-d]{2,7} )*[ef]{1,3}"), vocab)
    rows = np.column_stack([arrays.source, arrays.token_class_of_edge, arrays.target])
    assert len(np.unique(rows, axis=0)) == len(rows)
    behaviour = {
        c: tuple(map(tuple, rows[rows[:, 1] == c][:, [0, 2]].tolist()))
        for c in range(arrays.token_class.max() + 1)
    }
    assert all(behaviour.values())
    assert len({frozenset(b) for b in behaviour.values()}) == len(behaviour)
    assert (arrays.token_class == -1).any()


def test_states_that_no_token_sequence_reaches_are_gone():
    vocab = Vocabulary([b"ab", b"cd", None], eos_token_id=2)
    arrays = lifted(literal("ab") + literal("cd").repeat(0, 2), vocab)
    assert arrays.num_states == 5  # after 0, 1, 2 and 3 tokens, and the sink


def test_no_tokenisation_is_an_empty_language():
    vocab = Vocabulary([b"ab", None], eos_token_id=1)
    with pytest.raises(tt.errors.EmptyLanguage, match="tokens of this vocabulary"):
        lifted(literal("aba"), vocab)


def test_the_empty_text():
    arrays = lifted(literal(""), Vocabulary([b"a", None], eos_token_id=1))
    automaton = Simulation(arrays)
    assert [automaton.paths(t) for t in ([], [1], [1, 1], [0], [0, 1])] == [0, 1, 1, 0, 0]


def test_bounded_strings_stay_small():
    """A string of up to 128 characters: tokens of k characters are one class, whatever they are."""
    rng = random.Random(1)
    pieces = list({bytes(rng.choices(range(97, 123), k=rng.randint(1, 8))) for _ in range(20_000)})
    vocab = Vocabulary([*pieces, None], eos_token_id=len(pieces))
    arrays = lifted(regex("[a-z]{0,128}"), vocab)
    assert arrays.token_class.max() + 1 == 9  # eight lengths and EOS
    assert len(arrays.source) == sum(129 - k for k in range(1, 9)) + 130


def test_compile_makes_an_automaton():
    vocab = Vocabulary([b"yes", b"no", b" ", b"maybe", b"y", b"es", None], eos_token_id=6)
    constraint = any_of("yes", "no maybe")
    automaton = constraint.compile(vocab)
    assert isinstance(automaton, tt.Automaton)
    assert automaton.eos_token_id == 6
    assert automaton.is_deterministic
    assert tt.count(automaton, n=4) == 3  # yes; y es; no ␣ maybe: each padded to four tokens
    loose = constraint.compile(vocab, require_eos=False)
    assert automaton.accepts([0, 6, 6])
    assert not automaton.accepts([0])
    assert loose.accepts([0])
    assert loose.accepts([0, 6])


def test_determinism_of_the_whole():
    """The same constraint gives the same arrays: classes and states are numbered by the language alone."""
    vocab = Vocabulary([*PIECES, None], eos_token_id=len(PIECES))
    first, second = (lifted(regex("(ab|é)+"), vocab) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert np.array_equal(a, b)
    assert dfa.minimize(regex("a|b").nfa).num_states == 2
