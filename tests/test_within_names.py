"""Tokens within a budget where the names of members must differ: found without the texts of names, and with them."""

import random
from functools import partial

import numpy as np
import pytest
from test_lazy_distances_schemas import NULL, ONE, PIECES, lazy

from tractile import gcd
from tractile.constraints import Vocabulary, function_calls
from tractile.constraints.lifting.lazy_distances import Distances
from tractile.constraints.masks.lazy_tokens import LazyTokens

LETTERS = {"propertyNames": {"pattern": "^[ab]*$"}}
SCHEMAS = {
    "one member": {"type": "object", "not": {"propertyNames": False}, **LETTERS},
    "two members": {"type": "object", "minProperties": 2, "additionalProperties": ONE, **LETTERS},
    "three members": {"type": "object", "minProperties": 3, "maxProperties": 4, "additionalProperties": ONE, **LETTERS},
    "few names": {"type": "object", "minProperties": 2, "additionalProperties": ONE, "propertyNames": {"pattern": "^a?b?$"}},
    "a pattern": {"type": "object", "not": {"patternProperties": {"a": {"not": ONE}}}, "properties": {"b": NULL}, **LETTERS},
    "nested": {"type": "object", "not": {"propertyNames": False}, **LETTERS,
               "additionalProperties": {"anyOf": [ONE, {"type": "object", "minProperties": 2, "additionalProperties": ONE,
                                                        **LETTERS}]}},
    "either": {"oneOf": [{"type": "object", "minProperties": 2, "additionalProperties": ONE, **LETTERS},
                         {"type": "object", "minProperties": 1, "additionalProperties": NULL, **LETTERS}]},
    "required": {"type": "object", "properties": {"a": ONE}, "required": ["a"], "minProperties": 3,
                 "additionalProperties": {"enum": [1, "a"]}, **LETTERS},
}  # fmt: skip
TWO_NAMES = ['a":1,"a', 'a":1,"b', '":1,"a":1', '{"a":1,"a":1', '"b":1,"b":1}', '","a":']


def within(distances, left, state):
    return distances.within(state, left)


@pytest.mark.parametrize("name", SCHEMAS)
def test_tokens_within_a_budget(name):
    rng, met = random.Random(name), 0
    for _ in range(2):
        pieces = rng.sample(PIECES, 12) + rng.sample(TWO_NAMES, 4)
        single = [bytes([b]) for b in range(256)]
        vocab = Vocabulary([*single, *(piece.encode() for piece in pieces), None], 256 + len(pieces))
        tokens = LazyTokens(lazy(SCHEMAS[name]), vocab)
        slow = Distances(tokens.states, vocab)
        tokens.distances.most_positions = slow.most_positions  # nothing is given up
        least = slow.fewest(tokens.start_state)
        for _ in range(3):
            state = tokens.start_state
            for _ in range(6):
                edges = [(target, some) for target, some in tokens.edges_from(state) if target >= 0]
                for left in (least - 3, least - 2, least - 1, least, least + 2):
                    judged = {target: slow.within(target, left) for target, _ in edges}
                    wanted = [t for target, some in edges if judged[target] for t in some.tolist()]
                    if tokens.states.accepting(state):
                        wanted.append(vocab.eos_token_id)
                    found = np.unpackbits(tokens.words_within(state, left).view(np.uint8), bitorder="little")
                    assert np.flatnonzero(found).tolist() == sorted(wanted)
                    near = partial(within, slow, left)
                    quick = tokens._for_any_names(state, left, near, 1) if left >= 0 else None
                    met += quick is not None and 0 < len(wanted)
                if not edges:
                    break
                state = rng.choice(edges)[0]
                least = max(1, slow.fewest(state))
        assert tokens.distances.exact
    assert met or name == "few names"


@pytest.mark.parametrize("pattern", ["^[a-z0-9]$", "^[a-z]{2}$", "^[ab]{1,9}$", "^(a|b)c?$"])
def test_masks_where_tokens_hold_the_end_of_a_name_and_the_beginning_of_the_next(pattern):
    names = {"propertyNames": {"pattern": pattern}}
    pieces = ['a":1,"a', '":1,"a', 'a":1,"', 'aa":1,"aa', 'b":1,"b', 'ab":1,"ab', 'ab":1,"a']
    vocab = Vocabulary(
        [*(bytes([b]) for b in range(256)), *(piece.encode() for piece in pieces), None], 256 + len(pieces)
    )
    tokens = LazyTokens(
        lazy({"type": "object", "minProperties": 2, "additionalProperties": ONE, **names}), vocab
    )
    met = 0
    for prefix in ('{"', '{"a', '{"a":1,"', '{"b":1,"', '{"aa', "{"):
        state = tokens.states.run(tokens.start_state, prefix.encode())
        if state >= 0:
            allowed = np.flatnonzero(
                np.unpackbits(tokens.words_from(state).view(np.uint8), bitorder="little")
            )
            assert allowed.tolist() == sorted(
                t for _, some in tokens.edges_from(state) for t in some.tolist()
            )
            met += 1
    assert met > 1


def test_names_in_single_quotes_are_written_once():
    parameters = {"x": {"type": "object", "minProperties": 2, "additionalProperties": {"const": 1}}}
    tool = {
        "name": "f",
        "parameters": {"type": "object", "properties": parameters, "required": ["x"]},
    }
    pieces = ["a': 1, 'a'", "'a': 1, 'a'", "{'a': 1, 'a'", "a': 1, 'b'", 'a\': 1, "a"']
    vocab = Vocabulary(
        [*(bytes([b]) for b in range(256)), *(piece.encode() for piece in pieces), None], 256 + len(pieces)
    )
    compiled = function_calls([tool], syntax="python").compile(vocab)
    for prefix, wanted in (("f(x={'", {3}), ("f(x={", set()), ("f(x=", set())):
        query = gcd(compiled, 60).start()
        for byte in prefix.encode():
            query.advance([byte])
        assert set((query.mask()[0].nonzero()[:, 0] - 256).tolist()) & set(range(len(pieces))) == wanted
