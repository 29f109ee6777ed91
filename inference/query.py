"""Queries: each is one contraction of a circuit against evidence, in some semiring.

    log_marginal   log Σ_x p(x) w(x)          real         w: the evidence
    partition      log Σ_x p(x)               real
    conditional    log p(x_v | evidence)      real, x_v open
    support        is any x possible?         Boolean
    count          accepted sequences         counting
    mpe            best (x, latent states)    max-product
    sample         x ~ p(x | evidence)        real, one variable at a time
    entropy        −Σ p log p                 real and its derivative

A *model* is a chain (say how long: by evidence of shape (batch, n), or ``n``) or a circuit. Everything is in nats and
batch first. Evidence is described in :mod:`tractile.inference.evidence`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..circuits.automaton import Automaton
from ..circuits.chain import Chain
from ..circuits.circuit import Circuit
from ..errors import CircuitError, EvidenceError
from ..layers import Continuous, InnerLayer, InputLayer
from . import messages
from .contract import apply, emit, outer
from .evidence import Evidence, EvidenceLike, as_evidence, holds_weights
from .semiring import Boolean, Counting, Log, MaxProduct, Real, Semiring

Model = Chain | Circuit
Lengths = Int[Tensor, " batch"] | None


def _prepare(model: Model, evidence: EvidenceLike, n: int | None) -> tuple[Evidence, list[int]]:
    """Evidence read against the model's variables, and those variables in order."""
    if isinstance(model, Circuit):
        sizes = model.vocab_sizes()
        return as_evidence(evidence, sizes), list(sizes)
    if n is None:
        if evidence is None or isinstance(evidence, Mapping | Evidence):
            raise EvidenceError("a chain has no length of its own: give n, or evidence for each position")
        if isinstance(evidence, Tensor):
            n = evidence.shape[-2 if holds_weights(evidence) and model.vocab_size else -1]
        else:
            n = len(evidence)
    sizes = dict.fromkeys(range(n), model.vocab_size)
    return as_evidence(evidence, sizes), list(sizes)


def _total(model: Model, semiring: Semiring[Any], evidence: Evidence, n: int, lengths: Lengths) -> Tensor:
    """log of the root for each row (for Counting: of the count)."""
    return semiring.log(_root(model, semiring, evidence, n, lengths)).expand(evidence.batch)


def _root(model: Model, semiring: Semiring[Any], evidence: Evidence, n: int, lengths: Lengths) -> Any:
    """The root for each row: (batch,), or (1,) where no evidence is observed."""
    if isinstance(model, Circuit):
        if lengths is not None:
            raise EvidenceError("lengths are for chains; a circuit has a fixed set of variables")
        root = messages.upward(model, semiring, evidence)[model.root]
        if len(set(model.unit_dims(model.root)) - {1}):
            raise CircuitError(
                f"the root (node {model.root}) has units {model.unit_dims(model.root)}; a query needs one"
            )
        return semiring.merge(root, 0, semiring.ndim(root))
    if lengths is None:
        ((_, root),) = messages.totals(model, semiring, evidence, [n])
        return root
    _check_lengths(lengths, n, evidence.batch)
    rows = torch.arange(evidence.batch, device=lengths.device)
    roots: list[Any] = []
    position = torch.zeros_like(lengths)
    for t, root in messages.totals(model, semiring, evidence, set(lengths.tolist())):
        position[lengths == t] = len(roots)
        roots.append(root)
    return semiring.gather(semiring.cat(roots), position * evidence.batch + rows, 0)


def _check_lengths(lengths: Tensor, n: int, batch: int) -> None:
    if lengths.shape != (batch,) or int(lengths.min()) < 0 or int(lengths.max()) > n:
        raise EvidenceError(f"lengths must be of shape ({batch},) with values in 0 … {n}")


