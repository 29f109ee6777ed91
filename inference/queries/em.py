"""Learning by EM, for any model.

The E-step computes expected counts: of an HMM by the forward-backward pass of :mod:`.baum_welch`, of other models by
derivatives (:mod:`.counts`). The M-step normalises the counts of each row block (see :mod:`tractile.circuits.parameters`);
input layers have M-steps of their own. A step of size η blends: θ ← (1 − η) θ + η · maximiser. With η = 1 on all data no
step lowers the likelihood (Dempster, Laird & Rubin 1977); with η < 1 on mini-batches this is stochastic EM (Cappé & Moulines
2009).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeGuard, TypeVar

import torch
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from torch import Tensor

from ...argument_checks import not_negative, short, whole, whole_numbers
from ...circuits.chain import Chain
from ...circuits.circuit import Circuit
from ...circuits.hmm import HMM
from ...circuits.parameters import blocks, replace
from ...errors import CircuitError, EvidenceError
from ...layers import Categorical, Dense, Monarch
from ...layers.functorch_utils import is_plain
from ...layers.input import normalised_counts
from .baum_welch import hmm_counts
from .counts import Counts, counts_by_derivatives
from .evidence import EvidenceLike, holds_weights
from .exact import at_least_single
from .marginal import prepare

Model = TypeVar("Model", Chain, Circuit)


class Fit(NamedTuple, Generic[Model]):
    """A fitted model and, for each epoch, the mean log-likelihood of a row in nats, measured before each update.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> coin = tt.HMM([1.0], [[1.0]], [[0.5, 0.5]])
    >>> fit = tt.inference.em(coin, torch.tensor([[1, 1, 0]]))
    >>> fit.model.emission_probs
    tensor([[0.3333, 0.6667]])
    >>> [round(value, 4) for value in fit.log_likelihoods]
    [-2.0794, -1.9095, -1.9095]
    """

    model: Model
    log_likelihoods: list[float]


def expected_counts(
    model: Chain | Circuit,
    evidence: EvidenceLike,
    lengths: Int[Tensor, " batch"] | None = None,
    checkpoint: int | None = None,
) -> Counts:
    """Compute the expected number of uses of every parameter given the evidence, summed over rows: the E-step of EM.

    ``lengths`` and ``checkpoint`` are as in :func:`~tractile.log_marginal`. Raises :class:`EvidenceError` if a row has
    probability zero, :class:`CircuitError` if a parameter requires a derivative, which counts do not have.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> counts = tt.inference.expected_counts(hmm, torch.tensor([[1, 1]]))
    >>> counts.of(hmm.initial_probs)  # p(z_1 | 1, 1)
    tensor([0.8834, 0.1166])
    >>> counts.of(hmm.emission_probs)  # two tokens 1, shared by the states
    tensor([[0.0000, 1.7667],
            [0.0000, 0.2333]])
    """
    if torch.is_grad_enabled() and any(t.requires_grad for t in model.parameters()):
        raise CircuitError(
            "expected_counts: counts have no derivative by the parameters, and some of these require one; ask under "
            "torch.no_grad(), or of model.map(torch.Tensor.detach)"
        )
    return _counts(model, evidence, lengths, checkpoint)


def _counts(
    model: Chain | Circuit,
    evidence: EvidenceLike,
    lengths: Int[Tensor, " batch"] | None,
    checkpoint: int | None,
) -> Counts:
    with torch.no_grad():
        if lengths is None and checkpoint is None and _is_baum_welch(model, evidence):
            return _of_hmm(model, evidence)
    return counts_by_derivatives(model, evidence, lengths, checkpoint)


def _of_hmm(hmm: HMM, tokens: Tensor) -> Counts:
    """Return the counts of an HMM's parameters, divided by the parameters as derivatives are, by forward-backward on arrays."""
    prepare(hmm, tokens, None)  # checks the tokens
    wide = at_least_single(hmm)
    found = hmm_counts(wide.initial_probs, wide.transition, wide.emission_probs, tokens.long().to(hmm.device))
    weights = [hmm.initial_probs, *hmm.transition.parameters(), hmm.emission_probs]
    derivatives: dict[int, Tensor] = {}
    for weight, count in zip(weights, [found.initial, *found.transition, found.emission], strict=True):
        derivative = torch.where(weight > 0, count / weight, 0)
        if not bool(derivative.amax() < torch.inf):  # a weight below the normal range
            derivative = torch.where(weight > 0, count.double() / weight.double(), 0)
        derivatives[id(weight)] = derivatives.get(id(weight), 0) + derivative  # tied weights add up
    derivatives[id(hmm.emission_probs)] = derivatives[id(hmm.emission_probs)] + found.unobserved[:, None]
    parts = blocks(hmm)
    by_part = [tuple(derivatives[id(t)] for t in part.tensors) for part in parts]
    return Counts(parts, by_part, found.log_likelihood)


