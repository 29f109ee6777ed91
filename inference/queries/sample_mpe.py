"""Decoding: samples of a model's variables given evidence, and the most probable explanation.

    sample     x ~ p(x | evidence)                       real
    mpe        argmax over (x, latent states)            max-product

In a circuit, an upward sweep computes every node's value; then, from the root down, a unit of a sum chooses one term (in
proportion to weight × value, or the largest), a product takes all its factors, an input layer chooses a value. In a chain,
positions are chosen left to right, each from the forward message of the values so far and the backward message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...argument_checks import short, whole
from ...circuits.chain import Chain
from ...circuits.circuit import Circuit
from ...errors import CircuitError, EvidenceError
from ...layers import Continuous, InputLayer, Monarch, Operator, Product, Sum
from ...layers.input import Constant
from ..engine import passes
from ..engine.filter import Filter, columns_of
from ..semirings.base import Semiring
from ..semirings.logarithms import Log, MaxProduct
from .evidence import Evidence, EvidenceLike, check_possible
from .exact import Model, arithmetics, at_least_single
from .marginal import log_marginal, log_root, log_weights, prepare

Choose = Callable[[Float[Tensor, "rows terms"]], Int[Tensor, " rows"]]  # log-weights → the chosen term
Place = Callable[[Continuous, Int[Tensor, " rows"]], Float[Tensor, " rows"]]  # a value, given the unit chosen
MOST_TERMS = 1 << 24  # torch.multinomial takes no more
Decoded = tuple[Tensor, Float[Tensor, " rows"]]


def sample(
    model: Model,
    num_samples: int = 1,
    evidence: EvidenceLike = None,
    *,
    n: int | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "num_samples *batch variables"]:
    """Draw exact samples x ~ p(x | evidence).

    Returns (num_samples, variables), or (num_samples, batch, variables) for evidence of several rows. ``n`` is the length of
    a chain, where the evidence does not give it. Raises :class:`EvidenceError` if the evidence has probability zero.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> words = tt.sample(one, 4, n=3, generator=torch.Generator().manual_seed(0))
    >>> words.sum(1)  # each has one 1
    tensor([1, 1, 1, 1])
    """
    num_samples = whole(num_samples, "sample: num_samples", 0)
    if not isinstance(generator, torch.Generator | None):
        raise EvidenceError(f"sample: generator must be a torch.Generator, not {short(generator)}")
    known, variables = prepare(model, evidence, n)

    def check(top: Tensor) -> None:
        if not bool((top < torch.inf).all()):
            raise _OutOfRange
        if bool((top == -torch.inf).any()):
            check_possible(
                log_marginal(model, known, n=None if isinstance(model, Circuit) else len(variables)), "sample"
            )
            raise EvidenceError("sample: the evidence has probability zero")

    def choose(logits: Tensor) -> Tensor:
        check(logits.amax(1))
        weights = logits.softmax(1)
        if weights.shape[1] < MOST_TERMS:
            return torch.multinomial(weights, 1, generator=generator).squeeze(1)
        upto = weights.cumsum(1)
        drawn = (
            torch.rand(len(upto), 1, generator=generator, device=upto.device, dtype=upto.dtype) * upto[:, -1:]
        )
        return torch.searchsorted(upto, drawn, right=True).squeeze(1).clamp(max=upto.shape[1] - 1)

    def place(layer: Continuous, unit: Tensor) -> Tensor:
        return layer.draw(unit, generator)

    rows = torch.arange(known.batch, device=known.device).repeat(num_samples)

    def draw(model: Model, semiring: Semiring[Any]) -> Tensor:
        if isinstance(model, Circuit):
            values, total = _top_down(model, semiring, known, rows, choose, place)
            check(total)  # where all is observed, nothing is chosen
            return values
        return _in_order(model, semiring, known, rows, variables, choose, place)[0]

    source = generator or _default_generator(known.device)
    state = source.get_state()
    for wider, semiring in arithmetics(model):
        try:
            values = draw(wider, semiring)
            break
        except _OutOfRange:  # draw all again from the same random numbers, so that no sequence is preferred
            source.set_state(state)
    else:
        raise CircuitError("sample: the weights of the model leave the range of float64; scale them")
    return values if known.batch == 1 else values.view(num_samples, known.batch, values.shape[-1])


class _OutOfRange(ArithmeticError):
    """The weights to choose by are NaN: scaled arithmetic lost something to underflow."""


def _default_generator(device: torch.device) -> torch.Generator:
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        return torch.cuda.default_generators[index]
    return torch.default_generator


def mpe(
    model: Model, evidence: EvidenceLike = None, *, n: int | None = None
) -> tuple[Int[Tensor, "batch variables"], Float[Tensor, " batch"]]:
    """Return the most probable explanation of the evidence, and its score in nats.

    That is the x of argmax over (x, latent states) of their joint weight; for deterministic models (unambiguous automata),
    argmax over x. The score is the logarithm of this joint weight: at most log p(x), which ``log_marginal(model, x)`` gives, and
    equal to it for deterministic models. ``n`` is the length of a chain, where the evidence does not give it. Raises
    :class:`EvidenceError` if the evidence has probability zero.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> weather = torch.tensor([[0.7, 0.3], [0.3, 0.7]])  # rain, no rain
    >>> umbrella = torch.tensor([[0.1, 0.9], [0.8, 0.2]])  # P(no umbrella), P(umbrella)
    >>> hmm = tt.HMM(torch.tensor([0.5, 0.5]), weather, umbrella)
    >>> values, score = tt.mpe(hmm, [1, None, None])
    >>> values
    tensor([[1, 1, 1]])
    >>> score, tt.log_marginal(hmm, values)  # of the best hidden path, and of all
    (tensor([-1.7226], dtype=torch.float64), tensor([-1.4651], dtype=torch.float64))
    """
    values, score = best(at_least_single(model), *prepare(model, evidence, n))
    check_possible(score, "mpe")
    return values, score


def best(model: Model, evidence: Evidence, variables: list[int]) -> Decoded:
    """Return the best explanation of each row, and its log-weight in nats: −inf if the row has probability zero."""

    def choose(logits: Tensor) -> Tensor:
        return logits.argmax(1)

    def place(layer: Continuous, unit: Tensor) -> Tensor:
        return layer.mode(unit)

    rows = torch.arange(evidence.batch, device=evidence.device)
    if isinstance(model, Circuit):
        return _top_down(model, MaxProduct(), evidence, rows, choose, place)
    return _in_order(model, MaxProduct(), evidence, rows, variables, choose, place)


def _top_down(
    circuit: Circuit,
    semiring: Semiring[Any],
    evidence: Evidence,
    rows: Int[Tensor, " rows"],
    choose: Choose,
    place: Place,
) -> Decoded:
    """Choose values from the root down for ``rows``, row numbers of the evidence; return them and the root's logarithm."""
    values = passes.upward(circuit, semiring, evidence)
    root = semiring.log(values[circuit.root]).flatten().expand(evidence.batch)
    rows = rows.to(root.device)
    asked: dict[int, list[tuple[Tensor, Tensor]]] = {
        circuit.root: [(torch.arange(len(rows), device=rows.device), torch.zeros_like(rows))]
    }
    chosen: dict[int, Tensor] = {}

    def value(node: int, which: Tensor) -> Tensor:
        """Return the logarithm of the node's units in these rows, (rows or 1, units)."""
        logs = semiring.log(values[node]).flatten(0, -2)
        return logs.T[rows[which]] if logs.shape[1] > 1 else logs.T

    for node in reversed(list(circuit.nodes())):
        if node not in asked:
            continue
        which, unit = (torch.cat(parts) for parts in zip(*asked.pop(node), strict=True))
        layer, children = circuit.layer(node), circuit.children(node)
        if isinstance(layer, Sum):
            terms = [
                _log_rows(op, unit) + value(c, which) for op, c in zip(layer.operators, children, strict=True)
            ]
            pick = choose(torch.cat(terms, 1))
            for c, width in zip(children, [t.shape[1] for t in terms], strict=True):
                here = (pick >= 0) & (pick < width)
                if bool(here.any()):
                    asked.setdefault(c, []).append((which[here], pick[here]))
                pick = pick - width
        elif isinstance(layer, InputLayer):
            if not isinstance(layer, Constant):
                (v,) = circuit.scope(node)
                here = _input_values(layer, v, unit, evidence, rows[which], choose, place)
                chosen[v] = chosen.get(v, here.new_zeros(len(rows))).index_put((which,), here)
        elif isinstance(layer, Product):
            parts = layer.parts(unit, [circuit.unit_dims(c) for c in children])
            for c, part in zip(children, parts, strict=True):
                asked.setdefault(c, []).append((which, part))
    if not chosen:  # no variables, or no rows
        return rows.new_zeros(len(rows), len(circuit.variables)), root[rows].double()
    return torch.stack([chosen[v] for v in sorted(chosen)], 1), root[rows].double()


