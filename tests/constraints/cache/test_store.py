"""What is kept on disk: equal to what is made afresh, found out when it is broken, safe beside other processes."""

import numpy as np
import pytest
import torch

import tractile as tt
from tractile.constraints import Vocabulary, explicit, regex
from tractile.constraints.vocabulary import vocabulary as tokenizers

VOCAB = Vocabulary([*(bytes([b]) for b in range(256)), b"ab", b'"a', None], eos_token_id=258)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACTILE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def files(folder):
    return sorted(folder.glob("*")) if folder.exists() else []


def test_a_constraint_is_compiled_once(folder, monkeypatch):
    first = regex('"[^"]{0,9}"').compile(VOCAB, cache=True).finite
    assert len(files(folder)) == 1
    monkeypatch.setattr(explicit, "lift", None)  # not again
    second = regex('"[^"]{0,9}"').compile(VOCAB, cache=True).finite
    assert np.array_equal(second.distances, first.distances)
    assert second.edges() == first.edges()
    query, again = tt.gcd(first, 12).start(), tt.gcd(second, 12).start()
    assert torch.equal(query.bitmask(), again.bitmask())


def test_what_differs_is_kept_apart(folder):
    other = Vocabulary([*VOCAB.token_bytes[:-1], b"b", None], eos_token_id=259)
    for constraint in (regex("a*"), regex("a+")):
        for vocab in (VOCAB, other):
            for require_eos in (True, False):
                constraint.compile(vocab, require_eos, cache=True).edges()
    assert len(files(folder)) == 8


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "a folder"])
def test_a_broken_file_is_made_again(folder, damage):
    expected = regex("a{2,3}").compile(VOCAB, cache=True).edges()
    (path,) = files(folder)
    data = path.read_bytes()
    if damage == "a folder":
        path.unlink()
        path.mkdir()
    else:
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        path.write_bytes({"cut": data[:-5], "flipped": flipped, "empty": b""}[damage])
    assert regex("a{2,3}").compile(VOCAB, cache=True).edges() == expected
    if damage != "a folder":
        assert path.read_bytes() == data


def test_the_trie_of_a_large_vocabulary(folder, monkeypatch):
    monkeypatch.setattr(tokenizers, "KEPT_FROM", 100)
    tries = [Vocabulary(VOCAB.token_bytes, 258).trie for _ in range(2)]
    assert len(files(folder)) == 1
    for name in ("parent", "byte", "node", "order", "first", "own", "low", "high"):
        assert np.array_equal(*(getattr(trie, name) for trie in tries)), name
    assert tries[0].bounds == tries[1].bounds