def log_marginal(
    model: Model,
    evidence: EvidenceLike = None,
    *,
    n: int | None = None,
    lengths: Lengths = None,
    semiring: Semiring[Any] | None = None,
) -> Float[Tensor, " batch"]:
    """log Σ_x p(x) w(x): the log-probability of the evidence, in nats.

    Rows where scaled arithmetic lost everything to the dynamic range between hidden states are computed again in log
    space, so the result is −inf only where the true value is zero. Raises :class:`EvidenceError` where the evidence
    does not fit.
    """
    evidence, variables = _prepare(model, evidence, n)
    result = _total(model, semiring or Real(), evidence, len(variables), lengths)
    lost = result == -torch.inf
    if semiring is None and bool(lost.any()):
        rows = lost.nonzero().squeeze(1)
        some = None if lengths is None else lengths[rows]
        possible = _total(model, Boolean(), evidence.repeat(rows), len(variables), some) == 0
        if bool(possible.any()):
            rows = rows[possible]
            exact = _total(
                model,
                Log(),
                evidence.repeat(rows),
                len(variables),
                None if lengths is None else lengths[rows],
            )
            result = result.index_put((rows,), exact.to(result.dtype))
    return result


def partition(
    model: Model, *, n: int | None = None, semiring: Semiring[Any] | None = None
) -> Float[Tensor, ""]:
    """log Σ_x p(x): the log partition function, in nats (over sequences of length n for a chain)."""
    return log_marginal(model, None, n=n, semiring=semiring)[0]


def support(
    model: Model, evidence: EvidenceLike = None, *, n: int | None = None, lengths: Lengths = None
) -> Bool[Tensor, " batch"]:
    """Whether any completion of the evidence has positive weight."""
    evidence, variables = _prepare(model, evidence, n)
    return _total(model, Boolean(), evidence, len(variables), lengths) == 0


def count(model: Model, evidence: EvidenceLike = None, *, n: int | None = None, paths: bool = False) -> int:
    """The number of accepted sequences; with ``paths``, of (sequence, latent path) pairs.

    Exact. An ambiguous automaton is determinised first; other models need ``paths`` (:class:`CircuitError`). Raises
    :class:`EvidenceError` for evidence of several rows, and :class:`CircuitError` past 2^53, where floating point stops being
    exact: use ``log_marginal`` on the automaton for the logarithm of the count.
    """
    if not paths:
        if isinstance(model, Automaton):
            model = model if model.is_unambiguous else model.determinize()
        else:
            raise CircuitError(
                "count: latent states make several paths for one sequence; count an automaton, or give paths=True"
            )
    evidence, variables = _prepare(model, evidence, n)
    if evidence.batch > 1:
        raise EvidenceError(f"count: evidence of one row, not of {evidence.batch}")
    if not all(_vocab_size(model, v) for v in variables):
        raise CircuitError("count: the model has continuous variables, whose values cannot be counted")
    total = float(_root(model, Counting(), evidence, len(variables), None))
    if total >= 2.0**53:
        raise CircuitError(
            f"count: about {total:.3g} sequences, too many to count exactly; use log_marginal for the logarithm"
        )
    return round(total)


def conditional(
    model: Model, evidence: EvidenceLike = None, variable: int | tuple[int, ...] = 0, *, n: int | None = None
) -> Float[Tensor, "batch *values"]:
    """log p(x_v | evidence) for a variable (batch, V), or the joint table of several (batch, V_1, V_2, …), in nats.

    What the evidence says of the query variables is ignored. Raises :class:`EvidenceError` where the evidence has
    probability zero.
    """
    evidence, variables = _prepare(model, evidence, n)
    asked = (variable,) if isinstance(variable, int) else variable
    missing = [v for v in asked if v not in variables]
    if missing or not asked or len(set(asked)) != len(asked):
        raise EvidenceError(f"conditional: query variables {asked} must be distinct and among {variables}")
    if not all(_vocab_size(model, v) for v in asked):
        raise EvidenceError(
            f"conditional: among {asked} is a continuous variable, which has no table; sample it, or give it values"
        )
    table = _joint(model, Real(), evidence, asked, len(variables))
    total = table.flatten(1).logsumexp(1)
    if bool((total == -torch.inf).any()):
        if bool(
            (table_exact := _joint(model, Log(), evidence, asked, len(variables)))
            .flatten(1)
            .logsumexp(1)
            .isneginf()
            .any()
        ):
            raise EvidenceError(
                "conditional: the evidence has probability zero, so there is no conditional distribution"
            )
        table = table_exact
        total = table.flatten(1).logsumexp(1)
    return table - total.view(-1, *[1] * (table.ndim - 1))


