"""The graph of a vocabulary's tokens against what its definition says of the tokens themselves, byte by byte."""

import functools
import itertools
import random

import numpy as np
import pytest

from tractile.circuits.automaton import UNREACHABLE
from tractile.constraints import Vocabulary
from tractile.constraints.automata import transitions
from tractile.constraints.lifting.token_dag import FAR

LETTERS = b"abcd"


def tokens_of(seed):
    """Random tokens, often without some of the single bytes, so that not every text can be written."""
    dice = random.Random(seed)
    words = [
        "".join(dice.choices("abcd"[: 2 + seed % 3], k=dice.randint(1, 5)))
        for _ in range(dice.randint(2, 14))
    ]
    return [*dict.fromkeys(word.encode() for word in words)]


def fewest(tokens, text, after=(0,)):
    """The fewest tokens from each place of a text on, where ``after`` are those of its last places."""

    @functools.cache
    def cost(place):
        if place > len(text) - len(after):
            return after[place - len(text) - 1]
        ends = [place + len(token) for token in tokens if text.startswith(token, place)]
        return min([1 + cost(end) for end in ends], default=UNREACHABLE)

    return [min(UNREACHABLE, cost(place)) for place in range(len(text) + 1)]


@pytest.fixture(params=range(12), ids=str)
def case(request):
    tokens = tokens_of(request.param)
    dag = Vocabulary([*tokens, None], eos_token_id=len(tokens)).token_dag
    beginnings = sorted({token[:n] for token in tokens for n in range(len(token) + 1)})
    node = {b"": dag.root}
    for text in beginnings[1:]:
        node[text] = dag.children(node[text[:-1]])[text[-1]]
    rests = {text: {token[len(text) :] for token in tokens if token.startswith(text)} for text in beginnings}
    return tokens, dag, node, rests


def test_beginnings_share_a_node_exactly_if_they_have_the_same_rests(case):
    tokens, dag, node, rests = case
    for one, other in itertools.product(node, repeat=2):
        assert (node[one] == node[other]) == (rests[one] == rests[other])
    for text, at in node.items():
        assert dag.ends[at] == (text in tokens)
        assert set(dag.children(at)) == {rest[0] for rest in rests[text] if rest}
    assert dag.longest == max(map(len, tokens))
    assert dag.trie.single.tolist() == [bytes([byte]) in tokens for byte in range(256)]


def test_what_a_rest_needs_from_a_token_s_beginning_on(case):
    tokens, dag, node, rests = case
    needed = {text: max(min(FAR, fewest(tokens, rest)[0]) for rest in rests[text]) for text in node}
    assert [needed[text] for text in node] == [dag.rest[node[text]] for text in node]
    assert dag.most_rest == max([1, *(n for text, n in needed.items() if node[text] != dag.root)])
    for last in (b"a", b"bd", b"ca", b"x", LETTERS):
        after = [text for text in node if text and text[-1] in last]
        assert dag.rest_after(last) == dag.rest_after(last) == max([1, *(needed[text] for text in after)])
        more = {node[text] for text in after if rests[text] - {b""}}
        assert sorted(dag.nodes_after(last)) == sorted(
            {*more, dag.root} if dag.root not in more else [*more, dag.root]
        )


def test_which_bytes_may_still_come_in_a_token(case):
    _, dag, node, rests = case
    assert all(dag.ahead(None))
    for last in (b"", b"a", b"bd", b"db", b"x"):
        found = dag.ahead(last)
        for text, at in node.items():
            assert found[at] == (not text or any(set(rest) & set(last) for rest in rests[text]))
    assert dag.ahead(b"bd") is dag.ahead(b"dbb")  # kept by the set of bytes


def test_texts_are_written_with_the_fewest_tokens(case):
    tokens, dag, _, _ = case
    dice = random.Random(0)
    for length in range(8):
        text = bytes(dice.choices(LETTERS, k=length))
        assert dag.fewest(text, [0]) == fewest(tokens, text)
        after = [dice.randrange(4) for _ in range(dice.randint(1, length + 1))]
        assert dag.fewest(text, after) == fewest(tokens, text, after)


def test_transitions_are_those_of_the_moves_however_many_are_kept(monkeypatch):
    """States in any order, more of them than rows that are kept, each asked about a few or many bytes."""
    rng = np.random.default_rng(0)
    table = rng.integers(-1, 5_000, size=(300, 256))
    asked = []

    def moves(state):
        asked.append(state)
        return [(byte, byte, to) for byte, to in enumerate(table[state].tolist()) if to >= 0]

    monkeypatch.setattr(transitions, "MAX_ROWS", 100)
    found = transitions.Transitions(moves, lambda state, byte: int(table[state, byte]))
    assert found.after(np.empty(0, np.int64), np.empty(0, np.int64)).dtype == np.int64
    for size in (1, 5, 300, 2_000, 300, 5):
        state, byte = rng.integers(0, 300, size), rng.integers(0, 256, size)
        assert (found.after(state, byte) == table[state, byte]).all()
    asked.clear()
    for few, rows in ((transitions.FEW_BYTES, []), (transitions.FEW_BYTES + 1, [7])):
        fresh = transitions.Transitions(moves, lambda state, byte: int(table[state, byte]))
        state, byte = np.full(few, 7), np.arange(few)
        for _ in range(2):  # what is kept is not asked for again
            assert (fresh.after(state, byte) == table[7, :few]).all()
        assert asked == rows
    far = transitions.Transitions(lambda state: [(0, 255, state + 1)], lambda state, byte: state + 1)
    for state in (1_023, 1_024, 2_048, 5_000, 3):
        assert far.after(np.full(9, state), np.arange(9)).tolist() == [state + 1] * 9
