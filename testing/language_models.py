"""What a language model promises: each row says what it would say alone, however the rows are copied, dropped and reordered."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..lm.base import Forking, LanguageModel, Prompt
from .comparison import promise, same

Row = tuple[int, tuple[int, ...]]
"""The number of a row's prompt, and the tokens after it."""
MOVES = (None, [0, 0, -1], None, [2, 1, 1, 0], None, [0, 1, 0], None, [1, 0], None)
"""Rows that are selected between two tokens; −1 is the last."""


def check_language_model(
    lm: LanguageModel,
    prompts: Sequence[Prompt] = ([],),
    *,
    normalised: bool = True,
    tolerance: float = 1e-4,
    seed: int = 0,
) -> None:
    """Check that a language model keeps to the protocol :class:`tractile.lm.LanguageModel`.

    Rows grow by random tokens, wait for each other (−1), and are selected in any order. The table of each step is compared with
    what the model says when the tokens of a row are read alone.

    Parameters
    ----------
    lm
        The model. Its rows are forgotten.
    prompts
        Where rows begin, as text or as token ids; more than one shows more.
    normalised
        Whether the probabilities of a row sum to one. Products of models (:class:`tractile.lm.ProductLM`) do not promise it.
    tolerance
        The largest difference of two log-probabilities (nats) that should be equal.
    seed
        The seed of the tokens.

    Raises
    ------
    AssertionError
        If a promise is broken; it says which.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.testing import check_language_model
    >>> check_language_model(tt.CircuitLM(tt.HMM.random(3, 4, seed=0), eos_token_id=2), [[], [0, 1]])
    """
    rows: list[Row] = [(number, ()) for number in range(len(prompts))]
    seen: dict[Row, Tensor] = {}
    lm.start(list(prompts))
    for turn, chosen in enumerate(MOVES):
        if chosen is not None:
            chosen = [index % len(rows) for index in chosen]
            lm.select(torch.tensor(chosen))
            rows = [rows[index] for index in chosen]
        table = lm.log_probs()
        _check_table(lm, table, rows, normalised)
        seen |= zip(rows, table.clone(), strict=True)
        copy = lm.fork() if isinstance(lm, Forking) else None
        tokens = _drawn(table, torch.Generator().manual_seed(seed + turn))
        if turn % 3 == 2:
            tokens[turn % len(rows)] = -1  # this row waits
        if turn == 4 and lm.eos_token_id is not None:
            tokens[0] = lm.eos_token_id
        lm.advance(tokens)
        if copy is not None:
            same(copy.log_probs(), table, "a fork has rows of its own", 0.0)
        rows = [
            (number, read if token < 0 else (*read, token))
            for (number, read), token in zip(rows, tokens.tolist(), strict=True)
        ]
    seen |= zip(rows, lm.log_probs().clone(), strict=True)
    for _, read in rows:
        promise(isinstance(lm.decode(list(read)), str), "decode() returns a text")
    for number, read in sorted(seen, key=lambda row: -len(row[1])):
        if (number, read) in seen:
            _check_alone(lm, prompts[number], number, read, seen, tolerance)


def _check_alone(
    lm: LanguageModel,
    prompt: Prompt,
    number: int,
    read: tuple[int, ...],
    seen: dict[Row, Tensor],
    tolerance: float,
) -> None:
    """Read a row's tokens alone, and compare with what was seen of it on the way, which is dropped."""
    lm.start([prompt])
    for length in range(len(read) + 1):
        expected = seen.pop((number, read[:length]), None)
        if expected is not None:
            said = f"a row says what it says alone (prompt {number}, tokens {list(read[:length])})"
            same(expected[None], lm.log_probs(), said, tolerance)
        if length < len(read):
            lm.advance(torch.tensor([read[length]]))


def _drawn(table: Tensor, generator: torch.Generator) -> Tensor:
    """Draw a token of each row from a table of log-weights."""
    return torch.multinomial(table.double().cpu().softmax(1), 1, generator=generator)[:, 0]


def _check_table(lm: LanguageModel, table: Tensor, rows: Sequence[Row], normalised: bool) -> None:
    """Check log-probabilities (rows, V): shape, no NaN or +∞, certain after the end; with ``normalised`` that rows sum to one."""
    promise(
        table.shape == (len(rows), lm.vocab_size),
        f"log_probs() has a row for each row and a column for each token: {tuple(table.shape)}, "
        f"not {(len(rows), lm.vocab_size)}",
    )
    promise(not bool((table.isnan() | table.isposinf()).any()), "no log-probability is NaN or +∞")
    if normalised:
        total = table.double().exp().sum(1)
        same(total, torch.ones_like(total), "the probabilities of a row sum to one", 1e-4)
    for row, (_, read) in enumerate(rows):
        if lm.eos_token_id is not None and lm.eos_token_id in read:
            certain = torch.full((lm.vocab_size,), -torch.inf)
            certain[lm.eos_token_id] = 0.0
            same(table[row], certain, "after the end of a sequence its token is certain", 0.0)
