"""Information, exact where it is tractable (Vergari et al. 2021); everything in nats, of normalised distributions.

    entropy             −Σ p log p                        p deterministic
    cross_entropy       −Σ p log q                        q deterministic, compatible with p
    kl_divergence       Σ p log (p / q)                   both deterministic, compatible
    expectation         E_p[f]                            f a compatible circuit, or a sum of functions of one variable

A deterministic circuit multiplies the weights on one path, so log q(x) = Σ_θ log θ · [x uses θ], and how often θ is used
is a derivative: with 1_q the circuit q whose positive weights are all one,

    Σ_x p(x) [x uses θ] = ∂ (Σ_x p(x) 1_q(x)) / ∂ (the weight of 1_q in the place of θ).

Chains are taken at length ``n``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.circuit import Circuit
from ...circuits.graph_transforms import free_weights
from ...circuits.operations import multiply
from ...errors import CircuitError, EvidenceError
from ..semirings.base import Semiring
from ..semirings.linear import Counting, Residue
from .conditional import marginals_of
from .determinism import check_deterministic
from .evidence import EvidenceLike, check_possible
from .exact import Model, at_least_single
from .marginal import log_marginal, partition, prepare, root

PRIMES = (614639, 670049, 703537, 765313, 934469, 946331, 1018777, 1026439)  # moduli for comparing counts


def entropy(model: Model, *, n: int | None = None, joint: bool = False) -> Float[Tensor, ""]:
    """Return the entropy of x in nats; with ``joint``, that of x and the latent states together.

    The two agree for deterministic models (unambiguous automata). For others the entropy of x alone has no closed form, and
    :class:`CircuitError` is raised; ``joint`` needs no determinism.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> uniform = tt.inference.normalise(one.unroll(3))
    >>> round(tt.entropy(uniform).item(), 4)  # log 3
    1.0986
    """
    if not joint:
        try:
            check_deterministic(model if isinstance(model, Automaton) else _circuit(model, n))
        except CircuitError as error:
            raise CircuitError(
                "entropy: latent states make the entropy of x intractable; give joint=True for that of "
                f"(x, latent states). {error}"
            ) from error
    circuit = _circuit(model, n)  # an unrolled chain has no transition after its last position
    log_z, log_weight = _uses(circuit, None, "entropy")
    return log_z - log_weight


def cross_entropy(p: Model, q: Model, *, n: int | None = None) -> Float[Tensor, ""]:
    """Return −Σ p log q in nats; infinite if p has weight outside the support of q.

    Raises :class:`CircuitError` unless q is deterministic and compatible with p. The supports are compared by counting the
    paths of p with and without those that q excludes: below 2⁵³ paths exactly, beyond that modulo eight primes drawn from
    the 38,635 between 2¹⁹ and 2²⁰. A difference of at most e^10000 paths is a multiple of all eight by chance with a
    probability below 10⁻¹³.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> p, q = (tt.circuits.builders.factorised([tt.layers.Categorical(torch.tensor([[1 - x, x]]))]) for x in (0.5, 0.9))
    >>> round(tt.inference.cross_entropy(p, q).item(), 4)  # −½ log 0.1 − ½ log 0.9
    1.204
    """
    p, q = check_compared(p, q, n, "cross_entropy")
    check_determined(q, "cross_entropy", "q")
    if not covers(q, p, "cross_entropy"):
        return torch.tensor(torch.inf, dtype=torch.float64)
    _, log_weight = _uses(q, p, "cross_entropy")
    return partition(q) - log_weight


def covers(q: Circuit, p: Circuit, operation: str) -> bool:
    """Return whether all that p gives weight has weight under q, which must be deterministic: by counts of paths."""
    free = q.map_layers(lambda layer: free_weights(layer, operation))
    ones = free.map(lambda t: (t.detach() > 0).to(torch.float64))
    return _same_count(multiply(p, ones), p)


def _same_count(a: Circuit, b: Circuit) -> bool:
    """Return whether two circuits have equally many paths of positive weight; a's paths must be among b's."""
    a, b = a.to("cpu"), b.to("cpu")

    def count(circuit: Circuit, semiring: Semiring[Tensor]) -> float:
        evidence, variables = prepare(circuit, None, None)
        return float(root(circuit, semiring, evidence, len(variables), None))

    counts = [count(circuit, Counting()) for circuit in (a, b)]
    if counts[1] < 2.0**53:
        return counts[0] == counts[1]
    return all(count(a, Residue(p)) == count(b, Residue(p)) for p in PRIMES)


def kl_divergence(p: Model, q: Model, *, n: int | None = None) -> Float[Tensor, ""]:
    """Return Σ p log (p / q) ≥ 0 in nats; infinite if p has weight outside the support of q.

    Computed as cross-entropy minus entropy. Raises :class:`CircuitError` unless p and q are deterministic and compatible.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> p, q = (tt.circuits.builders.factorised([tt.layers.Categorical(torch.tensor([[1 - x, x]]))]) for x in (0.5, 0.9))
    >>> round(tt.inference.kl_divergence(p, q).item(), 4), round(tt.inference.kl_divergence(p, p).item(), 4)
    (0.5108, 0.0)
    >>> one, two = (tt.Automaton.from_edges([(0, [0, 1][:k], 0)], 0, [0], vocab_size=2) for k in (1, 2))
    >>> tt.inference.kl_divergence(two, one, n=3)  # 111 is outside the support of the other
    tensor(inf, dtype=torch.float64)
    """
    check_determined(_circuit(p, n), "kl_divergence", "p")
    return cross_entropy(p, q, n=n) - entropy(p, n=n)


def expectation(
    model: Model,
    f: Model | Mapping[int, Float[Tensor, " vocab"]],
    evidence: EvidenceLike = None,
    *,
    n: int | None = None,
) -> Float[Tensor, " batch"]:
    """Return E[f(x) | evidence] for each row of evidence.

    ``f`` is a compatible circuit or chain f ≥ 0, or a mapping from variables v to tables f_v (vocab,), of any sign, for
    f(x) = Σ_v f_v(x_v). Raises :class:`EvidenceError` if the evidence has probability zero or a table does not fit.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> worth = {v: torch.tensor([0.0, 1.0]) for v in range(3)}
    >>> tt.inference.expectation(hmm, worth, n=3)  # the expected number of ones in three
    tensor([1.6500], dtype=torch.float64)
    >>> tt.inference.expectation(hmm, worth, [1, 1, None])  # given two of them
    tensor([2.6573], dtype=torch.float64)
    """
    if not isinstance(f, Mapping):
        if isinstance(model, Circuit) or isinstance(f, Circuit):
            known, variables = prepare(model, evidence, n)
            model, f = _circuit(model, len(variables)), _circuit(f, len(variables))
            if set(f.variables) - set(model.variables):
                raise CircuitError(
                    f"expectation: f has variables {f.variables}, the model only {model.variables}"
                )
            return _ratio(log_marginal(multiply(model, f), known), log_marginal(model, known))
        return _ratio(log_marginal(multiply(model, f), evidence, n=n), log_marginal(model, evidence, n=n))
    known, variables = prepare(model, evidence, n)
    sizes = model.vocab_sizes() if isinstance(model, Circuit) else dict.fromkeys(variables, model.vocab_size)
    unfit = [v for v, t in f.items() if v not in sizes or t.shape != (sizes[v],)]
    if unfit:
        raise EvidenceError(f"expectation: no variables with as many values as the tables given for {unfit}")
    tables, batch = marginals_of(model, known, variables, sorted(f)), known.batch
    terms = [(tables[v].exp() * t).sum(1) for v, t in f.items()]
    return torch.stack(terms).sum(0) if terms else torch.zeros(batch, dtype=torch.float64)


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    check_possible(below, "expectation")
    return (above - below).exp()


def _circuit(model: Model, n: int | None) -> Circuit:
    circuit = model if isinstance(model, Circuit) else model.unroll(len(prepare(model, None, n)[1]))
    return at_least_single(circuit)


def check_determined(circuit: Circuit, operation: str, name: str) -> None:
    """Raise :class:`CircuitError` unless the circuit is deterministic."""
    try:
        check_deterministic(circuit)
    except CircuitError as error:
        raise CircuitError(f"{operation}: {name} must be deterministic; {error}") from error


def check_compared(p: Model, q: Model, n: int | None, operation: str) -> tuple[Circuit, Circuit]:
    """Return both as circuits. Raises :class:`CircuitError` if their variables or numbers of values differ."""
    a, b = _circuit(p, n), _circuit(q, n)
    if a.vocab_sizes() != b.vocab_sizes():
        raise CircuitError(
            f"{operation}: the variables (and values) differ, {a.vocab_sizes()} and {b.vocab_sizes()}"
        )
    return a, b


def _total(circuit: Circuit, operation: str) -> Tensor:
    """Return log Σ_x p(x) in nats; raise :class:`CircuitError` if it is −inf."""
    log_total = partition(circuit)
    if log_total == -torch.inf:
        raise CircuitError(f"{operation}: the model gives weight to no sequence, so there is no distribution")
    return log_total


def _uses(q: Circuit, p: Circuit | None, operation: str) -> tuple[Tensor, Tensor]:
    """Return log of the total weight, and Σ_θ E[uses of θ] log θ over the weights θ of q.

    With p, x is drawn from p and the total is Σ_x p(x) 1_q(x); without p, (x, latent states) is drawn from q, whose partition
    function is the total.
    """
    leaves: dict[int, tuple[Tensor, Tensor]] = {}

    learned = torch.is_grad_enabled() and any(
        t.requires_grad for model in (q, p) if model is not None for t in model.parameters()
    )

    def watch(t: Tensor) -> Tensor:
        weight = t.double() if learned else t.detach().double()
        at = weight if p is None else (t.detach() > 0).double()
        at = at if at.requires_grad else at.detach().requires_grad_()
        return leaves.setdefault(id(t), (weight, at))[1]

    with torch.enable_grad():
        relaxed = q.map_layers(lambda layer: free_weights(layer, operation))
        watched = relaxed.map(watch)
        whole = watched if p is None else multiply(p if learned else p.map(torch.Tensor.detach), watched)
        log_total = _total(whole, operation)
        weights, places = zip(*leaves.values(), strict=True) if leaves else ((), ())
        grads: Any = ()
        if leaves:
            grads = torch.autograd.grad(log_total, places, allow_unused=True, create_graph=learned)
        terms = [
            torch.special.xlogy(g * at, w).sum()
            for w, at, g in zip(weights, places, grads, strict=True)
            if g is not None
        ]
        uses = torch.stack(terms).sum() if terms else torch.zeros((), dtype=torch.float64)
    return (log_total, uses) if learned else (log_total.detach(), uses.detach())