def _joint(
    model: Model, semiring: Semiring[Any], evidence: Evidence, asked: tuple[int, ...], n: int
) -> Tensor:
    """log p(x_asked, evidence): (batch, V_1, …)."""
    if len(asked) > 1:
        rows = [
            _joint(
                model, semiring, evidence.observe(asked[0], torch.full((evidence.batch,), v)), asked[1:], n
            )
            for v in range(_vocab_size(model, asked[0]))
        ]
        return torch.stack(rows, 1)
    if isinstance(model, Circuit):
        table = messages.open_variable(model, semiring, evidence, asked[0])
    else:
        t = asked[0]
        alphas = messages.forward(model, semiring, evidence, t)
        betas = messages.backward(model, semiring, _shift(evidence, t + 1), n - t - 1)
        table = messages.open_step(model, semiring, _last(alphas), _last(betas), torch.tensor(t == n - 1))
    return semiring.log(table).T.expand(evidence.batch, -1)


def _vocab_size(model: Model, variable: int) -> int:
    return model.vocab_size(variable) if isinstance(model, Circuit) else model.vocab_size


def _shift(evidence: Evidence, t: int) -> Evidence:
    out = Evidence(evidence.batch)
    out.tokens = {v - t: x for v, x in evidence.tokens.items() if v >= t}
    out.weights = {v - t: x for v, x in evidence.weights.items() if v >= t}
    return out


def _last(values: Any) -> Any:
    for value in values:
        last = value
    return last


Choose = Callable[[Float[Tensor, "batch vocab"]], Int[Tensor, " batch"]]
Place = Callable[
    [Continuous, Int[Tensor, " batch"]], Float[Tensor, " batch"]
]  # a value, given the unit chosen


def sample(
    model: Model,
    num_samples: int = 1,
    evidence: EvidenceLike = None,
    *,
    n: int | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "num_samples *batch variables"]:
    """Exact samples x ~ p(x | evidence): (num_samples, n), or (num_samples, batch, n) for evidence of several rows.

    Raises :class:`EvidenceError` where the evidence has probability zero.
    """
    evidence, variables = _prepare(model, evidence, n)
    batch = evidence.batch

    def choose(logits: Tensor) -> Tensor:
        if bool((logits.amax(1) == -torch.inf).any()):
            raise EvidenceError("sample: the evidence has probability zero")
        return torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)

    rows = torch.arange(batch).repeat(num_samples)

    def value(layer: Continuous, unit: Tensor) -> Tensor:
        return layer.draw(unit, generator)

    values, _ = _in_order(model, Real(), evidence.repeat(rows), variables, choose, value)
    return values if batch == 1 else values.view(num_samples, batch, -1)


def mpe(
    model: Model, evidence: EvidenceLike = None, *, n: int | None = None
) -> tuple[Int[Tensor, "batch variables"], Float[Tensor, " batch"]]:
    """The most probable explanation: argmax over (x, latent states) of their joint weight, and its logarithm in nats.

    For deterministic circuits (unambiguous automata) the maximum over x itself. Raises :class:`EvidenceError` where the
    evidence has probability zero.
    """
    evidence, variables = _prepare(model, evidence, n)

    def choose(logits: Tensor) -> Tensor:
        if bool((logits.amax(1) == -torch.inf).any()):
            raise EvidenceError("mpe: the evidence has probability zero")
        return logits.argmax(1)

    return _in_order(model, MaxProduct(), evidence, variables, choose, lambda layer, unit: layer.mode(unit))


