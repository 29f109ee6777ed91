"""``validate`` and ``forced`` of a next-token query: how many drafted tokens are allowed, and which tokens must come.

The functions below work for any query: they advance a fork of it token by token. :mod:`~.gcd` has faster ones of its own.
"""

from __future__ import annotations

from operator import index

import torch
from jaxtyping import Int
from torch import Tensor

from ...errors import ShapeError
from ..arguments import short, whole
from .protocol import Drafts, NextTokenQuery

FORCED_LIMIT = 256  # tokens per row that `forced` lists at most by default


def draft_lists(tokens: Drafts, rows: int) -> list[list[int]]:
    """Return each row's draft as a list; raise :class:`ShapeError` unless there is one id sequence per row."""
    try:
        drafts = [[*map(index, row)] for row in (tokens.tolist() if isinstance(tokens, Tensor) else tokens)]
    except TypeError:
        drafts = []
    if len(drafts) != rows:
        raise ShapeError(
            f"validate: takes a sequence of token ids for each of {rows} rows, not {short(tokens)}"
        )
    return drafts


def validate(query: NextTokenQuery, tokens: Drafts) -> Int[Tensor, " batch"]:
    """Implement :meth:`NextTokenQuery.validate` token by token on a fork."""
    drafts = draft_lists(tokens, len(query.remaining))
    trial, length = query.fork(), max(map(len, drafts), default=0)
    table = torch.tensor([row + [-1] * (length - len(row)) for row in drafts], dtype=torch.long)
    table = table.reshape(len(drafts), length)
    valid = torch.zeros(len(drafts), dtype=torch.long)
    going = torch.ones(len(drafts), dtype=torch.bool)
    for column in table.T:
        going = going & (column >= 0) & (column < query.vocab_size)
        column = column.masked_fill(~going, 0)
        going &= trial.mask().cpu().gather(1, column[:, None])[:, 0]
        if not bool(going.any()):
            break
        valid += going
        trial.advance_some(column, going)
    return valid


def forced(query: NextTokenQuery, limit: int = FORCED_LIMIT) -> list[list[int]]:
    """Implement :meth:`NextTokenQuery.forced` token by token on a fork."""
    limit, trial = whole(limit, "forced: limit", 0), query.fork()
    found: list[list[int]] = [[] for _ in query.remaining]
    eos = None if query.automaton is None else query.automaton.eos_token_id
    going = torch.ones(len(found), dtype=torch.bool)
    for _ in range(limit):
        mask = trial.mask().cpu()
        tokens = mask.int().argmax(1)
        going &= mask.sum(1) == 1
        if eos is not None:
            going &= (tokens != eos) | trial.ended().isneginf().cpu()
        if not bool(going.any()):
            break
        for row in going.nonzero()[:, 0].tolist():
            found[row].append(int(tokens[row]))
        trial.advance_some(tokens, going)
    return found
