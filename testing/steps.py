"""The input of proposals and potentials: a step after given tokens, with what a query knows of the constraint."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..circuits.automaton import Automaton
from ..circuits.chain import Chain
from ..inference import gcd, lcd, pgcd
from ..inference.next_token.protocol import NextTokenQuery
from ..inference.smc.step import Knowledge, Step
from ..lm.base import LanguageModel

Prefix = Sequence[int]


def query_of(needs: Knowledge, fa: Automaton, hmm: Chain | None, horizon: int) -> NextTokenQuery:
    """Return the query of the knowledge that a proposal or potential needs."""
    if needs is Knowledge.LOCAL:
        return lcd(fa)
    if needs is Knowledge.BUDGET:
        return gcd(fa, horizon)
    if hmm is None:
        raise AssertionError("it needs an HMM: give hmm=")
    return pgcd(hmm, fa, horizon)


def step_after(
    lm: LanguageModel, query: NextTokenQuery, prefixes: list[Prefix], left: int, rows: Tensor | None = None
) -> Step:
    """Return the step after prefixes that model and query have read; row i reads the state ``rows[i]``."""
    rows = torch.arange(len(prefixes)) if rows is None else rows
    states = [torch.tensor(list(prefixes[row]), dtype=torch.long) for row in rows.tolist()]
    return Step(
        lm.log_probs(), query, states, rows, decode=lm.decode, eos_token_id=lm.eos_token_id, last=left == 1
    )
