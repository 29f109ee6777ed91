"""Sampling for many prompts in the processes of a distributed job: one language model per device, one exchange at the end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from ...errors import TractileError
from ...lm.base import LanguageModel, Prompt
from .arguments import ConstraintLike, broadcast
from .posterior import Posterior
from .sampler import smc


def smc_on_ranks(
    lm: LanguageModel | Any,
    prompts: Sequence[Prompt],
    fa: ConstraintLike | Sequence[ConstraintLike | None] | None,
    *,
    max_new_tokens: int | Sequence[int] = 64,
    seed: int = 0,
    **settings: Any,
) -> list[Posterior]:
    """Run :func:`smc` for many prompts under ``torchrun`` or ``accelerate launch``: rank r of w takes prompts r, r + w, ….

    Every rank calls it with the same arguments but its own ``lm``, on its own device, and gets all posteriors, in order. They
    do not depend on the number of ranks if the strength of the proposal is given (:class:`.LookaheadProposal`); each rank runs a
    pilot of its own for a strength that is not. In a single process it is ``smc``. If one rank raises, the others raise
    :class:`TractileError`.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> options = {"max_new_tokens": 2, "seed": 0, "proposal": "gcd", "particles": 4}
    >>> posts = tt.inference.smc.smc_on_ranks(lm, [[], []], second, **options)  # one process
    >>> [round(post.log_evidence, 4) for post in posts]
    [-1.6094, -1.6094]
    """
    if dist.is_available() and not dist.is_initialized() and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        dist.init_process_group("gloo", timeout=timedelta(hours=12))
    joined = dist.is_available() and dist.is_initialized()
    rank, size = (dist.get_rank(), dist.get_world_size()) if joined else (0, 1)
    mine = range(rank, len(prompts), size)
    fas, budgets = (
        broadcast(fa, len(prompts), "fa"),
        broadcast(max_new_tokens, len(prompts), "max_new_tokens"),
    )
    for name in ("hmm", "potential", "align"):
        if isinstance(settings.get(name), Sequence):
            each = broadcast(settings[name], len(prompts), name)
            settings[name] = [each[i] for i in mine]
    found: list[Posterior] | str
    failure = None
    try:
        found = smc(
            lm,
            prompts=[prompts[i] for i in mine],
            fa=[fas[i] for i in mine],
            max_new_tokens=[budgets[i] for i in mine],
            seed=[seed + i for i in mine],
            **settings,
        )
    except Exception as error:
        failure, found = error, f"{type(error).__name__}: {error}"
    everything: list[Any] = [found]
    if size > 1:
        everything = [None] * size
        dist.all_gather_object(everything, found)
    if failure is not None:
        raise failure
    for other, part in enumerate(everything):
        if isinstance(part, str):
            raise TractileError(f"smc_on_ranks: rank {other} raised {part}")
    return [everything[i % size][i // size] for i in range(len(prompts))]
