"""Distances of schemas against a breadth-first search over tokens: objects in any order, nested, recursive and open ones."""

import random

import numpy as np
import pytest
from test_lazy_distances import slowly

from tractile.circuits.automaton import UNREACHABLE
from tractile.constraints import Vocabulary, limits
from tractile.constraints.automata.lazy import Numbered
from tractile.constraints.json.document import read_schema
from tractile.constraints.json.lazy.schema import lazy_schema
from tractile.constraints.lifting.lazy_distances import Distances
from tractile.constraints.masks import lazy_tokens
from tractile.constraints.masks.lazy_tokens import LazyTokens

ONE, NULL = {"const": 1}, {"type": "null"}
OPEN = {"additionalProperties": ONE, "propertyNames": {"pattern": "^[ab]*$"}}
NODE = {"type": "object", "properties": {"a": {"anyOf": [NULL, {"$ref": "#"}]}, "b": {"enum": [0, 10]}},
        "required": ["a", "b"], "additionalProperties": False}  # fmt: skip
SCHEMAS = {
    "any order": {"type": "object", "properties": {"a": ONE, "b": {"type": "boolean"}, "ab": {"enum": ["a", "ab"]}},
                  "required": ["ab", "a"], "additionalProperties": False},
    "open": {"type": "object", "properties": {"a": ONE, "ab": NULL}, "required": ["a"], **OPEN},
    "nested": {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": ONE, "aa": ONE},
               "required": ["b", "aa"], "additionalProperties": False}, "b": {"type": "array", "items": {"enum": [0, 1]},
               "minItems": 1, "maxItems": 2}}, "required": ["a", "b"], "additionalProperties": False},
    "recursive": NODE,
    "counted": {"type": "object", "properties": {"a": ONE, "b": ONE}, "minProperties": 2, "maxProperties": 3, **OPEN},
    "dependent": {"type": "object", "properties": {"a": ONE, "b": ONE, "ab": ONE}, "dependentRequired": {"a": ["ab"]},
                  "required": ["b"], "additionalProperties": False},
    "readings": {"anyOf": [{"type": "object", "properties": {"a": ONE, "b": NULL}, "required": ["a", "b"],
                            "additionalProperties": False},
                           {"type": "object", "properties": {"a": NULL}, "required": ["a"], "additionalProperties": False}]},
}  # fmt: skip
LETTERS = sorted(set('{}[]":,ab01truefalsn\n'))
PIECES = ['{"', '{"a', '":', '": ', '1,"', '","', '"}', '"}}', "}}", '},"', "1}", "1}}", '0}', ',"', '"a"', '"ab":', '"b":',
          '"a":1', "true", "null", "],", '":{', '":{"b', '","b":', 'b":', "10", "  ", '{ "', "l}", ":1", "aab", '"a":null',
          '{\n', '{\n "', ',\n', ',\n "', '\n}', '\n }', '\n ', '\n  "', '\n }\n}', '": 1\n'
          ]  # fmt: skip


def vocabulary(rng, whole):
    single = [bytes([b]) for b in range(256)] if whole else [c.encode() for c in [*LETTERS, " "]]
    pieces = list(dict.fromkeys(single + [p.encode() for p in rng.sample(PIECES, rng.randint(4, 14))]))
    return Vocabulary([*pieces, None], eos_token_id=len(pieces))


