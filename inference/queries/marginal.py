"""Queries whose answer is one number for each row of evidence: the root of one contraction, in some semiring.

    log_marginal   log Σ_x p(x) w(x)          real         w: the evidence
    partition      log Σ_x p(x)               real
    support        is any x possible?         Boolean

A *model* is a circuit or a chain, whose length is given by ``n`` or by evidence of shape (batch, n). Everything is in nats and
batch first. Evidence is described in :mod:`tractile.inference.queries.evidence`. Tables over values are in
:mod:`tractile.inference.queries.conditional`, samples and most probable explanations in
:mod:`tractile.inference.queries.sample_mpe`, information quantities in :mod:`tractile.inference.queries.information`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...argument_checks import whole, whole_numbers
from ...circuits.circuit import Circuit
from ...circuits.hmm import answers_log_prob
from ...errors import CircuitError, EvidenceError
from ...layers.functorch_utils import any_if_concrete
from ..engine import passes
from ..engine.filter import Filter
from ..engine.folding import folded
from ..semirings.base import Semiring
from ..semirings.linear import Boolean
from .evidence import Evidence, EvidenceLike, as_evidence, holds_weights, in_rows
from .exact import Model, Rows, at_least_single, within_range

Lengths = Int[Tensor, " batch"] | None
_SEQUENCES = (Tensor, Sequence)  # a tuple, since torch.compile reads no union before torch 2.7


def prepare(model: Model, evidence: EvidenceLike, n: int | None) -> tuple[Evidence, list[int]]:
    """Return the evidence converted for the model's variables, and these variables in order."""
    evidence = in_rows(evidence)
    if isinstance(model, Circuit):
        known = folded(model)
        dims = known.plan.groups[-1].dims
        if set(dims) - {1}:
            raise CircuitError(f"the root (node {model.root}) has units {dims}; a query needs one")
        return as_evidence(evidence, known.vocab_sizes, known.device), list(known.vocab_sizes)
    if (n := _length(n)) is None:
        if not isinstance(evidence, _SEQUENCES) or (isinstance(evidence, Tensor) and not evidence.ndim):
            raise EvidenceError("a chain has no length of its own: give n, or evidence for each position")
        if isinstance(evidence, Tensor):
            n = evidence.shape[-2 if holds_weights(evidence) and model.vocab_size else -1]
        else:
            n = len(evidence)
    sizes = dict.fromkeys(range(n), model.vocab_size)
    return as_evidence(evidence, sizes, model.device), list(sizes)


def _length(n: int | None) -> int | None:
    """Return the length of a chain, checked; None if the evidence has to give it."""
    return None if n is None else whole(n, "n, the length of a chain,", 0)


def log_root(
    model: Model,
    semiring: Semiring[Any],
    evidence: Evidence,
    n: int,
    lengths: Lengths,
    checkpoint: int | None = None,
) -> Tensor:
    """Return the log of the root for each row (for Counting: of the count)."""
    return semiring.log(root(model, semiring, evidence, n, lengths, checkpoint)).expand(evidence.batch)


def root(
    model: Model,
    semiring: Semiring[Any],
    evidence: Evidence,
    n: int,
    lengths: Lengths,
    checkpoint: int | None = None,
) -> Any:
    """Return the root's semiring value for each row: (batch,), or (1,) if a circuit has no evidence."""
    model = at_least_single(model)
    if isinstance(model, Circuit):
        if lengths is not None:
            raise EvidenceError("lengths are for chains; a circuit has a fixed set of variables")
        value = passes.upward(model, semiring, evidence, checkpoint)[model.root]
        return semiring.merge(value, 0, semiring.ndim(value))
    if lengths is None:
        ((_, value),) = Filter(model, semiring).roots(evidence, [n], checkpoint)
        return value
    check_lengths(lengths, evidence.batch, n)
    lengths = lengths.to(evidence.device)
    if not evidence.batch:
        return semiring.lift(torch.ones(0, device=evidence.device), batched=True)
    rows = torch.arange(evidence.batch, device=lengths.device)
    roots: list[Any] = []
    position = torch.zeros_like(lengths)
    for t, value in Filter(model, semiring).roots(evidence, set(lengths.tolist()), checkpoint):
        position[lengths == t] = len(roots)
        roots.append(value)
    return semiring.gather(semiring.cat(roots), position * evidence.batch + rows, 0)


def check_lengths(lengths: Int[Tensor, " batch"], batch: int, n: int) -> None:
    """Raise :class:`EvidenceError` unless there is a length for each row, of at most n."""
    if lengths.shape != (batch,) or any_if_concrete((lengths < 0) | (lengths > n)):
        raise EvidenceError(f"lengths must be of shape ({batch},) with values in 0 … {n}")


