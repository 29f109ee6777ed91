"""Grow trained HMMs: initialise a larger HMM from one or two smaller ones.

Splitting: state s becomes copies (s, c) with the same emissions; the probability of s is divided among them at random,

    A'[(s, c), (s', c')] = A[s, s'] · w[(s, c), (s', c')],     Σ_c' w[(s, c), (s', c')] = 1.

The distribution over texts is unchanged for any shares; EM then differentiates the copies.

Product of two HMMs: states (i, j) move by the Kronecker product of the transitions, a Monarch matrix, and emit as if i and j were
independent given the token, p(x | i, j) ∝ p_a(x | i) p_b(x | j) / p_b(x) (Zhang et al. 2025 begin so).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..circuits.hmm import HMM
from ..errors import CircuitError, ShapeError
from ..fingerprints import check_vocabularies
from ..inference.queries.states import smooth
from ..layers import Dense, Monarch
from .start import has_end_state

HORIZON = 64  # tokens over which states are weighed


def split(hmm: HMM, hidden: int, seed: int = 0) -> HMM:
    """Split the states of an HMM in proportion to their use; the distribution over texts is unchanged.

    Absorbing states of a dense HMM, such as the end, are not split. A Monarch HMM grows along its first axis: every state is
    split, into the same number of copies, so ``hidden`` must be a multiple of its size. Raises :class:`ShapeError` if ``hidden``
    does not fit.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.distill import split
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> grown = split(hmm, hidden=5)
    >>> grown.hidden
    5
    >>> tt.log_marginal(hmm, torch.tensor([[1, 1, 0]])).exp(), tt.log_marginal(grown, torch.tensor([[1, 1, 0]])).exp()
    (tensor([0.1204], dtype=torch.float64), tensor([0.1204], dtype=torch.float64))
    """
    generator = torch.Generator().manual_seed(seed)
    if isinstance(hmm.transition, Monarch):
        return _split_monarch(hmm, hidden, generator)
    weight = _matrix(hmm)
    stays = weight.diagonal() == 1
    if hidden < hmm.hidden or bool(stays.all()):
        raise ShapeError(f"split: {hmm.hidden} states cannot be split into {hidden}")
    share = occupancy(hmm).masked_fill(stays, 0)
    extra = (hidden - hmm.hidden) * share / share.sum()
    copies = 1 + extra.floor().long()
    rest = (extra - extra.floor()).argsort(descending=True)[: hidden - int(copies.sum())]
    copies[rest] += 1
    old = torch.repeat_interleave(torch.arange(hmm.hidden), copies)

    def shares(rows: int) -> Tensor:
        drawn = torch.empty(rows, hidden, dtype=weight.dtype).exponential_(generator=generator)
        groups = torch.zeros(rows, hmm.hidden, dtype=weight.dtype).index_add_(1, old, drawn)
        return drawn / groups[:, old]

    transition = weight[old][:, old] * shares(hidden)
    initial = hmm.initial_probs[old] * shares(1)[0]
    grown = HMM(_rows(initial), Dense(_rows(transition)), hmm.emission_probs[old])
    return grown.for_vocabulary(hmm.vocabulary_fingerprint)


def kronecker(a: HMM, b: HMM) -> HMM:
    """Combine two dense HMMs into the Monarch HMM of their product, with H_a · H_b states.

    If all states of ``b`` have equal emissions, the result has ``a``'s distribution. If the last state of both is an end state,
    the product ends when ``b`` does. Raises :class:`CircuitError` for HMMs that are not dense and :class:`VocabularyMismatch`.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.distill import kronecker
    >>> a, b = tt.HMM.random(hidden=3, vocab_size=10, seed=0), tt.HMM.random(hidden=4, vocab_size=10, seed=1)
    >>> product = kronecker(a, b)
    >>> product.transition
    Monarch(12, 12)
    >>> sum(p.numel() for p in product.transition.parameters())  # 12 · (3 + 4), where a dense matrix has 144
    84
    """
    check_vocabularies("kronecker: the first HMM", a, "the second", b)
    left, right = _matrix(a), _matrix(b)
    sizes = (a.hidden, b.hidden)
    second = right.expand(a.hidden, -1, -1).clone()  # i, j → j'
    first = left[:, None, :].expand(-1, b.hidden, -1).clone()  # i, j' → i'
    initial = torch.outer(a.initial_probs, b.initial_probs)
    marginal = occupancy(b) @ b.emission_probs
    lift = torch.where(marginal > 0, b.emission_probs / marginal.clamp(min=1e-30), 0.0)
    emission = a.emission_probs[:, None] * lift
    # A pair of states without a common token gets the emissions of the less certain of the two.
    certain_a, certain_b = (x.emission_probs.max(1).values for x in (a, b))
    one = torch.where(
        (certain_a[:, None] > certain_b)[:, :, None], b.emission_probs, a.emission_probs[:, None]
    )
    emission = torch.where(emission.sum(2, keepdim=True) > 0, emission, one)
    eos = int(b.emission_probs[-1].argmax())
    if has_end_state(a, eos) and has_end_state(b, eos):
        first[:, -1] = 0
        first[:, -1, -1] = 1
        first[:, :-1, -1] = 0
        first[-1, :-1, :-1] = 1
        initial[-1, :-1] = initial[:-1, -1] = 0
    operator = Monarch([_rows(second), _rows(first)], axes=(1, 0))
    assert operator.dims == sizes
    hmm = HMM(_rows(initial.flatten()), operator, _rows(emission.flatten(0, 1)))
    return hmm.for_vocabulary(a.vocabulary_fingerprint or b.vocabulary_fingerprint)


def occupancy(hmm: HMM) -> Tensor:
    """Compute the share of the first ``HORIZON`` tokens that each state emits; absorbing states count after the text's end."""
    return smooth(hmm, n=HORIZON)[0].exp().mean(0).to(hmm.initial_probs)