def _log_rows(op: Operator, unit: Int[Tensor, " rows"]) -> Float[Tensor, "rows cols"]:
    """Return the logarithms of rows of an operator as a dense matrix, in float64."""
    out = torch.zeros(len(unit), 1, dtype=torch.float64, device=unit.device)
    leaves = op.leaves()
    for leaf, index in zip(
        leaves, torch.unravel_index(unit, [leaf.shape[0] for leaf in leaves]), strict=True
    ):
        if isinstance(leaf, Monarch):  # its entries are products
            asked = torch.nn.functional.one_hot(index, leaf.shape[0]).T.to(out).log()
            rows = leaf.map(torch.Tensor.double).T.apply(Log(), asked, 0).T
        else:
            rows = leaf.dense().to(out)[index].log()
        out = (out[:, :, None] + rows[:, None, :]).flatten(1)
    return out


def _input_values(
    layer: InputLayer,
    variable: int,
    unit: Tensor,
    evidence: Evidence,
    rows: Tensor,
    choose: Choose,
    place: Place,
) -> Tensor:
    """Return the variable's value in each row: the observed one, or one chosen under the given unit of its input layer."""
    seen = evidence.tokens.get(variable)
    seen = None if seen is None else seen[rows]
    if isinstance(layer, Continuous):
        return _placed(layer, unit, seen, place)
    if seen is not None and bool((seen >= 0).all()):
        return seen
    weights = log_weights(evidence, variable, layer.vocab_size)
    return choose(layer.log_rows(unit) + (weights[rows] if len(weights) > 1 else weights))


