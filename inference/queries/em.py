"""Learning: EM and gradients, for any model.

    expected count of a weight θ  =  θ · ∂ log p(data) / ∂θ,

since a weight that is used c times contributes θ^c. The E-step is therefore one backward pass through ``log_marginal``,
which also sums over the uses of tied weights. The M-step normalises the counts of each row block (see
:mod:`tractile.circuits.parameters`); input layers have M-steps of their own. A step of size η blends:
θ ← (1 − η) θ + η · maximiser. With η = 1 on all data no step lowers the likelihood (Dempster, Laird & Rubin 1977); with
η < 1 on mini-batches this is stochastic EM (Cappé & Moulines 2009).

For gradients, :class:`Trainable` holds unconstrained parameters and gives the circuit of their softmax.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.distributions import Transform, constraints, transform_to
from torch.distributions.transforms import SoftmaxTransform

from ...circuits.chain import Chain, Vectors
from ...circuits.circuit import Circuit
from ...circuits.parameters import Block, blocks, replace
from ...errors import CircuitError, EvidenceError, ShapeError
from ...layers import InnerLayer, InputLayer
from ...layers.input import normalised_counts
from ..semirings.base import Log, Semiring
from .evidence import EvidenceLike
from .marginal import log_marginal

Model = TypeVar("Model", Chain, Circuit)


class Counts(NamedTuple):
    """Derivatives of the log-likelihood by each block of parameters, summed over a batch; ``of`` gives expected counts.

    ``derivatives[i]`` belongs to ``blocks[i]``: one tensor for each weight, or for each parameter of
    the layer's ``free_parameters()``. ``log_likelihood`` is in nats.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> coin = tt.HMM([1.0], [[1.0]], [[0.5, 0.5]])
    >>> counts = tt.inference.expected_counts(coin, torch.tensor([[1, 1, 0]]))
    >>> counts.of(coin.emission_probs)  # one 0 and two 1s
    tensor([[1., 2.]])
    >>> round(counts.log_likelihood.item(), 4)  # 3 log ½
    -2.0794
    """

    blocks: list[Block]
    derivatives: list[tuple[Tensor, ...]]
    log_likelihood: Float[Tensor, ""]  # nats

    def of(self, weight: Tensor) -> Tensor:
        """Return the expected counts θ · ∂ log p/∂θ of a parameter tensor, which must be the model's own tensor.

        For a layer with fewer parameters than weights (Bernoulli): the counts of its table (units, values). Raises
        :class:`CircuitError` for a tensor that is no parameter.
        """
        for block, derivatives in zip(self.blocks, self.derivatives, strict=True):
            weights = (
                block.tensors if block.layer is None else tuple(block.layer.free_parameters().parameters())
            )
            for i, tensor in enumerate(block.tensors):
                if tensor is weight:
                    return weights[i].detach() * derivatives[i]
        raise CircuitError(f"a tensor of shape {tuple(weight.shape)} is no parameter of this model")


class Fit(NamedTuple, Generic[Model]):
    """A fitted model and, for each epoch, the mean log-likelihood of a row in nats, each taken before its step.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> coin = tt.HMM([1.0], [[1.0]], [[0.5, 0.5]])
    >>> fit = tt.em(coin, torch.tensor([[1, 1, 0]]))
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
    probability zero.

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
    found, leaves = blocks(model), dict[tuple[int, ...], Tensor]()
    keys: dict[int, tuple[int, ...]] = {}  # a freed layer's tensor → its layer's parameters, and which

    def relax(layer: InputLayer) -> InputLayer:
        free = layer.free_parameters()
        own = tuple(map(id, layer.parameters()))
        for i, tensor in enumerate(free.parameters()):
            keys[id(tensor)] = (*own, i)
        kept.append(free)
        return free

    def leaf(tensor: Tensor) -> Tensor:
        key = keys.get(id(tensor), (id(tensor),))
        if key not in leaves:
            leaves[key] = tensor.detach().clone().requires_grad_()
        return leaves[key]

    kept: list[InputLayer] = []  # keeps the freed tensors alive: an id is unique among living objects only

    def differentiate(
        semiring: Semiring[Any] | None, wider: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Any]:
        with torch.enable_grad():
            freed = _freed(model, relax, leaf).map(wider)
            rows = log_marginal(freed, evidence, lengths=lengths, semiring=semiring, checkpoint=checkpoint)
            if bool((rows == -torch.inf).any()):
                row = int((rows == -torch.inf).nonzero()[0])
                raise EvidenceError(f"expected_counts: row {row} of the evidence has probability zero")
            return rows, torch.autograd.grad(rows.sum(), list(leaves.values()), allow_unused=True)

    rows, gradients = differentiate(None, lambda t: t)
    if not all(
        g is None or bool(g.isfinite().all()) for g in gradients
    ):  # by a weight of zero; in Log it is zero
        rows, gradients = differentiate(Log(), lambda t: t.double())
    by_key = {
        key: torch.zeros_like(value) if gradient is None else gradient
        for (key, value), gradient in zip(leaves.items(), gradients, strict=True)
    }

    def derivatives(block: Block) -> tuple[Tensor, ...]:
        own = tuple(map(id, block.tensors))
        if block.layer is None:
            return tuple(by_key[key,] for key in own)
        return tuple(by_key[(*own, i)] for i in range(len(block.layer.free_parameters().parameters())))

    return Counts(found, [derivatives(block) for block in found], rows.detach().sum())