def lazy(schema, style="none", order="any"):
    style, *writing = ("space", None, "any", " ") if style == "indent" else (style,)
    options = (style, order, None, None, True, "auto", True, None, *writing)
    return lazy_schema(read_schema(schema), False, options)[0]


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("style", ["none", "space", "flexible", "indent"])
def test_bounds_and_distances(name, style):
    rng, schema, met = random.Random(0), SCHEMAS[name], 0
    most = 22
    if style == "indent":
        most = {"nested": 48, "any order": 30}.get(name, 22)
    if name == "counted" and style in ("space", "indent"):
        schema = schema | {"propertyNames": {"enum": ["a", "b", "aa"]}}
    for whole in (True, False):
        automaton, vocab = lazy(schema, style, rng.choice(["any", "declared"])), vocabulary(rng, whole)
        states = Numbered(automaton)
        distances, eager = Distances(states, vocab), Distances(states, vocab)
        for _ in range(3):
            state = states.start()
            for _ in range(8):
                expected = slowly(states, vocab, state, 1, most)
                assert distances.lower_bound(state) <= expected
                for left in (expected - 1, expected, most):
                    assert left > most or distances.within(state, left) == (expected <= left)
                if expected < UNREACHABLE:
                    assert distances.bound(state) >= expected
                    assert eager.fewest(state) == expected
                    met += 1
                after = [s for word in vocab.token_bytes if word and (s := states.run(state, word)) >= 0]
                if not after:
                    break
                state = rng.choice(after)
        assert distances.exact
        assert eager.exact
    assert met


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("style", ["none", "indent"])
def test_tokens_within_a_budget_are_those_with_near_targets(schema, style):
    rng = random.Random(1)
    vocab = vocabulary(rng, True)
    tokens = LazyTokens(lazy(schema, style), vocab)
    slow = Distances(tokens.states, vocab)
    tokens.distances.most_positions = slow.most_positions  # nothing is given up
    for _ in range(3):
        state = tokens.start_state
        for _ in range(8):
            edges = [(target, some) for target, some in tokens.edges_from(state) if target >= 0]
            for left in range(8):
                found = np.unpackbits(tokens.words_within(state, left).view(np.uint8), bitorder="little")
                wanted = [t for target, some in edges for t in some.tolist() if slow.within(target, left)]
                if tokens.states.accepting(state):
                    wanted.append(vocab.eos_token_id)
                assert np.flatnonzero(found).tolist() == sorted(wanted)
            if not edges:
                break
            state = rng.choice(edges)[0]
    assert tokens.distances.exact


@pytest.mark.parametrize("positions", [30, 100, 300, 1000])
def test_whether_a_search_is_given_up_does_not_depend_on_those_before(positions):
    vocab = vocabulary(random.Random(2), True)
    automaton, asked = lazy(SCHEMAS["nested"]), list[tuple[int, int]]()
    states = Numbered(automaton)
    for text in (b'{"a":{"', b'{"b":1,"', b"{"):
        state = states.run(states.start(), text)
        asked += [(state, left) for left in range(4, 14) if state >= 0]
    alone = {each: Distances(states, vocab, most_positions=positions).within(*each) for each in asked}
    for seed in range(3):
        order, distances = (
            random.Random(seed).sample(asked, len(asked)),
            Distances(states, vocab, most_positions=positions),
        )
        assert {each: distances.within(*each) for each in order} == alone
        assert {each: distances.within(*each) for each in asked} == alone


@pytest.mark.parametrize("name", ["any order", "nested", "readings", "counted"])
def test_the_least_budget_is_known_at_once(monkeypatch, name):
    """The search from the start has a limit of its own, larger than that of other searches."""
    vocab = vocabulary(random.Random(2), True)
    automaton = lazy(SCHEMAS[name])
    states = Numbered(automaton)
    exact = Distances(states, vocab).fewest(states.start())
    monkeypatch.setattr(limits, "POSITIONS", 1)
    monkeypatch.setattr(lazy_tokens, "START_POSITIONS", 100_000)
    for left, within in ((exact, True), (exact - 1, False)):
        tokens = LazyTokens(automaton, vocab)
        assert tokens.within(tokens.start_state, left) == within
    tokens = LazyTokens(automaton, vocab)
    assert tokens.fewest(tokens.start_state) == exact


def test_members_in_any_order_are_not_all_tried():
    """Ten required members can come in millions of orders; one that takes the fewest tokens is found in few positions."""
    names = [
        "playerId",
        "url",
        "loaded",
        "buffering",
        "controls",
        "cued",
        "autoPlay",
        "rates",
        "unstarted",
        "quality",
    ]
    types = [
        "string",
        "string",
        "integer",
        "boolean",
        "boolean",
        "boolean",
        "boolean",
        "array",
        "array",
        "string",
    ]
    kinds = {name: {"type": kind} for name, kind in zip(names, types, strict=True)}
    schema = {"type": "object", "properties": kinds, "required": names, "additionalProperties": False}
    pieces = [
        '{"',
        '":',
        ',"',
        "true",
        '":[',
        '],"',
        '":"',
        '","',
        '"}',
        '":true',
        "[]",
        "er",
        "ed",
        "un",
        "rl",
    ]
    pieces += ["play", 'Id"', '],"url', '"","buff', ',"rates', ',"loaded', '":true}']
    vocab = Vocabulary([*[bytes([b]) for b in range(256)], *map(str.encode, pieces), None], 256 + len(pieces))
    states = Numbered(lazy(schema))
    distances = Distances(states, vocab, most_positions=20_000)
    start = states.start()
    assert distances.lower_bound(start) == distances.fewest(start) < distances.bound(start)
    assert distances.exact


