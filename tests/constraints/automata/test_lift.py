"""Lifting is exact: a token sequence is accepted iff its bytes are, EOS ends the text, special tokens never match."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tractile as tt
from tractile.constraints import Constraint, Vocabulary, literal, regex
from tractile.constraints.automata import arrays
from tractile.constraints.lift import TokenTransitions, lift


def lifted(constraint: Constraint, vocab: Vocabulary, require_eos: bool = True) -> TokenTransitions:
    return lift(constraint.bytes_automaton, vocab, require_eos)


class Simulation:
    """Runs the arrays as a set of states for each prefix, one token at a time."""

    def __init__(self, arrays: TokenTransitions) -> None:
        self.arrays, self.moves = arrays, {}
        rows = zip(
            arrays.source.tolist(), arrays.token_class_of_edge.tolist(), arrays.target.tolist(), strict=True
        )
        for source, klass, target in rows:
            self.moves.setdefault((source, klass), []).append(target)

    def paths(self, tokens) -> int:
        """How many accepting paths read the tokens."""
        weight = dict.fromkeys(self.arrays.start.tolist(), 1)
        for token in tokens:
            klass = int(self.arrays.token_class[token])
            after: dict[int, int] = {}
            for state, count in weight.items():
                for target in self.moves.get((state, klass), []) if klass >= 0 else []:
                    after[target] = after.get(target, 0) + count
            weight = after
        accept = set(self.arrays.accept.tolist())
        return sum(count for state, count in weight.items() if state in accept)


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


def test_no_tokenisation_is_an_empty_language():
    vocab = Vocabulary([b"ab", None], eos_token_id=1)
    with pytest.raises(tt.errors.EmptyLanguage, match="tokens of this vocabulary"):
        lifted(literal("aba"), vocab)


def test_bounded_strings_stay_small():
    """A string of up to 128 characters: tokens of k characters are one class, whatever they are."""
    rng = random.Random(1)
    pieces = list({bytes(rng.choices(range(97, 123), k=rng.randint(1, 8))) for _ in range(20_000)})
    vocab = Vocabulary([*pieces, None], eos_token_id=len(pieces))
    arrays = lifted(regex("[a-z]{0,128}"), vocab)
    assert arrays.token_class.max() + 1 == 9  # eight lengths and EOS
    assert len(arrays.source) == sum(129 - k for k in range(1, 9)) + 130


@pytest.mark.parametrize("most", [5, 1 << 31, (1 << 62) - 1])
def test_distinct_rows_are_in_order(most):
    """Numbers of any size: three columns of large ones do not fit into one key of 64 bits."""
    rng = np.random.default_rng(0)
    few = rng.integers(0, most, (6, 3))
    rows = few[rng.integers(0, 6, 200)]
    rows[:, rng.integers(0, 3)] = few[0, 0]
    assert list(map(tuple, arrays.unique_rows(rows).tolist())) == sorted(set(map(tuple, rows.tolist())))