def _split_monarch(hmm: HMM, hidden: int, generator: torch.Generator) -> HMM:
    assert isinstance(hmm.transition, Monarch)
    dims, copies = hmm.transition.dims, hidden // hmm.hidden
    if hidden % hmm.hidden or copies < 1:
        raise ShapeError(f"split: a Monarch HMM of {hmm.hidden} states grows to a multiple, not to {hidden}")

    def shared(weight: Tensor) -> Tensor:
        """Divide the last axis among copies at random; a probability of one goes to the last copy."""
        drawn = torch.empty(*weight.shape, copies, dtype=weight.dtype).exponential_(generator=generator)
        last = torch.zeros(copies, dtype=weight.dtype)
        last[-1] = 1
        part = torch.where((weight == 1)[..., None], last, drawn / drawn.sum(-1, keepdim=True))
        return (weight[..., None] * part).flatten(-2)

    weights = []
    for weight, axis in zip(hmm.transition.weights, hmm.transition.axes, strict=True):
        wide = weight.repeat_interleave(copies, 0)
        weights.append(_rows(shared(wide)) if axis == 0 else wide)
    initial = shared(hmm.initial_probs.view(dims).movedim(0, -1)).movedim(-1, 0)
    emission = hmm.emission_probs.view(*dims, -1).repeat_interleave(copies, 0)
    operator = Monarch(weights, hmm.transition.axes)
    grown = HMM(_rows(initial.flatten()), operator, emission.flatten(0, -2))
    return grown.for_vocabulary(hmm.vocabulary_fingerprint)


def _matrix(hmm: HMM) -> Tensor:
    if not isinstance(hmm.transition, Dense):
        raise CircuitError(f"the transition must be dense here, not {hmm.transition!r}")
    return hmm.transition.parameters()[0]


def _rows(weight: Tensor) -> Tensor:
    return weight / weight.sum(-1, keepdim=True)
