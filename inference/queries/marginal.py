"""Queries: each is one contraction of a circuit against evidence, in some semiring.

    log_marginal   log Σ_x p(x) w(x)          real         w: the evidence
    partition      log Σ_x p(x)               real
    conditional    log p(x_v | evidence)      real, x_v open
    support        is any x possible?         Boolean
    marginals      … for every variable       real, and its derivative
    count          accepted sequences         counting

A *model* is a circuit or a chain, whose length is given by ``n`` or by evidence of shape (batch, n). Everything is in nats and
batch first. Evidence is described in :mod:`tractile.inference.queries.evidence`. Samples and most probable explanations are in
:mod:`tractile.inference.queries.sample_mpe`, information quantities in :mod:`tractile.inference.queries.information`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise
from math import prod
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...argument_checks import whole, whole_numbers
from ...circuits.automaton import Automaton
from ...circuits.chain import Chain
from ...circuits.circuit import Circuit
from ...errors import CircuitError, EvidenceError
from ...layers import InputLayer
from ...layers.functorch_utils import any_if_concrete
from ...layers.input import Constant
from ...layers.log_product import finite
from ..engine import messages, passes
from ..engine.contract import apply
from ..engine.folding import folded
from ..engine.inputs import open_values
from ..semirings.base import Boolean, Counting, Semiring
from .evidence import Evidence, EvidenceLike, as_evidence, holds_weights
from .exact import Model, Rows, within_range

Lengths = Int[Tensor, " batch"] | None
_SEQUENCES = (Tensor, Sequence)  # a tuple, since torch.compile reads no union before torch 2.7
MARGINAL_ELEMENTS = 1 << 24  # entries of the tables of log-weights computed in one block


def prepare(model: Model, evidence: EvidenceLike, n: int | None) -> tuple[Evidence, list[int]]:
    """Return the evidence converted for the model's variables, and these variables in order."""
    if isinstance(model, Circuit):
        known = folded(model)
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
    if isinstance(model, Circuit):
        if lengths is not None:
            raise EvidenceError("lengths are for chains; a circuit has a fixed set of variables")
        value = passes.upward(model, semiring, evidence, checkpoint)[model.root]
        dims = folded(model).plan.groups[-1].dims
        if len(set(dims) - {1}):
            raise CircuitError(f"the root (node {model.root}) has units {dims}; a query needs one")
        return semiring.merge(value, 0, semiring.ndim(value))
    if lengths is None:
        ((_, value),) = messages.totals(model, semiring, evidence, [n], checkpoint)
        return value
    if lengths.shape != (evidence.batch,) or any_if_concrete((lengths < 0) | (lengths > n)):
        raise EvidenceError(f"lengths must be of shape ({evidence.batch},) with values in 0 … {n}")
    lengths = lengths.to(evidence.device)
    if not evidence.batch:
        return semiring.lift(torch.ones(0, device=evidence.device), batched=True)
    rows = torch.arange(evidence.batch, device=lengths.device)
    roots: list[Any] = []
    position = torch.zeros_like(lengths)
    for t, value in messages.totals(model, semiring, evidence, set(lengths.tolist()), checkpoint):
        position[lengths == t] = len(roots)
        roots.append(value)
    return semiring.gather(semiring.cat(roots), position * evidence.batch + rows, 0)


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
    """Return, for each row, whether any completion of the evidence has positive weight.

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


def count(model: Model, evidence: EvidenceLike = None, *, n: int | None = None, paths: bool = False) -> int:
    """Return the number of accepted sequences; with ``paths``, of (sequence, latent path) pairs.

    The count is exact. An ambiguous automaton is determinised first. Raises :class:`CircuitError` for models other than automata
    without ``paths``, for continuous variables, and for counts from 2^53 on, where floating point stops being exact
    (``log_marginal`` on the automaton gives the logarithm), :class:`EvidenceError` for evidence of several rows.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> [tt.count(one, n=n) for n in range(1, 6)]
    [1, 2, 3, 4, 5]
    """
    if not paths:
        if isinstance(model, Automaton):
            model = model if model.is_unambiguous else model.determinize()
        else:
            raise CircuitError(
                "count: latent states make several paths for one sequence; count an automaton, or give paths=True"
            )
    evidence, variables = prepare(model, evidence, n)
    if evidence.batch > 1:
        raise EvidenceError(f"count: evidence of one row, not of {evidence.batch}")
    if not all(_vocab_size(model, v) for v in variables):
        raise CircuitError("count: the model has continuous variables, whose values cannot be counted")
    total = float(root(model, Counting(), evidence, len(variables), None))
    if total >= 2.0**53:
        raise CircuitError(
            f"count: about {total:.3g} sequences, too many to count exactly; use log_marginal for the logarithm"
        )
    return round(total)


def conditional(
    model: Model, evidence: EvidenceLike = None, variable: int | tuple[int, ...] = 0, *, n: int | None = None
) -> Float[Tensor, "batch *values"]:
    """Return log p(x_v | evidence) in nats for one variable, (batch, V), or several jointly, (batch, V_1, V_2, …).

    Evidence on the query variables is ignored. Raises :class:`EvidenceError` if the evidence has probability zero, or if a
    query variable is unknown or continuous.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> weather = torch.tensor([[0.7, 0.3], [0.3, 0.7]])  # rain, no rain
    >>> umbrella = torch.tensor([[0.1, 0.9], [0.8, 0.2]])  # P(no umbrella), P(umbrella)
    >>> hmm = tt.HMM(torch.tensor([0.5, 0.5]), weather, umbrella)
    >>> tt.conditional(hmm, [1, 1, None], 2).exp()  # the third day, after two umbrellas
    tensor([[0.3427, 0.6573]], dtype=torch.float64)
    """
    evidence, variables = prepare(model, evidence, n)
    asked = (
        tuple(variable) if isinstance(variable, Sequence) else (whole(variable, "conditional: variable", 0),)
    )
    missing = [v for v in asked if v not in variables]
    if missing or not asked or len(set(asked)) != len(asked):
        raise EvidenceError(f"conditional: query variables {asked} must be distinct and among {variables}")
    if not all(_vocab_size(model, v) for v in asked):
        raise EvidenceError(
            f"conditional: among {asked} is a continuous variable, which has no table; sample it, or give it values"
        )

    def compute(model: Model, semiring: Semiring[Any], rows: Rows) -> list[Tensor]:
        known = evidence if rows is None else evidence.repeat(rows)
        return [_joint(model, semiring, known, asked, len(variables))]

    (table,) = within_range(model, compute)
    total = table.flatten(1).logsumexp(1)
    if any_if_concrete(total.isneginf()):
        raise EvidenceError(
            "conditional: the evidence has probability zero, so there is no conditional distribution"
        )
    return table - finite(total).view(-1, *[1] * (table.ndim - 1))


def _joint(
    model: Model, semiring: Semiring[Any], evidence: Evidence, asked: tuple[int, ...], n: int
) -> Tensor:
    """Return log p(x_asked, evidence): (batch, V_1, …)."""
    order = sorted(asked)
    sizes = [_vocab_size(model, v) for v in order]
    if isinstance(model, Circuit):
        rows = evidence
        for v, size in zip(order[:-1], sizes, strict=False):
            rows = _opened(rows, v, size)[0]
        parts = torch.arange(rows.batch, device=rows.device).split(max(1, MARGINAL_ELEMENTS // sizes[-1]))
        some = (passes.open_variable(model, semiring, rows.repeat(part), order[-1]) for part in parts)
        tables = [semiring.log(x).T.expand(len(part), -1) for x, part in zip(some, parts, strict=True)]
        table = torch.cat(tables)
    else:
        table = semiring.log(_open(model, semiring, evidence, order, n)).T
    table = table.expand(evidence.batch * prod(sizes[:-1]), -1).reshape(evidence.batch, *sizes)
    return table.permute(0, *(1 + order.index(v) for v in asked))


def _open(chain: Chain, semiring: Semiring[Any], evidence: Evidence, order: list[int], n: int) -> Any:
    """Return the root as a function of the variables ``order``, ascending: (V, batch · V · V …), the last variable first.

    Between the first and the last of them, messages have a column for each of the values seen.
    """
    end = order[-1] + 1
    *_, beta = messages.backward(chain, semiring, evidence.shift(end), n - end)
    after = next(messages.ahead(chain, semiring, [beta])) if end == n else apply(semiring, chain.right, beta)
    alpha = messages.last(messages.forward(chain, semiring, evidence, order[0]))
    for t, following in pairwise(order):
        evidence, rows = _opened(evidence, t, chain.vocab_size)
        alpha, after = (semiring.gather(x, rows, semiring.ndim(x) - 1) for x in (alpha, after))
        alpha = messages.last(messages.forward(chain, semiring, evidence.shift(t), following - t, alpha))
    return messages.open_token(chain, semiring, alpha, after)


def _opened(evidence: Evidence, variable: int, size: int) -> tuple[Evidence, Int[Tensor, " rows"]]:
    """Return the evidence with a row for each row and value of the variable, and the number of the old row of each."""
    rows = torch.arange(evidence.batch, device=evidence.device)
    values = torch.arange(size, device=evidence.device).repeat(evidence.batch)
    rows = rows.repeat_interleave(size)
    return evidence.repeat(rows).observe(variable, values), rows


def _vocab_size(model: Model, variable: int) -> int:
    return folded(model).vocab_sizes[variable] if isinstance(model, Circuit) else model.vocab_size


def marginals(
    model: Model, evidence: EvidenceLike = None, *, n: int | None = None
) -> dict[int, Float[Tensor, "batch vocab"]]:
    """Return log p(x_v | evidence) for every variable v, (batch, V_v) in nats.

    A chain takes one sweep forward and one backward, a circuit one upward and one downward. Raises :class:`EvidenceError` if
    the evidence has probability zero, :class:`CircuitError` for a continuous variable.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> weather = torch.tensor([[0.7, 0.3], [0.3, 0.7]])  # rain, no rain
    >>> umbrella = torch.tensor([[0.1, 0.9], [0.8, 0.2]])  # P(no umbrella), P(umbrella)
    >>> hmm = tt.HMM(torch.tensor([0.5, 0.5]), weather, umbrella)
    >>> tt.inference.marginals(hmm, [1, None, 0])[1].exp()  # the second day
    tensor([[0.4715, 0.5285]], dtype=torch.float64)
    """
    known, variables = prepare(model, evidence, n)
    return marginals_of(model, known, variables, variables)


def marginals_of(
    model: Model, known: Evidence, variables: list[int], asked: list[int]
) -> dict[int, Float[Tensor, "batch vocab"]]:
    """Return log p(x_v | evidence) for the variables ``asked``, ascending, as :func:`marginals` does for all."""
    if not all(_vocab_size(model, v) for v in asked):
        raise CircuitError("marginals: the model has a continuous variable, which has no table of values")

    def compute(model: Model, semiring: Semiring[Any], rows: Rows) -> list[Tensor]:
        """Return log p(x_v, evidence) for each variable v."""
        some = known if rows is None else known.repeat(rows)
        if isinstance(model, Circuit):
            return _of_circuit(model, semiring, some, asked)
        return _of_chain(model, semiring, some, len(variables), asked)

    found = within_range(model, compute) if asked else []
    totals = [table.logsumexp(1, keepdim=True) for table in found]
    if any(any_if_concrete(z == -torch.inf) for z in totals):
        raise EvidenceError("marginals: the evidence has probability zero, so there is no distribution")
    return {v: table - finite(z) for v, table, z in zip(asked, found, totals, strict=True)}


def _of_chain(
    chain: Chain, semiring: Semiring[Any], evidence: Evidence, n: int, asked: list[int]
) -> list[Tensor]:
    """Return for each position log of Bᵀ(Lᵀ α ∘ R β) times its evidence weights, (batch, vocab), in blocks of positions."""
    alphas = list(messages.forward(chain, semiring, evidence, asked[-1]))
    betas = islice(messages.backward(chain, semiring, evidence, n), n - asked[0])
    follows = dict(zip(reversed(range(n)), messages.ahead(chain, semiring, betas), strict=False))
    found: list[Tensor] = []
    width = max(1, MARGINAL_ELEMENTS // max(1, chain.vocab_size * evidence.batch))
    for block in (asked[i : i + width] for i in range(0, len(asked), width)):
        alpha, after = (semiring.cat([x[t] for t in block]) for x in (alphas, follows))
        opened = messages.open_token(chain, semiring, alpha, after)
        found += semiring.log(opened).T.reshape(len(block), evidence.batch, chain.vocab_size).unbind(0)
    return [table + log_weights(evidence, v, table.shape[1]) for v, table in zip(asked, found, strict=True)]


def _of_circuit(
    circuit: Circuit, semiring: Semiring[Any], evidence: Evidence, asked: list[int]
) -> list[Tensor]:
    """Return for each variable log of Bᵀ times the root's derivative at its inputs times its evidence weights: (batch, vocab)."""
    derivatives = passes.downward(circuit, semiring, passes.upward(circuit, semiring, evidence))
    terms: dict[int, list[Tensor]] = {}
    known = folded(circuit)
    for g, (layers, x) in enumerate(zip(known.layers, derivatives.groups, strict=True)):
        if isinstance(layers[0], InputLayer) and not isinstance(layers[0], Constant):
            tables = semiring.log(open_values(semiring, layers, x)).transpose(1, 2)
            for variable, table in zip(known.variables[g], tables, strict=True):
                terms.setdefault(variable, []).append(table.expand(evidence.batch, -1))
    return [
        (torch.stack(tables).logsumexp(0) if len(tables) > 1 else tables[0])
        + log_weights(evidence, v, tables[0].shape[1])
        for v, tables in ((v, terms[v]) for v in asked)
    ]


def log_weights(evidence: Evidence, variable: int, vocab_size: int) -> Float[Tensor, "batch vocab"]:
    """Return the logarithm of a variable's evidence weights, (batch or 1, V); zeros if it is marginalised."""
    if variable in evidence.weights:
        return evidence.weights[variable].T.log()
    if variable in evidence.tokens:
        tokens = evidence.tokens[variable][:, None]
        values = torch.arange(vocab_size, device=tokens.device)
        return ((values == tokens) | (tokens < 0)).double().log()
    return torch.zeros(1, vocab_size, device=evidence.device)


__all__ = ["conditional", "count", "log_marginal", "marginals", "partition", "support"]
