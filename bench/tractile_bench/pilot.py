"""Find the strength of the lookahead for a task; runs of one particle and of several have one each."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from tractile.errors import TractileError
from tractile.inference.smc import LookaheadProposal, Strength, smc
from tractile.inference.smc.query_cache import keeping
from tractile.lm import LanguageModel

from .prepare import HMM_MEMORY, Prepared, split_by_memory

CALIBRATED = 8
"""The number of examples in a pilot."""


def find_strength(
    lm: LanguageModel, prepared: Sequence[Prepared], particles: int, max_new_tokens: int
) -> Strength | None:
    """Find the strength by a pilot on a batch of examples, or on the first single example that runs; None if none does."""
    with keeping(HMM_MEMORY):
        for part in split_by_memory(prepared, max_new_tokens):
            for some in (part, *([one] for one in part)):
                with suppress(TractileError):
                    strength = Strength()
                    smc(
                        lm,
                        prompts=[one.prompt for one in some],
                        fa=[one.fa for one in some],
                        proposal=LookaheadProposal(strength),
                        hmm=[one.hmm for one in some],
                        particles=particles,
                        max_new_tokens=max_new_tokens,
                    )
                    return strength
    return None