def _is_baum_welch(model: Chain | Circuit, evidence: EvidenceLike) -> TypeGuard[HMM]:
    """Return whether the forward-backward pass on arrays applies: tokens under an HMM, dense or Monarch."""
    if not isinstance(model, HMM) or not isinstance(model.inputs, Categorical):
        return False
    if (
        not isinstance(evidence, Tensor)
        or holds_weights(evidence)
        or evidence.ndim != 2
        or not evidence.numel()
    ):
        return False
    transition = model.transition
    known = isinstance(transition, Dense) or (isinstance(transition, Monarch) and not transition.transposed)
    return known and is_plain([evidence, *model.parameters()])


def em_step(
    model: Model,
    evidence: EvidenceLike,
    *,
    step: float = 1.0,
    pseudocount: float = 0.0,
    lengths: Int[Tensor, " batch"] | None = None,
    checkpoint: int | None = None,
) -> tuple[Model, Float[Tensor, ""]]:
    """Take one EM step; return the new model and the log-likelihood of the evidence under the old one, in nats.

    ``step`` is η: 1 sets the maximiser, less blends it with the old weights. ``pseudocount`` is added to the count of every
    weight that is not zero (a weight that is zero stays zero). Raises :class:`CircuitError` if there is no closed-form step
    (embeddings, products of layers, a chain with final weights), :class:`EvidenceError` if a row has probability zero or a
    number is out of its range.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> coin = tt.HMM([1.0], [[1.0]], [[0.5, 0.5]])
    >>> better, log_likelihood = tt.inference.em_step(coin, torch.tensor([[1, 1, 0]]))
    >>> better.emission_probs
    tensor([[0.3333, 0.6667]])
    >>> half, _ = tt.inference.em_step(coin, torch.tensor([[1, 1, 0]]), step=0.5)
    >>> half.emission_probs
    tensor([[0.4167, 0.5833]])
    """
    pseudocount, step = _finite(pseudocount, "pseudocount"), _share(step)
    if isinstance(model, Chain) and not all(bool((v == 1).all()) for v in model.final):
        raise CircuitError(
            "em: a chain whose final weights are not ones is not normalised; learn it by gradients"
        )
    counts = _counts(model, evidence, lengths, checkpoint)
    new: dict[int, Tensor] = {}
    for block, derivatives in zip(counts.blocks, counts.derivatives, strict=True):
        if block.layer is not None:
            fitted = block.layer.maximise(derivatives, pseudocount)
        else:
            weights = block.join([t.detach() for t in block.tensors])
            fitted = block.split(normalised_counts(weights, block.join(derivatives), pseudocount))
        for old, better in zip(block.tensors, fitted, strict=True):
            better = better.detach().to(old.dtype)
            new[id(old)] = better if step == 1 else torch.lerp(old.detach(), better, step)
    return replace(model, new), counts.log_likelihood