@answers_log_prob
def log_marginal(
    model: Model,
    evidence: EvidenceLike = None,
    *,
    n: int | None = None,
    lengths: Lengths = None,
    semiring: Semiring[Any] | None = None,
    checkpoint: int | None = None,
) -> Float[Tensor, " batch"]:
    """Return log Σ_x p(x) w(x), the log-probability of the evidence, in nats (float64, unless a semiring is given).

    ``n`` is the length of a chain, where the evidence does not give it; with ``lengths``, only the first ``lengths[i]`` positions
    of row i count. ``checkpoint`` bounds the memory of derivatives: a chain then keeps its message every ``checkpoint``
    positions (√n is a good number), a circuit the values of its layers, and what lies between is computed a second time.

    Rows that lose something to underflow in scaled arithmetic, because hidden states differ too much in probability, are computed
    again in a wider range.
    Raises :class:`EvidenceError` if the evidence does not fit.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> weather = torch.tensor([[0.7, 0.3], [0.3, 0.7]])  # rain, no rain
    >>> umbrella = torch.tensor([[0.1, 0.9], [0.8, 0.2]])  # P(no umbrella), P(umbrella)
    >>> hmm = tt.HMM(torch.tensor([0.5, 0.5]), weather, umbrella)
    >>> tt.log_marginal(hmm, torch.tensor([[1, 1, 0]])).exp()
    tensor([0.1204], dtype=torch.float64)
    >>> tt.log_marginal(hmm, torch.tensor([[1, -1, 0]])).exp()  # -1: not observed
    tensor([0.2279], dtype=torch.float64)
    """
    if checkpoint is not None:
        whole(checkpoint, "log_marginal: checkpoint", error=CircuitError)
    evidence, variables = prepare(model, evidence, n)
    lengths = None if lengths is None else whole_numbers(lengths, "lengths")
    if semiring is not None:
        return log_root(model, semiring, evidence, len(variables), lengths, checkpoint)

    def compute(model: Model, semiring: Semiring[Any], rows: Rows) -> list[Tensor]:
        known = evidence if rows is None else evidence.repeat(rows)
        some = lengths if lengths is None or rows is None else lengths.to(rows.device)[rows]
        return [log_root(model, semiring, known, len(variables), some, checkpoint)]

    return within_range(model, compute)[0]


def evaluate(
    model: Model,
    semiring: Semiring[Any],
    evidence: EvidenceLike = None,
    *,
    n: int | None = None,
    lengths: Lengths = None,
) -> Any:
    """Return the model's value at the evidence in a semiring: its own data type, with a row of the batch on the last axis.

    For semirings whose values are more than one number, such as the k best weights; :func:`log_marginal` gives the logarithm.
    Arguments and errors are those of :func:`log_marginal`.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.inference import Counting
    >>> ends = tt.Automaton.from_edges([(0, [0, 1], 0), (0, 1, 1), (1, [0, 1], 1)], start=0, accept=[1], vocab_size=2)
    >>> tt.inference.evaluate(ends, Counting(), [[1, 0, 1], [0, 0, 1]])  # the paths of two rows
    tensor([2., 1.], dtype=torch.float64)
    """
    known, variables = prepare(model, evidence, n)
    lengths = None if lengths is None else whole_numbers(lengths, "lengths")
    return root(model, semiring, known, len(variables), lengths)


def partition(
    model: Model, *, n: int | None = None, semiring: Semiring[Any] | None = None
) -> Float[Tensor, ""]:
    """Return log Σ_x p(x), the log partition function, in nats (for a chain: over sequences of length n).

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> coin = tt.HMM(torch.ones(1), torch.ones(1, 1), torch.full((1, 2), 0.5))
    >>> round(tt.partition(coin * one, n=3).exp().item(), 4)  # P(exactly one 1 in three throws) = ⅜
    0.375
    """
    return log_marginal(model, None, n=n, semiring=semiring)[0]


def support(
    model: Model, evidence: EvidenceLike = None, *, n: int | None = None, lengths: Lengths = None
) -> Bool[Tensor, " batch"]:
    """Return for each row whether a completion of the evidence has weight > 0; ``n``, ``lengths``: see :func:`.log_marginal`.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> tt.support(one, torch.tensor([[0, 1, 0], [1, 1, 0]]))
    tensor([ True, False])
    """
    evidence, variables = prepare(model, evidence, n)
    return log_root(model, Boolean(), evidence, len(variables), lengths) == 0


def vocab_size(model: Model, variable: int) -> int:
    """Return the number of values of a variable; 0 if it is continuous."""
    return folded(model).vocab_sizes[variable] if isinstance(model, Circuit) else model.vocab_size


def log_weights(evidence: Evidence, variable: int, vocab_size: int) -> Float[Tensor, "batch vocab"]:
    """Return the logarithm of a variable's evidence weights, (batch or 1, V); zeros if it is marginalised."""
    if variable in evidence.weights:
        return evidence.weights[variable].T.log()
    if variable in evidence.tokens:
        tokens = evidence.tokens[variable][:, None]
        values = torch.arange(vocab_size, device=tokens.device)
        return ((values == tokens) | (tokens < 0)).double().log()
    return torch.zeros(1, vocab_size, device=evidence.device)