class _Ended(Chain):
    """A chain with a constant ``unit_final``, so that a transition after the last token is not counted."""

    def __init__(self, chain: Chain, unit_final: Vectors) -> None:
        super().__init__(chain.initial, chain.left, chain.inputs, chain.right, chain.final)
        self._unit_final = unit_final

    @property
    def unit_final(self) -> Vectors:
        return self._unit_final


def _freed(
    model: Chain | Circuit, relax: Callable[[InputLayer], InputLayer], leaf: Callable[[Tensor], Tensor]
) -> Chain | Circuit:
    """Return the model with every weight a leaf tensor of autograd."""
    if isinstance(model, Circuit):

        def free(layer: InputLayer | InnerLayer) -> InputLayer | InnerLayer:
            return relax(layer).map(leaf) if isinstance(layer, InputLayer) else layer.map(leaf)

        return model.map_layers(free)
    chain = Chain(
        tuple(map(leaf, model.initial)),
        model.left.map(leaf),
        relax(model.inputs).map(leaf),
        model.right.map(leaf),
        tuple(v.detach() for v in model.final),
    )
    ones = all(bool((v == 1).all()) for v in model.final)
    return _Ended(chain, tuple(v.detach() for v in chain.unit_final)) if ones else chain


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
    (embeddings, products of layers, a chain with final weights), :class:`EvidenceError` if a row has probability zero.

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
    if isinstance(model, Chain) and not all(bool((v == 1).all()) for v in model.final):
        raise CircuitError(
            "em: a chain whose final weights are not ones is not normalised; learn it by gradients"
        )
    counts = expected_counts(model, evidence, lengths, checkpoint)
    new: dict[int, Tensor] = {}
    for block, derivatives in zip(counts.blocks, counts.derivatives, strict=True):
        if block.layer is not None:
            fitted = block.layer.maximise(derivatives, pseudocount)
        else:
            weights = block.join([t.detach() for t in block.tensors])
            fitted = block.split(normalised_counts(weights, block.join(derivatives), pseudocount))
        for old, better in zip(block.tensors, fitted, strict=True):
            new[id(old)] = better.detach() if step == 1 else torch.lerp(old.detach(), better.detach(), step)
    return replace(model, new), counts.log_likelihood