def _in_order(
    chain: Chain,
    semiring: Semiring[Any],
    evidence: Evidence,
    rows: Int[Tensor, " rows"],
    variables: list[int],
    choose: Choose,
    place: Place,
) -> Decoded:
    """Choose one variable after another, given the values before it; return the values and their joint log-weights (nats).

    For a continuous variable, ``choose`` gives a unit and ``place`` a value under the unit.
    """
    layer, n, messages = chain.inputs, len(variables), Filter(chain, semiring)
    ahead = list(messages.backward(evidence, range(n)))[::-1]  # batch: the rows of evidence
    rows = rows.to(chain.device)
    evidence, chosen = evidence.repeat(rows), list[Tensor]()
    score = fixed = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
    predicted = messages.initial(evidence.batch)
    for t in variables:
        opened = messages.open(predicted, columns_of(semiring, ahead[t], rows))
        logs = semiring.log(opened).T.expand(evidence.batch, -1)
        continuous = isinstance(layer, Continuous)
        weights = torch.zeros_like(logs) if continuous else log_weights(evidence, t, logs.shape[1])
        weights = weights.expand(evidence.batch, -1)
        value = choose(logs + weights)
        score = fixed + (logs + weights).gather(1, value[:, None])[:, 0]
        fixed = fixed + weights.gather(1, value[:, None])[:, 0]
        if isinstance(layer, Continuous):
            value = _placed(layer, value, evidence.tokens.get(t), place)
        chosen.append(value)
        _, predicted = messages.append(predicted, value)
    if not chosen:  # the empty sequence
        empty = semiring.log(messages.empty(evidence.batch))
        choose(empty[:, None])
        return rows.new_zeros(len(rows), 0), empty.double()
    values = torch.stack(chosen, 1)
    if not chain.vocab_size:  # continuous: `score` is of the units, not of the values
        score = log_root(chain, semiring, prepare(chain, values, None)[0], n, None)
    return values, score


def _placed(layer: Continuous, unit: Tensor, seen: Tensor | None, place: Place) -> Tensor:
    """Return the observed value of each row, or, where there is none, a value placed under the chosen unit."""
    here = place(layer, unit)
    return here if seen is None else torch.where(seen.isnan(), here, seen.to(here))
