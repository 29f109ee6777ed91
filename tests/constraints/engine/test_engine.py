"""The engine's definition against enumeration, on random programs with all kinds of nodes."""

import itertools
import math
from random import Random

import numpy as np
import pytest
from random_programs import ALPHABET, INNER, Enumeration, random_program, random_tokens, tokenizations

from tractile.constraints.engine.masks import NEVER, SINK, ProgramTokens
from tractile.constraints.engine.steps import Steps
from tractile.constraints.program import nodes
from tractile.constraints.program.prune import without_budgets
from tractile.constraints.program.tables import of_text
from tractile.constraints.vocabulary.vocabulary import Vocabulary

MOST = 5  # bytes of the texts that are enumerated
KINDS = [kind for kind in INNER if kind not in ("apart", "item")]  # these make searches long
STATES = 60  # after which no further prefixes are looked at


def check_bytes(node, most=MOST):
    """Texts, what may follow each prefix, and the shortest completions, against enumeration."""
    node = without_budgets(node)
    texts = {text.data for text in Enumeration(most).texts(node)}
    prefixes: dict[bytes, list[bytes]] = {}
    for text in texts:
        for end in range(len(text) + 1):
            prefixes.setdefault(text[:end], []).append(text[end:])
    steps = Steps(node)
    todo = [(b"", steps.start)]
    while todo:
        prefix, state = todo.pop()
        rests = prefixes.get(prefix)
        if state < 0:
            assert rests is None, prefix
            continue
        assert steps.accepting(state) == (prefix in texts)
        best = steps.search(steps.configurations[state])
        assert best is not None, prefix  # a state has a completion
        assert steps.accepts(prefix + best.text)
        assert best.cost == len(best.text)
        if best.cost <= most - len(prefix):
            assert best.text == min(rests, key=lambda rest: (len(rest), rest))
        else:
            assert rests is None, prefix
        if len(prefix) < most and len(steps.configurations) < STATES:
            todo += [(prefix + bytes([byte]), steps.step(state, byte)) for byte in ALPHABET]


def test_equal_nodes_are_one():
    assert nodes.seq() is nodes.EMPTY
    assert nodes.alt() is nodes.NOTHING
    assert nodes.alt(nodes.NOTHING, nodes.text(b"a")) is nodes.text(b"a")
    assert nodes.repeat(nodes.text(b"a"), 3, 2) is nodes.NOTHING
    assert nodes.tokens(nodes.text(b"a"), 3, 2) is nodes.NOTHING


def programs_with_items():
    """Yield small programs with items that must differ: short ones, ambiguous ones, none left, nested, within a table."""
    a, b, ab, comma = (nodes.text(word) for word in (b"a", b"b", b"ab", b"c"))
    some = nodes.item(nodes.alt(a, b, ab))
    yield nodes.apart(nodes.repeat(some, 2, 3, comma))
    yield nodes.apart(nodes.repeat(some, 4, None, comma))  # there are only three
    yield nodes.apart(nodes.repeat(some, 1, None))
    yield nodes.apart(nodes.repeat(nodes.item(nodes.repeat(a, 0, 3)), 2, 3, comma))
    pair = nodes.item(nodes.apart(nodes.repeat(some, 1, 2)))
    yield nodes.apart(nodes.repeat(pair, 1, 2, comma))
    yield nodes.within(nodes.apart(nodes.repeat(some, 2, 3, comma)), of_text(b"bcab"))
    yield nodes.seq(nodes.apart(nodes.repeat(nodes.tokens(some, 1, 1), 2, 2, comma)), a)


def test_items_that_differ():
    for node in programs_with_items():
        check_bytes(node)
        check_tokens(node, [b"a", b"b", b"c", b"ac", b"bca"], prefixes=12)


@pytest.mark.parametrize("block", range(4))
def test_texts_liveness_and_shortest_completions(block):
    for seed in range(40 * block, 40 * block + 40):
        check_bytes(random_program(Random(seed), depth=Random(seed).choice((2, 3)), kinds=KINDS))


def tokens_of(words, size):
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits[:size]).tolist())


def check_tokens(node, tokens, most=4, prefixes=40):
    """Masks and distances in tokens against all ways to write all short texts; distances against each other."""
    vocab = Vocabulary([*tokens, None], len(tokens))
    number = {token: index for index, token in enumerate(tokens)}
    fewest: dict[tuple[bytes, ...], int] = {}
    for text in Enumeration(most).texts(node):
        for words in tokenizations(text.data, tokens):
            if text.fits(words):
                for end in range(len(words) + 1):
                    fewest[words[:end]] = min(fewest.get(words[:end], NEVER), len(words) - end)
    automaton = ProgramTokens(node, vocab)
    todo = [((), automaton.start_state)]
    for prefix, state in itertools.islice(todo_grows(todo), prefixes):
        here = fewest.get(prefix, math.inf)
        if state < 0:
            assert here == math.inf, prefix
            continue
        read = sum(map(len, prefix))
        found = automaton.completion(state)
        assert found is not None, prefix
        assert found.cost <= here, prefix
        assert found.cost == here or read + found.length > most
        edges = automaton.edges(state)
        after = {token: target for target, some in edges.items() for token in some}
        nearest = min((automaton.fewest(target) for target in edges), default=NEVER)
        ended = automaton.steps.accepting(state)
        assert automaton.fewest(state) == 1 + (0 if ended else nearest)
        assert ended or edges  # no dead end
        for token, word in enumerate(tokens):
            assert automaton.step(state, token) == after.get(token, -1)
            if read < most and len(automaton.steps.configurations) < STATES:
                todo.append(((*prefix, word), after.get(token, -1)))
        assert automaton.step(state, vocab.eos_token_id) == (SINK if ended else -1)
        end = {vocab.eos_token_id} if ended else set()
        for left in range(5):
            allowed = tokens_of(automaton.words_within(state, left), len(vocab))
            assert allowed == {t for t, target in after.items() if automaton.fewest(target) <= left} | end
            assert allowed >= {
                number[words[-1]]
                for words in fewest
                if words and words[:-1] == prefix and fewest[words] + 1 <= left
            }
        assert tokens_of(automaton.words_within(state), len(vocab)) == set(after) | end
        ample = max((automaton.fewest(target) for target in after.values()), default=0)
        assert (automaton.words_within(state, ample) == automaton.words_within(state)).all()


def todo_grows(todo):
    """Yield the entries of a list that grows meanwhile."""
    for index in itertools.count():
        if index == len(todo):
            return
        yield todo[index]


@pytest.mark.parametrize("block", range(4))
def test_masks_and_distances_in_tokens(block):
    for seed in range(40 * block, 40 * block + 40):
        rng = Random(10_000 + seed)
        check_tokens(random_program(rng, depth=rng.choice((2, 3)), kinds=KINDS), random_tokens(rng))