def em(
    model: Model,
    data: Tensor | ArrayLike,
    *,
    epochs: int = 50,
    batch_size: int | None = None,
    step: float | Callable[[int], float] = 1.0,
    pseudocount: float = 0.0,
    tolerance: float = 1e-6,
    seed: int = 0,
    lengths: Int[Tensor, " rows"] | None = None,
    checkpoint: int | None = None,
) -> Fit[Model]:
    """Fit a model by EM: with one step on all data in each epoch, or one for each shuffled batch of ``batch_size`` rows.

    ``data`` is batch first: values (rows, n) or weights (rows, n, vocab), a tensor, an array or nested lists. ``step`` is η,
    or a function from the number of steps done to η (stochastic EM: ``lambda t: (t + 2) ** -0.6``). Without ``batch_size``, EM
    stops once an epoch changes the log-likelihood by less than ``tolerance`` nats a row (with a ``pseudocount`` it may fall).
    ``pseudocount`` is as in :func:`~tractile.inference.em_step`, ``lengths`` and ``checkpoint`` as in
    :func:`~tractile.log_marginal`.

    Raises :class:`EvidenceError` for data without rows, or a number out of its range; otherwise as
    :func:`~tractile.inference.em_step`.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> random = tt.circuits.builders.RandomParameters(seed=0)
    >>> start = tt.circuits.builders.cp([random.bernoulli()(v, 2) for v in range(3)], random.rows(2))
    >>> data = torch.tensor([[0, 0, 0], [1, 1, 1]]).repeat(50, 1)
    >>> fit = tt.inference.em(start, data, epochs=30)
    >>> round(fit.log_likelihoods[0], 2), round(fit.log_likelihoods[-1], 2)  # nats a row; the best is log ½ = −0.69
    (-2.57, -0.69)
    """
    data = _rows(model, data)
    epochs = whole(epochs, "em: epochs", 0)
    if not isinstance(tolerance, int | float) or math.isnan(tolerance):  # below zero: all epochs
        raise EvidenceError(f"em: tolerance must be a number, not {short(tolerance)}")
    batch_size = None if batch_size is None else whole(batch_size, "em: batch_size")
    lengths = None if lengths is None else whole_numbers(lengths, "em: lengths")
    if lengths is not None and lengths.shape != (len(data),):
        raise EvidenceError(
            f"em: lengths of shape {tuple(lengths.shape)} for {len(data)} rows; give one for each"
        )
    generator, done = torch.Generator().manual_seed(whole(seed, "em: seed", None)), 0
    log_likelihoods: list[float] = []
    for _ in range(epochs):
        total = 0.0
        order = torch.randperm(len(data), generator=generator).to(data.device)
        for rows in [slice(None)] if batch_size is None else order.split(batch_size):
            size = step(done) if callable(step) else step
            some = None if lengths is None else lengths[rows]
            model, log_likelihood = em_step(
                model, data[rows], step=size, pseudocount=pseudocount, lengths=some, checkpoint=checkpoint
            )
            total, done = total + float(log_likelihood), done + 1
        log_likelihoods.append(total / len(data))
        if batch_size is None and len(log_likelihoods) > 1:
            gain = log_likelihoods[-1] - log_likelihoods[-2]
            if abs(gain) < tolerance:
                break
    return Fit(model, log_likelihoods)


def _rows(model: Chain | Circuit, data: Any) -> Tensor:
    """Return data, batch first, as a tensor. Raises :class:`EvidenceError` for anything else."""
    try:
        rows = data if isinstance(data, Tensor) else torch.as_tensor(data)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise EvidenceError(
            f"em: data is a tensor of rows, not {short(data)}; rows must be equally long"
        ) from None
    sizes = list(model.vocab_sizes().values()) if isinstance(model, Circuit) else [model.vocab_size]
    wanted = 3 if holds_weights(rows) and all(sizes) else 2
    if rows.ndim != wanted or not rows.numel():
        what = "(rows, variables, values) of weights" if wanted == 3 else "(rows, variables)"
        raise EvidenceError(
            f"em: data is batch first, {what}, with at least one row, not of shape {tuple(rows.shape)}; "
            "give data[None] for a single row"
        )
    return rows


def _finite(value: Any, name: str) -> float:
    number = not_negative(value, f"em: {name}")
    if number == math.inf:
        raise EvidenceError(f"em: {name} must be finite")
    return number


def _share(step: Any) -> float:
    number = not_negative(step, "em: step")
    if number > 1:
        raise EvidenceError(f"em: step must be between 0 and 1, not {short(step)}")
    return number