def em(
    model: Model,
    data: Tensor,
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

    ``data`` is batch first: values (rows, n) or weights (rows, n, vocab). ``step`` is η, or a function from the number of steps
    done to η (stochastic EM: ``lambda t: (t + 2) ** -0.6``). Without ``batch_size``, EM stops once an epoch changes the
    log-likelihood by less than ``tolerance`` nats a row (with a ``pseudocount`` it may fall). ``pseudocount`` is as in
    :func:`~tractile.inference.em_step`, ``lengths`` and ``checkpoint`` as in :func:`~tractile.log_marginal`.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> random = tt.circuits.builders.RandomParameters(seed=0)
    >>> start = tt.circuits.builders.cp([random.bernoulli()(v, 2) for v in range(3)], random.rows(2))
    >>> data = torch.tensor([[0, 0, 0], [1, 1, 1]]).repeat(50, 1)
    >>> fit = tt.em(start, data, epochs=30)
    >>> round(fit.log_likelihoods[0], 2), round(fit.log_likelihoods[-1], 2)  # nats a row; the best is log ½ = −0.69
    (-2.57, -0.69)
    """
    generator, done = torch.Generator().manual_seed(seed), 0
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


class Trainable(torch.nn.Module, Generic[Model]):
    """Unconstrained parameters for every weight of a model; calling it gives the model, through which gradients flow.

        trainable = Trainable(model);  optimiser = torch.optim.Adam(trainable.parameters())
        loss = -log_marginal(trainable(), batch).mean();  loss.backward();  optimiser.step()

    Rows of weights are the ``rows`` transform of the parameters: their softmax unless another is given. With
    ``ExpTransform()`` the model is not normalised: subtract :func:`~tractile.partition`. Other parameters of input layers keep
    to their ``constraints``. Tied tensors stay tied. Raises :class:`CircuitError` if a row of weights is zero throughout.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> trainable = tt.inference.Trainable(tt.HMM([1.0], [[1.0]], [[0.5, 0.5]]))
    >>> trainable.num_parameters  # an initial probability, a transition, two emissions
    4
    >>> loss = -tt.log_marginal(trainable(), torch.tensor([[1, 1, 0]])).mean()
    >>> loss.backward()
    >>> trainable.raw[1].grad  # expected minus observed uses: 1.5 − 1 of the 0, 1.5 − 2 of the 1
    tensor([[ 0.5000, -0.5000]])
    """

    def __init__(self, model: Model, rows: Transform | None = None) -> None:
        super().__init__()
        self._model: Model = model
        self._blocks = blocks(model)
        self._rows = SoftmaxTransform() if rows is None else rows
        self.raw = torch.nn.ParameterList(self._unconstrained(self._blocks))

    def forward(self) -> Model:
        """Return the model with the present parameters."""
        return self._constrained(list(self.raw))

    @property
    def num_parameters(self) -> int:
        """The number of unconstrained parameters, counted as numbers."""
        return sum(raw.numel() for raw in self.raw)

    def from_vector(self, vector: Float[Tensor, " parameters"]) -> Model:
        """Return the model whose unconstrained parameters are this vector, for example the output of a neural network."""
        if vector.shape != (self.num_parameters,):
            raise ShapeError(
                f"from_vector: {self.num_parameters} parameters are needed, not a tensor of shape {tuple(vector.shape)}"
            )
        pieces = vector.split([raw.numel() for raw in self.raw])
        return self._constrained([piece.view(raw.shape) for piece, raw in zip(pieces, self.raw, strict=True)])

    @torch.no_grad()
    def load(self, model: Model) -> None:
        """Set the parameters to the weights of a model of equal structure, for example after a step of EM.

        Raises :class:`ShapeError` for a model of another structure.
        """
        values = self._unconstrained(blocks(model))
        shapes = [tuple(raw.shape) for raw in self.raw], [tuple(value.shape) for value in values]
        if shapes[0] != shapes[1]:
            raise ShapeError(
                f"load: the parameters are of shapes {shapes[0]}, those of the model given of {shapes[1]}; "
                "give a model of equal structure"
            )
        for raw, value in zip(self.raw, values, strict=True):
            raw.copy_(value)

    def _unconstrained(self, found: list[Block]) -> list[Tensor]:
        raw: list[Tensor] = []
        for block in found:
            tensors = [t.detach() for t in block.tensors]
            if block.layer is None:
                weights = block.join(tensors)
                if not bool((weights.sum(-1) > 0).all()):
                    raise CircuitError(
                        f"Trainable: a row of weights of shape {tuple(weights.shape)} is zero throughout"
                    )
                raw.append(self._rows.inv(weights))
            else:
                raw += [t.inv(w) for t, w in zip(self._transforms(block.layer), tensors, strict=True)]
        return [tensor.clone() for tensor in raw]

    def _constrained(self, raw: list[Tensor]) -> Model:
        rest, new = iter(raw), dict[int, Tensor]()
        for block in self._blocks:
            if block.layer is None:
                weights = block.split(self._rows(next(rest)))
            else:
                weights = [transform(next(rest)) for transform in self._transforms(block.layer)]
            new |= {id(old): weight for old, weight in zip(block.tensors, weights, strict=True)}
        return replace(self._model, new)

    def _transforms(self, layer: InputLayer) -> Sequence[Transform]:
        return [self._rows if c is constraints.simplex else transform_to(c) for c in layer.constraints()]