def _in_order(
    model: Model,
    semiring: Semiring[Any],
    evidence: Evidence,
    variables: list[int],
    choose: Choose,
    place: Place,
) -> tuple[Tensor, Tensor]:
    """Fix one variable after another by ``choose`` on its query given those before; the values and their joint log-weight.

    Of a continuous variable a unit is chosen, and ``place`` gives the value.
    """
    chosen: list[Tensor] = []
    score = fixed = torch.zeros(
        evidence.batch, dtype=torch.float64
    )  # fixed: the evidence's weights of the values chosen

    def pick(variable: int, terms: list[tuple[InputLayer, Any]]) -> Tensor:
        nonlocal score, fixed
        table = torch.cat([semiring.log(x).T.expand(evidence.batch, -1) for _, x in terms], 1)
        densities = [layer for layer, _ in terms if isinstance(layer, Continuous)]
        weights = torch.zeros_like(table) if densities else _weights(evidence, variable, table.shape[1])
        weights = weights.expand(evidence.batch, -1)
        value = choose(table + weights)
        score = fixed + (table + weights).gather(1, value[:, None])[:, 0]
        fixed = fixed + weights.gather(1, value[:, None])[:, 0]
        if densities:
            value = _placed(densities, value, evidence.tokens.get(variable), place)
        chosen.append(value)
        return value

    if isinstance(model, Circuit):
        for v in variables:
            value = pick(v, messages.open_inputs(model, semiring, evidence, v))
            evidence = evidence.observe(v, value)
        if not all(model.vocab_sizes().values()):  # a value may have been observed, not chosen
            score = fixed + _total(model, semiring, evidence, len(variables), None)
        return torch.stack(chosen, 1), score
    betas = list(messages.backward(model, semiring, evidence, len(variables)))[::-1]
    alpha = outer(semiring, model.initial, evidence.batch)
    for t in variables:
        last = torch.tensor(t == len(variables) - 1)
        value = pick(t, [(model.inputs, messages.open_step(model, semiring, alpha, betas[t + 1], last))])
        units = emit(semiring, model.inputs, apply(semiring, model.left.T, alpha), value)
        alpha = apply(semiring, model.right.T, units)
    if not model.vocab_size:
        score = _total(
            model, semiring, _prepare(model, torch.stack(chosen, 1), None)[0], len(variables), None
        )
    return torch.stack(chosen, 1), score


def _placed(layers: list[Continuous], unit: Tensor, seen: Tensor | None, place: Place) -> Tensor:
    """A value from the chosen unit (numbered through all layers), except in rows where one was observed."""
    value = torch.full(unit.shape, torch.nan) if seen is None else seen
    missing = value.isnan()
    for layer in layers:
        here = place(layer, unit.clamp(0, layer.num_units - 1))
        value = torch.where(missing & (unit >= 0) & (unit < layer.num_units), here, value)
        unit = unit - layer.num_units
    return value


def _weights(evidence: Evidence, variable: int, vocab_size: int) -> Float[Tensor, "batch vocab"]:
    """The logarithm of the evidence weights of a variable: (batch or 1, V)."""
    if variable in evidence.weights:
        return evidence.weights[variable].T.log()
    if variable in evidence.tokens:
        onehot = torch.nn.functional.one_hot(evidence.tokens[variable], vocab_size)
        return onehot.double().log()
    return torch.zeros(1, vocab_size)


def entropy(model: Model, *, n: int | None = None, joint: bool = False) -> Float[Tensor, ""]:
    """The entropy in nats of the normalised distribution of x; with ``joint``, of x and the latent states together.

    −Σ p log p = log Z − Σ_θ (θ ∂ log Z / ∂θ) log θ. The two agree for unambiguous automata; for other models with
    latent states the entropy of x alone has no closed form, and :class:`CircuitError` is raised unless ``joint``.
    """
    if not joint and not (isinstance(model, Automaton) and model.is_unambiguous):
        raise CircuitError(
            "entropy: latent states make the entropy of x intractable; give joint=True for that of (x, latent states)"
        )
    leaves: dict[int, Tensor] = {}

    def watch(t: Tensor) -> Tensor:
        return leaves.setdefault(id(t), t.detach().double().requires_grad_(True))

    with torch.enable_grad():  # unrolled, a chain counts its transitions between latent states and no other
        circuit = model if isinstance(model, Circuit) else model.unroll(len(_prepare(model, None, n)[1]))
        log_z = partition(circuit.map_layers(_free_weights).map(watch), semiring=Real())
        if log_z == -torch.inf:
            raise CircuitError("entropy: the model gives weight to no sequence, so there is no distribution")
        parameters = list(leaves.values())
        grads = torch.autograd.grad(log_z, parameters, allow_unused=True)
    terms = [
        torch.special.xlogy(g * p, p).sum() for p, g in zip(parameters, grads, strict=True) if g is not None
    ]
    return (log_z - torch.stack(terms).sum()).detach()


def _free_weights(layer: InputLayer | InnerLayer) -> InputLayer | InnerLayer:
    if isinstance(layer, Continuous):
        raise CircuitError(
            f"entropy: {layer!r} is over a continuous variable, whose density has no entropy of weights"
        )
    return layer.relaxed() if isinstance(layer, InputLayer) else layer


__all__ = ["conditional", "count", "entropy", "log_marginal", "mpe", "partition", "sample", "support"]