def test_long_arrays_and_deep_objects():
    """Crossings that go on in one another do not use up the stack of Python."""
    vocab = Vocabulary([*[bytes([b]) for b in range(256)], b"1,", None], 257)
    states = Numbered(lazy({"type": "array", "items": ONE, "minItems": 700}))
    distances = Distances(states, vocab)
    assert distances.fewest(states.start()) == 1 + 700 + 1 + 1
    schema = ONE
    for _ in range(100):
        schema = {
            "type": "object",
            "properties": {"a": schema},
            "required": ["a"],
            "additionalProperties": False,
        }
    states = Numbered(lazy(schema))
    distances = Distances(states, vocab)
    assert distances.lower_bound(states.start()) <= distances.fewest(states.start()) == 100 * 6 + 2


def test_a_budget_that_suffices_leaves_a_token_whatever_it_costs_to_find(monkeypatch):
    """Where all limited searches are given up, one without a limit finds a token."""
    vocab = vocabulary(random.Random(3), True)
    tokens = LazyTokens(lazy(SCHEMAS["nested"]), vocab)
    state, distances, positions = tokens.start_state, tokens.distances, tokens.distances.most_positions
    while True:
        with monkeypatch.context() as patched:
            distances.most_positions = positions
            left = distances.fewest(state) - 1
            patched.setattr(limits, "POSITIONS", 0)
            distances.most_positions = 1
            words = tokens.words_within(state, left)
        allowed = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
        assert len(allowed)
        if vocab.eos_token_id in allowed:
            break
        state = tokens.step(state, int(allowed[0]))
    assert distances.given_up


def test_a_completion_that_fits_the_budget_is_kept_to_its_end(monkeypatch):
    """Where nothing else is found, the mask is the next token of the completion with which the budget was judged."""
    vocab = vocabulary(random.Random(4), True)
    tokens = LazyTokens(lazy(SCHEMAS["nested"]), vocab)
    monkeypatch.setattr(
        lazy_tokens, "tokens_to", lambda masks, state, near: np.zeros(vocab.trie.num_bytes, np.uint8)
    )
    text = tokens.masks.completions(tokens.start_state)[0]
    # other states have other completions
    monkeypatch.setattr(
        tokens.masks, "completions", lambda state: [text if state == tokens.start_state else 99 * b"a"]
    )
    state, found = tokens.start_state, b""
    for left in range(tokens.completions.of_text(text) - 1, 0, -1):
        token = np.flatnonzero(
            np.unpackbits(tokens.words_within(state, left).view(np.uint8), bitorder="little")
        )
        assert len(token) == 1
        found += vocab.token_bytes[token[0]]
        state = tokens.step(state, int(token[0]))
    assert found == text
    assert tokens.states.accepting(state)


@pytest.mark.parametrize("seed", range(40))
def test_patterns_with_counters(seed):
    """A counter's lower values stand for higher ones: the distances stay the same."""
    rng, pieces = random.Random(seed), set()
    while len(pieces) < 12:  # cuts of values of 5 to 9 letters
        text = "".join(rng.choice("ab") for _ in range(rng.randint(1, 4))) + "1"
        text = f'"a":"{text + "".join(rng.choice("ab") for _ in range(rng.randint(2, 9 - len(text))))}"}}'
        low, high = sorted(rng.sample(range(4, len(text) + 1), 2))
        if high - low > 1:
            pieces.add(text[low:high])
    vocab = Vocabulary([*(c.encode() for c in '{}":,ab1'), *(p.encode() for p in sorted(pieces)), None], 20)
    a = {
        "type": "string",
        "pattern": "^[ab]+(1[ab]{2,}){1,2}$",
        "minLength": rng.choice([0, 5, 7]),
        "maxLength": 9,
    }
    b = {"type": "string", "pattern": "^(ab)*$", "maxLength": 6}
    if seed % 3 == 0:
        del a["maxLength"]
    states = Numbered(
        lazy(
            {
                "type": "object",
                "properties": {"a": a, "b": b},
                "required": ["a"],
                "additionalProperties": False,
            }
        )
    )
    distances, state = Distances(states, vocab), states.start()
    for _ in range(40):
        assert distances.fewest(state) == slowly(states, vocab, state, 1, 24)
        after = [s for word in vocab.token_bytes if word and (s := states.run(state, word)) >= 0]
        if not after:
            break
        state = rng.choice(after)
    assert distances.exact
