"""Long random walks over next-token queries: all moves mixed, equal to replaying, and without growth of memory."""

import gc
from pathlib import Path

import games
import numpy as np
import oracle
import pytest
import torch

import tractile as tt
from tractile.constraints import json_schema, regex
from tractile.embedded import load_lm
from tractile.inference.next_token.history import KEPT_STEPS

HORIZON, BATCH = 60, 4
MOVES = ["advance", "advance", "advance", "wait", "select", "rollback", "fork", "ahead"]


def small():
    """A problem without dead ends: two ways on from each state."""
    edges = [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 2, 0), (2, 1, 2), (2, 2, 0)]
    hmm = oracle.random_hmm(np.random.default_rng(0), 3, 3)
    return games.Problem(hmm, oracle.OracleFSA(edges, [0], [0, 2], 3), HORIZON)


def compiled():
    """Masks of machines: an object with free strings, and a text whose parts have budgets."""
    tokenizer = load_lm()[1]
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
        "additionalProperties": False,
    }
    yield "gcd of an object", tt.gcd(json_schema(schema).compile(tokenizer), HORIZON)
    parts = regex("[a-z ]*").tokens(at_most=40) + regex("[0-9]+").tokens(at_most=8)
    yield "gcd of parts", tt.gcd(parts.compile(tokenizer), HORIZON)


def walk(query, rng, steps):
    """Move at random; yields the query after each step with the tokens and budgets of its rows."""
    budgets, tokens = np.full(BATCH, HORIZON), np.zeros((BATCH, 0), int)
    query.start(BATCH, HORIZON)
    for _ in range(steps):
        move = rng.choice(MOVES)
        if move == "select":
            index = rng.integers(0, BATCH, BATCH)
            query.select(index.tolist())
            budgets, tokens = budgets[index], tokens[index]
        elif move == "rollback":
            n = int(rng.integers(0, min(2 * KEPT_STEPS, tokens.shape[1]) + 1))
            query.rollback(n)
            tokens = tokens[:, : tokens.shape[1] - n]
        elif move == "fork":
            query = query.fork()
        elif move == "ahead":
            query.validate(rng.integers(0, query.vocab_size, (BATCH, 3)).tolist())
            query.forced(2)
        elif not query.remaining.any() or tokens.shape[1] > 2 * HORIZON:
            query.start(BATCH, HORIZON)
            tokens = tokens[:, :0]
        else:
            mask = query.mask()
            mask[~mask.any(1)] = True
            drawn = torch.from_numpy(np.array([rng.choice(row.nonzero()[0]) for row in mask.numpy()]))
            moving = torch.from_numpy(rng.random(BATCH) < (0.6 if move == "wait" else 2)) & (
                query.remaining > 0
            )
            query.advance_some(drawn, moving)
            tokens = np.column_stack([tokens, drawn.masked_fill(~moving, -1).numpy()])
        yield query, tokens, budgets


def equals_replaying(query, tokens, budgets):
    again = query.fork()
    again.resume(torch.from_numpy(tokens), torch.from_numpy(budgets))
    assert torch.equal(again.remaining, query.remaining)
    assert torch.equal(again.mask(), query.mask())
    torch.testing.assert_close(again.log_weights(), query.log_weights())


def resident():
    """The memory of this process in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def gained(query, steps, checks):
    """Objects and MiB gained after the first tenth of a walk."""
    rng, found = np.random.default_rng(0), []
    for step, now in enumerate(walk(query, rng, steps)):
        if step % (steps // checks) == 0:
            equals_replaying(*now)
        if step in (steps // 10, steps - 1):
            gc.collect()
            found.append((len(gc.get_objects()), resident()))
    return tuple(b - a for a, b in zip(*found, strict=True))


NAMES = [
    "gcd", "lcd", "real", "pgcd", "pgcd in fixed shapes", "pgcd, a mask and a guide", "pgcd, to a tolerance",
]  # fmt: skip


def made(name):
    kinds = {kind.name: kind for kind in games.KINDS}
    return kinds[name].make(small()) if name in kinds else dict(compiled())[name]


@pytest.mark.long
@pytest.mark.parametrize("name", [*NAMES, "gcd of an object", "gcd of parts"])
def test_a_long_walk_is_replaying_and_keeps_nothing(name):
    objects, _ = gained(made(name), 600, 12)
    assert objects < 1000


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, "gcd of an object", "gcd of parts"])
def test_a_million_steps_keep_nothing(name, capsys):
    objects, mib = gained(made(name), 1_000_000, 200)
    with capsys.disabled():
        print(f"\n{name}: {objects:+,} objects, {mib:+.1f} MiB after the first 100,000 of 1,000,000 steps")
    assert mib < 32
