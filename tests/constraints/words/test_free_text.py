"""Free text in any region: a new state costs little more than the mask itself, and its tokens are those read byte by byte."""

import functools
import random
import tracemalloc

import numpy as np
import pytest

import tractile as tt
from tractile.constraints import free, json_schema, regex, text_length

WARM = 24  # masks after which tables of the vocabulary are there
BYTES_A_TOKEN = 32  # of memory for one mask; tokens that are read one by one take 55 to 75


def counted_text():
    return json_schema({"type": "string"}) & regex(".{0,200}")


def thought():
    return free(until="</think>", max_chars=300) + json_schema({"type": "integer"})


CASES = {
    "characters": lambda: regex(".{0,400}"),
    "length": lambda: text_length(0, 300),
    "intersection": counted_text,
    "thought": thought,
    "words": lambda: regex(r"[\w ]{0,120}"),
}


@functools.cache
def vocabulary():
    """Single bytes and words of letters, with spaces and marks; some have the end of a letter cut off."""
    rng = random.Random(0)
    letters, others = (
        "abcdefghijklmnopqrstuvwxyz",
        ["é", "日", "😀", "</", "think>", "\n", '"', "12", "3}", ", ", "."],
    )
    words = set()
    while len(words) < 30_000:
        word = rng.choice(["", " "]) + "".join(rng.choices(letters, k=rng.randrange(2, 9)))
        if rng.random() < 0.1:
            word = rng.choice(others) + word + rng.choice(others)
        data = word.encode()
        words.add(data[:-1] if data[-1] >= 128 and rng.random() < 0.5 else data)
    tokens = [*(bytes([byte]) for byte in range(256)), *sorted(words)]
    return tt.Vocabulary([*tokens, None], len(tokens))


def allowed(query):
    mask = np.asarray(query.mask()).reshape(-1)
    return np.flatnonzero(mask)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_a_new_state_of_free_text_costs_little_more_than_its_mask(case):
    vocab, rng = vocabulary(), random.Random(0)
    query = tt.gcd(CASES[case]().compile(vocab), 2_000).start()
    plain = [vocab.token_bytes.index(byte) for byte in (b"a", b"e", b"n", b"s", b"t")]
    if case == "intersection":
        query.advance([vocab.token_bytes.index(b'"')])
    peaks = []
    for _ in range(WARM + 8):
        tracemalloc.start()
        assert query.mask().any()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        query.advance([rng.choice(plain)])
    assert max(peaks[WARM:]) < BYTES_A_TOKEN * len(vocab)


@pytest.mark.parametrize("case", CASES)
def test_tokens_of_free_text_are_those_read_byte_by_byte(case):
    vocab, rng = vocabulary(), random.Random(1)
    single = tt.Vocabulary([*(bytes([byte]) for byte in range(256)), None], 256)
    constraint = CASES[case]()
    query, apart = tt.gcd(constraint.compile(vocab), 2_000).start(), constraint.compile(single)
    text = b""
    for step in range(WARM + 6):
        mask = set(allowed(query).tolist()) - {vocab.eos_token_id}
        if not mask:
            break
        if step < 6 or step >= WARM:
            some = rng.sample(range(len(vocab) - 1), 150) + rng.sample(sorted(mask), min(50, len(mask)))
            for token in some:
                assert (token in mask) == (
                    apart.fewest_after(list(text + vocab.token_bytes[token])) < 1 << 30
                )
        near = [token for token in mask if len(vocab.token_bytes[token]) < 4]
        token = rng.choice(near or sorted(mask))
        text += vocab.token_bytes[token]
        query.advance([token])
    assert step > 3
