"""Masks of lazy configurations against brute force: every token's bytes, one after another."""

import random

import numpy as np
import pytest
from lazy_machines import ONE, TEXT, List, Members, String, letters_of

from tractile.constraints import Vocabulary, regex
from tractile.constraints.automata.lazy import Numbered
from tractile.constraints.automata.machines import Choice, Concatenation, DfaMachine, TextMachine
from tractile.constraints.automata.stack import StackAutomaton
from tractile.constraints.masks import walk
from tractile.constraints.masks.lazy_tokens import SINK, LazyTokens
from tractile.constraints.masks.texts import Texts
from tractile.constraints.masks.token_masks import TokenMasks

LETTERS = [
    b"a",
    b"b",
    b'"',
    b"\\",
    b"u",
    b"0",
    b"\xc3",
    b"\xa9",
    b"n",
    b"1",
    b",",
    b":",
    b"{",
    b"}",
    b"[",
    b"]",
]
SIMPLE = letters_of([(0, 0x61, 0x62, 0), (0, 0x30, 0x31, 0)], "ab01")
NAMES = {b"ab": String(0, 3), b"a": ONE, b"aba": List(ONE), "é".encode(): ONE, b"": ONE}
MACHINES = {
    "string": String(),
    "long string": String(3, 9),
    "at least": String(7),
    "two kinds": Concatenation([String(1, 2, SIMPLE), String(0, 4)]),
    "members": Members(NAMES),
    "members within": Members(NAMES, within=True),
    "list": List(String(1, 5), 2, 4),
    "long list": List(Members({b"n": List(String(2))}), 12),
    "quoted by a letter": Concatenation([String(3, 3, SIMPLE, 0x62), TextMachine(b"ab1")]),
    "texts of several kinds": Choice([String(2), String(0, 6), String(1, 3), List(String())]),
    "objects of several kinds": Choice(
        [Members({b"ab": ONE}, within=True), Members({b"a": String(), b"abu": ONE}, within=True)]
    ),
    "[ab]{2,}": DfaMachine(regex('[ab01]{2,}"?').bytes_automaton),
    "any": DfaMachine(regex('(?s)(.*")?[ab]{0,3}').bytes_automaton),
}


def vocabulary(seed, size=400):
    """All bytes, and random tokens of letters that matter: cut-off UTF-8, quotes, escapes; some twice, some special."""
    rng = random.Random(seed)
    words = [b"".join(rng.choices(LETTERS, k=rng.randint(1, 7))) for _ in range(size)]
    more = [
        b"ab" * 6,
        b"a" * 9,
        b'","',
        b'":1,"',
        b'"]',
        b'":"',
        "éa".encode() * 2,
        b"ab01ab",
        b"\\u00",
        b"\\n\\n",
    ]
    pieces = [*[bytes([b]) for b in range(256)], *words, *more, *more[:2], None]
    rng.shuffle(pieces)
    return Vocabulary([*pieces, None], eos_token_id=len(pieces))


VOCAB = vocabulary(0)
TEXTS = Texts(VOCAB.trie)


def random_states(states, vocab, rng, texts=12, most=30):
    """States that random texts visit."""
    found = dict.fromkeys([states.start()])
    words = sorted({w for w in vocab.token_bytes if w})
    for _ in range(texts):
        state = states.start()
        for _ in range(most):
            some = [s for w in rng.sample(words, 60) if (s := states.run(state, w)) >= 0]
            if not some:
                break
            state = rng.choice(some)
            found[state] = None
    return list(found)


def brute_force(states, vocab, state):
    """The state after each token that may follow."""
    after = {t: states.run(state, w) for t, w in enumerate(vocab.token_bytes) if w}
    return {t: s for t, s in after.items() if s >= 0}


def tokens_of(words, size):
    return set(np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")[:size]).tolist())


@pytest.mark.parametrize(
    "limits", [(300, 24, 500), (0, 0, 0), (3, 0, 5), (10_000, 0, 0), (10_000, 10_000, 10_000)]
)
@pytest.mark.parametrize("name", MACHINES)
def test_masks_and_edges_are_what_the_bytes_say(name, limits, monkeypatch):
    for key, value in zip(("STEPS", "FEW", "MANY"), limits, strict=True):
        monkeypatch.setattr(walk, key, value)
    states = Numbered(StackAutomaton(MACHINES[name]))
    masks = TokenMasks(states, VOCAB.trie, TEXTS, VOCAB.eos_token_id)
    for state in random_states(states, VOCAB, random.Random(1)):
        want = brute_force(states, VOCAB, state)
        eos = {VOCAB.eos_token_id} if states.accepting(state) else set()
        assert tokens_of(masks.mask(state).words, len(VOCAB)) == set(want) | eos
        edges = masks.edges(state)
        got = {token: target for target, tokens in edges.items() for token in tokens.tolist()}
        assert got == want
        assert sum(map(len, edges.values())) == len(want)


def test_free_text_has_its_fixtures():
    """The fixtures meet what they are for: exceptions, minimum lengths, limits, letters that are cut."""
    assert TEXT.nfa.is_deterministic


def exact_distance(states, vocab, limit=2000):
    """The fewest tokens from each state to acceptance, EOS included, by breadth-first search over tokens."""
    kept = {}

    def distance(state):
        if state not in kept:
            seen, layer, length = {state}, [state], 1
            while layer and not any(map(states.accepting, layer)):
                layer = [
                    t for s in layer for t in set(brute_force(states, vocab, s).values()) if t not in seen
                ]
                seen.update(layer := list(dict.fromkeys(layer)))
                length += 1
                assert len(seen) < limit
            kept[state] = length
        return kept[state]

    return distance


@pytest.mark.parametrize("name", MACHINES)
def test_steps_are_what_the_bytes_say(name):
    tokens = LazyTokens(StackAutomaton(MACHINES[name]), VOCAB, texts=TEXTS)
    for state in random_states(tokens.states, VOCAB, random.Random(2), texts=4):
        for token, word in enumerate(VOCAB.token_bytes):
            if word:
                assert tokens.step(state, token) == tokens.states.run(state, word)
        assert tokens.step(state, VOCAB.eos_token_id) == (SINK if tokens.states.accepting(state) else -1)
    assert tokens.step(SINK, VOCAB.eos_token_id) == SINK
    assert tokens.step(SINK, 0) == tokens.step(-1, VOCAB.eos_token_id) == -1


@pytest.mark.parametrize("name", [*MACHINES, "far"])
def test_ample_is_a_bound_of_every_target(name):
    machine = List(String(60), 40) if name == "far" else MACHINES[name]
    tokens = LazyTokens(StackAutomaton(machine), VOCAB, texts=TEXTS)
    for state in random_states(tokens.states, VOCAB, random.Random(3), texts=8, most=90):
        ample, nearer = tokens.ample(state), tokens.ample_in_tokens(state)
        for target, _ in tokens.edges_from(state):
            assert tokens.bound(target) <= nearer <= ample
