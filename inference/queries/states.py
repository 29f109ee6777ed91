"""Hidden states of any chain: filtered, smoothed, and the most probable path (Rabiner 1989; Murphy 2023, §9.2).

    filter     log p(z_t | x_1 … x_t)           u_t ∘ f_t, nothing observed after t
    smooth     log p(z_t | x_1 … x_n)           u_t ∘ f_t
    viterbi    argmax over z of p(z, x)         the same messages in max-product

A state z_t is a unit of the chain, one for each token: the hidden state of an HMM, the edge of an automaton that reads x_t. A
product of chains has one axis of states for each factor. The messages are those of :mod:`tractile.inference.engine.filter`.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...argument_checks import whole_numbers
from ...circuits.chain import Chain
from ...circuits.hmm import HMM
from ...errors import CircuitError
from ...layers.functorch_utils import finite
from ..engine.filter import Filter, columns_of
from ..semirings.base import Semiring
from ..semirings.logarithms import Log, MaxProduct
from .evidence import Evidence, EvidenceLike, check_possible
from .exact import Model, Rows, within_range
from .marginal import Lengths, check_lengths, prepare


def filter(
    chain: Chain, evidence: EvidenceLike = None, *, n: int | None = None, lengths: Lengths = None
) -> Float[Tensor, "batch n *states"]:
    """Return log p(z_t | x_1 … x_t) for each position t, in nats: what is known of the state when x_t has been seen.

    ``evidence``, ``n``, ``lengths`` are as in :func:`~tractile.log_marginal`: tokens, −1 where one is missing, sets or weights;
    of row i only the first ``lengths[i]`` positions count, and the others are −∞. A position without evidence is a prediction.
    A product has an axis of states for each factor. Gradients flow to the chain's parameters.

    A chain that is no HMM is read as a distribution over sequences of its length. Raises :class:`EvidenceError` if the evidence
    does not fit or a row has probability zero.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> weather = torch.tensor([[0.7, 0.3], [0.3, 0.7]])  # rain, no rain
    >>> umbrella = torch.tensor([[0.1, 0.9], [0.8, 0.2]])  # P(no umbrella), P(umbrella)
    >>> hmm = tt.HMM(torch.tensor([0.5, 0.5]), weather, umbrella)
    >>> tt.filter(hmm, torch.tensor([[1, 1, 0]])).exp()  # rain, given the days so far
    tensor([[[0.8182, 0.1818],
             [0.8834, 0.1166],
             [0.1907, 0.8093]]], dtype=torch.float64)
    """
    return _tables(chain, evidence, n, lengths, "filter")


def smooth(
    chain: Chain, evidence: EvidenceLike = None, *, n: int | None = None, lengths: Lengths = None
) -> Float[Tensor, "batch n *states"]:
    """Return log p(z_t | x_1 … x_n) for each position t, in nats: what all tokens say of the state.

    Arguments, result and errors are as in :func:`filter`.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> tt.smooth(hmm, torch.tensor([[1, 1, 0]])).exp()  # that it rained on each of three days
    tensor([[[0.8619, 0.1381],
             [0.7992, 0.2008],
             [0.1907, 0.8093]]], dtype=torch.float64)
    """
    return _tables(chain, evidence, n, lengths, "smooth")


def viterbi(
    chain: Chain, evidence: EvidenceLike = None, *, n: int | None = None, lengths: Lengths = None
) -> tuple[Int[Tensor, "batch n *axes"], Float[Tensor, " batch"]]:
    """Return the most probable path of states z of each row, and log p(z, x) in nats.

    Arguments and errors are as in :func:`filter`; positions past a row's length are −1. The states of a product have an axis with
    one number for each factor. The score is differentiable, the path is not.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> states, log_p = tt.viterbi(hmm, torch.tensor([[1, 1, 0]]))
    >>> states, log_p.exp()  # ½ · 0.9 · 0.7 · 0.9 · 0.3 · 0.8
    (tensor([[0, 0, 1]]), tensor([0.0680], dtype=torch.float64))
    """
    known, lengths, n = _prepared(chain, evidence, n, lengths, "viterbi")
    axes, chain = len(chain.inputs.unit_dims), chain.map(lambda t: t.double())
    # A token that is not observed is summed out, not the best one.
    semiring = MaxProduct()
    messages = Filter(chain, semiring, tokens=Log())
    if not n:
        score: Tensor = semiring.log(messages.empty(known.batch)).double()
        return torch.zeros(known.batch, 0, *_more(axes), dtype=torch.long, device=known.device), score
    ahead = list(messages.backward(known, range(n), lengths))[::-1]
    path, predicted = list[Tensor](), messages.initial(known.batch)
    score = torch.full((known.batch,), -torch.inf, dtype=torch.float64, device=known.device)
    emission = messages.emission(known)
    for t in range(n):
        filtered = emission.times(chain.inputs, t, predicted)
        top, best = (filtered + ahead[t]).flatten(0, -2).max(0)
        counts = torch.full_like(best, t) < (n if lengths is None else lengths)
        score = torch.where(counts, top, score)
        one = torch.nn.functional.one_hot(best, chain.inputs.num_units).T.view(*chain.inputs.unit_dims, -1)
        predicted = messages.next(filtered.masked_fill(one == 0, -torch.inf))
        places = torch.stack(torch.unravel_index(best, chain.inputs.unit_dims), -1)
        path.append(torch.where(counts[:, None], places, -1))
    if lengths is not None and not bool(lengths.all()):
        score = torch.where(lengths == 0, semiring.log(messages.empty(known.batch)), score)
    check_possible(score, "viterbi")
    states = torch.stack(path, 1)
    return states if axes > 1 else states[..., 0], score


def _more(axes: int) -> tuple[int, ...]:
    return (axes,) if axes > 1 else ()


def _prepared(
    chain: Chain, evidence: EvidenceLike, n: int | None, lengths: Lengths, name: str
) -> tuple[Evidence, Lengths, int]:
    """Return the evidence, the lengths and the number of positions, checked."""
    if not isinstance(chain, Chain):
        raise CircuitError(
            f"{name}: hidden states are those of a chain, such as an HMM, not of a {type(chain).__name__}"
        )
    known, variables = prepare(chain, evidence, n)
    if lengths is None:
        return known, None, len(variables)
    lengths = whole_numbers(lengths, f"{name}: lengths").to(known.device)
    if known.batch == 1 and len(lengths) > 1:
        known = known.repeat(torch.zeros_like(lengths))
    check_lengths(lengths, known.batch, len(variables))
    return known, lengths, len(variables)


def _tables(
    chain: Chain, evidence: EvidenceLike, n: int | None, lengths: Lengths, name: str
) -> Float[Tensor, "batch n *states"]:
    known, lengths, n = _prepared(chain, evidence, n, lengths, name)
    if not n:
        return torch.zeros(known.batch, 0, *chain.inputs.unit_dims, dtype=torch.float64, device=known.device)
    dims, positions = chain.inputs.unit_dims, torch.arange(n, device=known.device)
    past = None if lengths is None else positions >= lengths[:, None]

    def compute(model: Model, semiring: Semiring[Any], rows: Rows) -> list[Tensor]:
        assert isinstance(model, Chain)
        some = known if rows is None else known.repeat(rows)
        ends = lengths if lengths is None or rows is None else lengths[rows]
        found = _joint(Filter(model, semiring), some, n, ends, name)
        over = past if past is None or rows is None else past[rows]
        return [found if over is None else found.masked_fill(over[..., None], -torch.inf)]

    (found,) = within_range(chain, compute)
    total = found.logsumexp(2, keepdim=True)
    possible = (
        ~total.detach().isneginf()[..., 0] if past is None else ~total.detach().isneginf()[..., 0] | past
    )
    check_possible(torch.where(possible.all(1), 0.0, -torch.inf), name)
    return (found - finite(total)).view(known.batch, n, *dims)


def _joint(
    messages: Filter, evidence: Evidence, n: int, lengths: Lengths, name: str
) -> Float[Tensor, "batch n states"]:
    """Return log u_t ∘ f_t at each position: log p(z_t, evidence)."""
    chain, semiring = messages.chain, messages.semiring
    found, positions = list[Tensor](), range(n)
    if name == "smooth":
        ahead = list(messages.backward(evidence, positions, lengths))[::-1]
    elif isinstance(chain, HMM):  # whatever follows sums to one
        ahead = []
    else:
        nothing = semiring.cat(list(messages.backward(Evidence(1, chain.device), positions)))
        ends = torch.full((evidence.batch,), n, device=chain.device) if lengths is None else lengths
        ahead = [columns_of(semiring, nothing, (ends - 1 - t).clamp(min=0)) for t in positions]
    for t, (_, filtered) in zip(positions, messages.forward(evidence, positions), strict=True):
        both = semiring.mul(filtered, ahead[t]) if ahead else filtered
        found.append(semiring.log(both).flatten(0, -2).T.double())
    return torch.stack([x.expand(evidence.batch, -1) for x in found], 1)
