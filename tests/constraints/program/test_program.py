"""Programs as finite automata, against enumeration of their texts."""

from itertools import product
from random import Random

import pytest
from definition import Definition
from random_programs import ALPHABET, INNER, Enumeration, random_program

from tractile.constraints.engine.bytes import Bytes
from tractile.constraints.engine.expansion import expanded
from tractile.constraints.engine.regular import bounded, guiding
from tractile.constraints.program import nodes
from tractile.constraints.program.left_recursion import left_recursive, without_left_recursion
from tractile.constraints.program.node import Kind
from tractile.constraints.program.prune import without_budgets
from tractile.constraints.program.spec import faults
from tractile.constraints.program.tables import of_text, table, with_fresh_start
from tractile.constraints.vocabulary.vocabulary import Vocabulary
from tractile.errors import TooManyStates, UnsupportedConstraint

MOST = 4
LETTERS = Vocabulary([None, *(bytes([byte]) for byte in ALPHABET)], 0)
WORDS = [bytes(word) for size in range(MOST + 1) for word in product(ALPHABET, repeat=size)]
KINDS = [kind for kind in INNER if kind not in ("apart", "item")]


def random_cases(begin, count, kinds=KINDS):
    """Yield programs and their texts of at most ``MOST`` bytes."""
    for seed in range(begin, begin + count):
        rng = Random(seed)
        node = without_budgets(random_program(rng, depth=rng.choice((2, 3)), kinds=kinds))
        yield node, {text.data for text in Enumeration(MOST).texts(node)}


def words_of(automaton):
    return {word for word in WORDS if automaton.accepts(word)}


@pytest.mark.parametrize("most_states", [4, 12, 40, 1_000])
def test_a_guide_accepts_all_texts(most_states):
    for node, texts in random_cases(50_000 + most_states, 15, INNER):
        assert texts <= words_of(guiding(node, most_states))


@pytest.mark.parametrize("kept", range(3))
def test_what_forgets_callers_accepts_all_texts(kept):
    for node, texts in random_cases(51_000 + kept, 15):
        assert texts <= words_of(expanded(node, 20_000, kept=kept).plain)


def test_a_program_that_does_not_call_itself_is_written_out_exactly():
    written = 0
    for node, texts in random_cases(60_000, 40):
        try:
            found = words_of(expanded(node, 5_000).plain)
        except TooManyStates:
            continue
        written += 1
        assert found == texts
    assert written > 9


@pytest.mark.parametrize(("depth", "length"), [(None, None), (0, None), (1, 2), (3, 20)])
def test_bounded_accepts_some_of_the_texts_and_says_where_not_all(depth, length):
    exact = 0
    for node, texts in random_cases(61_000, 20, INNER):
        found, cuts = bounded(node, depth, length)
        assert words_of(found) <= texts
        if not cuts:
            exact += 1
            assert words_of(found) == texts
    assert exact > 3


def test_budgets_of_parts_have_no_finite_automaton():
    with pytest.raises(UnsupportedConstraint, match="budgets of parts"):
        bounded(nodes.seq(nodes.tokens(nodes.text(b"a"), 0, 3), nodes.text(b"b")))


def test_names_of_a_bag_begin_afresh():
    loop = table([(0, 99, 99, 0), (0, 97, 97, 1)], [-1, 0])
    fresh = with_fresh_start(loop)
    assert 0 not in fresh.edges[:, 3]
    bag = nodes.bag(loop, loop, [nodes.EMPTY], 0, low=1)
    steps = Definition(bag, LETTERS)
    assert steps.accepts(b"cca")
    assert not steps.accepts(b"cc")
    (found,) = faults(nodes.bag(table([(0, 97, 97, 0)], [0]), of_text(b"a"), [nodes.EMPTY], 0))
    assert "each name ends with a byte of its own" in found


# ---------------------------------------------------------------- left recursion


def test_left_recursion_is_rewritten_and_the_texts_stay():
    kinds, rewrote = [*KINDS, "seq", "rule", "rule"], 0
    for seed in range(70_000, 70_400):
        rng = Random(seed)
        node = random_program(rng, rng.choice((2, 3)), kinds, rng.choice((1, 2, 3)), left_recursive=True)
        node = without_budgets(node)
        if not left_recursive(node):
            continue
        try:
            found = without_left_recursion(node)
        except UnsupportedConstraint:  # inside WITHIN
            continue
        rewrote += 1
        steps, texts = Definition(found, LETTERS), {text.data for text in Enumeration(MOST).texts(node)}
        assert {word for word in WORDS if steps.accepts(word)} == texts, seed
    assert rewrote > 30


@pytest.mark.parametrize("most", [0, 1, 2])
def test_sequences_within_sequences_read_the_same(monkeypatch, most):
    monkeypatch.setattr(nodes, "MOST_INLINED", most)
    nested = 0
    for node, texts in random_cases(62_000 + 100 * most, 40, ("seq", "seq", "seq", "alt", "repeat", "rule")):
        parts = (part for each in nodes.reachable(node) if each.kind is Kind.SEQ for part in each.parts)
        nested += any(part.kind is Kind.SEQ for part in parts)
        steps = Definition(node, LETTERS)
        assert {word for word in WORDS if steps.accepts(word)} == texts
        assert {word for word in WORDS if Bytes(node).accepts(word)} == texts
    assert nested > 2
