"""The k best assignments, by Lawler's branching (1972).

The best x is taken out; the remaining assignments are partitioned by the first variable in which they differ from x. Each part is
one row of evidence, and all parts of one x are maximised as one batch.
"""

from __future__ import annotations

import heapq
import itertools

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...argument_checks import whole
from ...circuits.circuit import Circuit
from ...errors import CircuitError, EvidenceError
from ..semirings.logarithms import MaxProduct
from .evidence import Evidence, EvidenceLike
from .exact import Model, at_least_single
from .marginal import log_marginal, log_weights, prepare
from .sample_mpe import best


def k_best(
    model: Model, k: int, evidence: EvidenceLike = None, *, n: int | None = None
) -> tuple[Int[Tensor, "found variables"], Float[Tensor, " found"]]:
    """Return the k best assignments x, best first, and each one's score in nats, that of its best explanation.

    The score is the logarithm of the weight of (x, its best latent states), as in :func:`.mpe`; for deterministic models it is
    log p(x). Fewer than k are returned if fewer have positive weight. The search
    is exact (Lawler 1972). Raises :class:`EvidenceError` if the evidence has probability zero or several rows,
    :class:`CircuitError` for continuous variables.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> values, scores = tt.inference.k_best(one, 2, n=3)
    >>> values.sum(-1)
    tensor([1, 1])
    """
    known, variables = prepare(model, evidence, n)
    sizes = model.vocab_sizes() if isinstance(model, Circuit) else dict.fromkeys(variables, model.vocab_size)
    k = whole(k, "k_best: k")
    if known.batch != 1:
        raise EvidenceError(f"k_best: evidence of one row, not of {known.batch}")
    if not all(sizes.values()):
        raise CircuitError("k_best: a continuous variable has no second best value")
    start = [log_weights(known, v, sizes[v])[0].double().exp() for v in variables]
    # −log-weight, tie-break, x, first free variable, evidence weights
    heap: list[tuple[float, int, list[int], int, list[Tensor]]] = []
    found: list[tuple[list[int], float]] = []
    order = itertools.count()

    def push(boxes: list[tuple[int, list[Tensor]]]) -> None:
        rows = Evidence(len(boxes), known.device)
        rows.weights = {v: torch.stack([box[i] for _, box in boxes], 1) for i, v in enumerate(variables)}
        for (free, box), x, score in zip(
            boxes, *(t.tolist() for t in best(model, rows, variables)), strict=True
        ):
            if score > -torch.inf:
                heapq.heappush(heap, (-score, next(order), x, free, box))

    push([(0, start)])
    while heap and len(found) < k:
        cost, _, x, free, box = heapq.heappop(heap)
        found.append((x, -cost))
        boxes, fixed = [], list(box)
        for i in range(free, len(variables)):
            only = torch.zeros_like(box[i]).index_fill(0, torch.tensor(x[i], device=known.device), 1.0)
            boxes.append((i, [*fixed[:i], box[i] * (1 - only), *box[i + 1 :]]))
            fixed[i] = box[i] * only
        if boxes and len(found) < k:
            push(boxes)
    if not found:
        raise EvidenceError("k_best: the evidence has probability zero")
    values = torch.tensor([x for x, _ in found], dtype=torch.long, device=known.device)
    scores = torch.tensor([score for _, score in found], dtype=torch.float64, device=known.device)
    if torch.is_grad_enabled() and any(t.requires_grad for t in model.parameters()):
        exact = log_marginal(at_least_single(model), values, semiring=MaxProduct()).double()
        scores = exact + (scores - exact).detach()  # with the logarithms of the evidence's weights
    return values, scores
