"""Random HMMs for EM to begin with, and the end state.

The last state, H − 1, is the *end*: it alone emits the end-of-sequence token, emits nothing else, and is never left.
"""

from __future__ import annotations

from math import isqrt

import numpy as np
import torch
from torch import Tensor

from ..circuits.hmm import HMM
from ..errors import ShapeError
from .corpus import Corpus
from .distributed import ALONE, Ranks
from .sharding import ShardedHMM, names_and_cuts, part_size

SPREAD = 1.5
"""Standard deviation of the logarithms of random weights."""


def random_start(corpus: Corpus, hidden: int, transition: str = "dense", seed: int = 0) -> HMM:
    """Draw a random HMM with "dense" or "monarch" transitions, an end state, and emissions near the corpus's token frequencies.

    Raises :class:`ShapeError` for another transition, and for fewer than two states.

    Examples
    --------
    >>> import torch
    >>> from tractile.distill import Corpus, random_start
    >>> corpus = Corpus.of(torch.tensor([[0, 1, 2], [1, 1, 2]]), vocab_size=3, eos_token_id=2)
    >>> hmm = random_start(corpus, hidden=4)
    >>> hmm.emission_probs[-1]  # the last state is the end
    tensor([0., 0., 1.])
    >>> hmm.transition.dense()[-1]
    tensor([0., 0., 0., 1.])
    """
    hmm = random_part(corpus, hidden, transition, seed, ALONE).whole()
    return hmm.for_vocabulary(corpus.vocabulary_fingerprint)


def random_part(corpus: Corpus, hidden: int, transition: str, seed: int, team: Ranks) -> ShardedHMM:
    """Draw one rank's part of the HMM of :func:`random_start`; what the ranks draw does not depend on their number."""
    if transition not in ("dense", "monarch"):
        raise ShapeError(f'transition must be "dense" or "monarch", not {transition!r}')
    small = max(d for d in range(1, isqrt(hidden) + 1) if hidden % d == 0)
    dims = (hidden,) if transition == "dense" else (small, hidden // small)
    axes = None if transition == "dense" else (1, 0)
    first, states = part_size(dims, team)
    vocab_size, eos_token_id = corpus.manifest.vocab_size, corpus.manifest.eos_token_id
    shapes = [
        (states,),
        *((*dims, first) if axis == 0 else (first, *dims[1:], dims[axis]) for axis in axes or (0,)),
    ]
    cuts = names_and_cuts(axes).values()
    initial, *weights, emission = (
        _draw(shape, cut, team.rank, (seed % 2**64, number))
        for number, (shape, cut) in enumerate(zip([*shapes, (states, vocab_size)], cuts, strict=True))
    )
    emission *= torch.bincount(corpus.tokens.flatten(), minlength=vocab_size) + 0.01
    return ShardedHMM(initial, tuple(weights), axes, emission, team).normalised().with_end(eos_token_id)


def _draw(shape: tuple[int, ...], cut: int, rank: int, seed: tuple[int, int]) -> Tensor:
    """Draw log-normal weights: those of each index of the dimension ``cut``, of all ranks, by a seed of its own."""
    found = torch.empty(shape).movedim(cut, 0)
    for i, part in enumerate(found):
        random = np.random.default_rng((*seed, rank * len(found) + i))
        part.copy_(torch.from_numpy(random.standard_normal(part.shape, np.float32)))
    found.mul_(SPREAD).exp_()
    return found.movedim(0, cut)


def with_end_state(hmm: HMM, eos_token_id: int) -> HMM:
    """Make the last state the end state: absorbing, and the only state to emit ``eos_token_id``.

    Raises :class:`ShapeError` for an HMM of one state, which would be the end of every text.
    """
    ended = ShardedHMM.of(hmm).with_end(eos_token_id).whole()
    return ended.for_vocabulary(hmm.vocabulary_fingerprint)


def has_end_state(hmm: HMM, eos_token_id: int) -> bool:
    """Return whether the last state is absorbing and emits the end token with certainty."""
    certain = [weight[(-1,) * weight.ndim] for weight in hmm.transition.parameters()]
    ended = hmm.inputs.columns(torch.tensor([eos_token_id], device=hmm.device))
    return all(float(p) == 1 for p in [*certain, *(column.flatten()[-1] for column in ended)])
