"""Queries whose answer is a table over values: a variable of the evidence is left open.

conditional    log p(x_v | evidence)      of one variable, or of several jointly
marginals      … of every variable        by one sweep in each direction
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...argument_checks import whole
from ...circuits.chain import Chain
from ...circuits.circuit import Circuit
from ...errors import CircuitError, EvidenceError
from ...layers.functorch_utils import finite
from ..engine import passes
from ..engine.filter import Filter, columns_of
from ..semirings.base import Semiring
from .evidence import Evidence, EvidenceLike, check_possible
from .exact import Model, Rows, within_range
from .marginal import log_weights, prepare, vocab_size

BLOCK_ELEMENTS = 1 << 24
"""Entries of the tables of log-weights computed at once."""


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
    if not all(vocab_size(model, v) for v in asked):
        raise EvidenceError(
            f"conditional: among {asked} is a continuous variable, which has no table; sample it, or give it values"
        )

    def compute(model: Model, semiring: Semiring[Any], rows: Rows) -> list[Tensor]:
        known = evidence if rows is None else evidence.repeat(rows)
        return [_joint(model, semiring, known, asked, len(variables))]

    (table,) = within_range(model, compute)
    total = table.flatten(1).logsumexp(1)
    check_possible(total, "conditional")
    return table - finite(total).view(-1, *[1] * (table.ndim - 1))


def _joint(
    model: Model, semiring: Semiring[Any], evidence: Evidence, asked: tuple[int, ...], n: int
) -> Tensor:
    """Return log p(x_asked, evidence): (batch, V_1, …)."""
    order = sorted(asked)
    sizes = [vocab_size(model, v) for v in order]
    if isinstance(model, Circuit):
        rows = evidence
        for v, size in zip(order[:-1], sizes, strict=False):
            rows = _each_value(rows, v, size)[0]
        parts = torch.arange(rows.batch, device=rows.device).split(max(1, BLOCK_ELEMENTS // sizes[-1]))
        some = (passes.open_variables(model, semiring, rows.repeat(part), order[-1:]) for part in parts)
        opened = [x for each in some for x in each.values()]
        tables = [semiring.log(x).T.expand(len(part), -1) for x, part in zip(opened, parts, strict=True)]
        table = torch.cat(tables)
    else:
        table = semiring.log(_open(model, semiring, evidence, order, n)).T
    table = table.expand(evidence.batch * prod(sizes[:-1]), -1).reshape(evidence.batch, *sizes)
    return table.permute(0, *(1 + order.index(v) for v in asked))


def _open(chain: Chain, semiring: Semiring[Any], evidence: Evidence, order: list[int], n: int) -> Any:
    """Return the weight of each row with all values of the variables ``order``: (V, batch · V · V …), the last variable first.

    ``order`` ascends. Between its first and last variable, messages have a column for each row and choice of earlier values.
    """
    messages = Filter(chain, semiring)
    *_, after = messages.backward(evidence, range(order[-1], n))
    predicted = _last(messages, evidence, range(order[0] + 1))
    for t, following in pairwise(order):
        evidence, rows = _each_value(evidence, t, chain.vocab_size)
        predicted, after = (columns_of(semiring, x, rows) for x in (predicted, after))
        predicted = _last(messages, evidence, range(t, following + 1), predicted)
    return messages.open(predicted, after)


def _last(messages: Filter, evidence: Evidence, positions: range, predicted: Any | None = None) -> Any:
    """Return the predicted message p_t (see :class:`Filter`) at the last of the positions."""
    *_, (found, _) = messages.forward(evidence, positions, predicted)
    return found


def _each_value(evidence: Evidence, variable: int, size: int) -> tuple[Evidence, Int[Tensor, " rows"]]:
    """Repeat each row of evidence once per value of the variable. Return this and the old row number of each new row."""
    rows = torch.arange(evidence.batch, device=evidence.device)
    values = torch.arange(size, device=evidence.device).repeat(evidence.batch)
    rows = rows.repeat_interleave(size)
    return evidence.repeat(rows).observe(variable, values), rows


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
    if not all(vocab_size(model, v) for v in asked):
        raise CircuitError("marginals: the model has a continuous variable, which has no table of values")

    def compute(model: Model, semiring: Semiring[Any], rows: Rows) -> list[Tensor]:
        """Return log p(x_v, evidence) for each variable v."""
        some = known if rows is None else known.repeat(rows)
        if isinstance(model, Circuit):
            return _of_circuit(model, semiring, some, asked)
        return _of_chain(model, semiring, some, len(variables), asked)

    found = within_range(model, compute) if asked else []
    totals = [table.logsumexp(1, keepdim=True) for table in found]
    for z in totals:
        check_possible(z[:, 0], "marginals")
    return {v: table - finite(z) for v, table, z in zip(asked, found, totals, strict=True)}


def _of_chain(
    chain: Chain, semiring: Semiring[Any], evidence: Evidence, n: int, asked: list[int]
) -> list[Tensor]:
    """Return for each position log of Bᵀ(p_t ∘ f_t) times its evidence weights, (batch, vocab), in blocks of positions."""
    messages = Filter(chain, semiring)
    predicted = [x for x, _ in messages.forward(evidence, range(asked[-1] + 1))]
    after = dict(zip(reversed(range(n)), messages.backward(evidence, range(asked[0], n)), strict=False))
    found: list[Tensor] = []
    width = max(1, BLOCK_ELEMENTS // max(1, chain.vocab_size * evidence.batch))
    for block in (asked[i : i + width] for i in range(0, len(asked), width)):
        opened = messages.open(*(semiring.cat([x[t] for t in block]) for x in (predicted, after)))
        found += semiring.log(opened).T.reshape(len(block), evidence.batch, chain.vocab_size).unbind(0)
    return [table + log_weights(evidence, v, table.shape[1]) for v, table in zip(asked, found, strict=True)]


def _of_circuit(
    circuit: Circuit, semiring: Semiring[Any], evidence: Evidence, asked: list[int]
) -> list[Tensor]:
    """Return for each variable log of the root as a function of it, times its evidence weights: (batch, vocab)."""
    opened = passes.open_variables(circuit, semiring, evidence, asked)
    tables = ((v, semiring.log(x).T.expand(evidence.batch, -1)) for v, x in opened.items())
    return [table + log_weights(evidence, v, table.shape[1]) for v, table in tables]
