"""Masks of lazy automata along real instances, with a real vocabulary: each token's bytes are read one by one."""

import gzip
import hashlib
import json
import os
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest

import tractile as tt
from tractile.constraints.automata.lazy import Numbered
from tractile.constraints.json.document import read_schema
from tractile.constraints.json.lazy import lazy_schema
from tractile.constraints.masks.lazy_tokens import LazyTokens

SHARED = Path(os.environ.get("TRACTILE_SHARED", "../shared"))
SCHEMAS = SHARED / "data/jsonschemabench/jsonschemabench_dev.jsonl.gz"
OPTIONS = ("space", "auto", None, None, True, "auto", False, None)
MOST_NODES = 3000  # free text, from which more is read, is compared with masks that are not shared


@pytest.fixture(scope="module")
def vocab():
    mistral = pytest.importorskip("mistral_common")
    path = Path(mistral.__file__).parent / "data" / "tekken_240911.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    special, size = data["config"]["default_num_special_tokens"], data["config"]["default_vocab_size"]
    pieces = [b64decode(entry["token_bytes"]) for entry in data["vocab"][: size - special]]
    return tt.Vocabulary([None] * special + pieces, eos_token_id=2)


def rows(count):
    if not SCHEMAS.exists():
        pytest.skip("needs the schemas of the shared folder")
    with gzip.open(SCHEMAS, "rt", encoding="utf-8") as file:
        found = [row for line in file if (row := json.loads(line))["tests"]]
    return sorted(found, key=lambda row: hashlib.sha256(row["id"].encode()).digest())[:count]


def read(states, trie, state):
    """The tokens that can be read from a state, ``None`` where that takes too long."""
    found, todo, count = [], [(state, 0)], 0
    while todo:
        count += 1
        if count > MOST_NODES:
            return None
        at, node = todo.pop()
        found += trie.order[trie.low[node] : trie.low[node] + trie.own[node]].tolist()
        for byte, child in trie.children(node).items():
            target = states.after(at, byte)
            if target >= 0:
                todo.append((target, child))
    return found


def test_masks_along_instances_have_the_tokens_that_can_be_read(vocab):
    trie, checked = vocab.trie, 0
    for row in rows(8):
        automaton, _ = lazy_schema(read_schema(row["schema"]), False, OPTIONS)
        tokens, plain = LazyTokens(automaton, vocab), Numbered(automaton)
        apart = LazyTokens(automaton, vocab)
        apart.masks.sharing = None
        text = json.dumps(row["tests"][0]["data"]).encode()[:300]
        state, seen = tokens.start_state, set()
        for at in range(
            0, len(text), 3
        ):  # three bytes at a time: masks are asked for within names and texts, too
            if state not in seen:
                seen.add(state)
                own = plain.number(tokens.states.configurations[state])
                expected = read(plain, trie, own)
                if expected is None:
                    same = apart.states.number(tokens.states.configurations[state])
                    assert np.array_equal(tokens.words_from(state), apart.words_from(same))
                else:
                    checked += 1
                    flags = np.unpackbits(tokens.words_from(state).view(np.uint8), bitorder="little")
                    if plain.accepting(own):
                        expected.append(vocab.eos_token_id)
                    assert sorted(expected) == np.flatnonzero(flags).tolist()
            state = tokens.read(state, text[at : at + 3])
            if state < 0:
                break
    assert checked > 50
