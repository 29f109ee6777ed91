"""Gradients: unconstrained parameters for the weights of any model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Transform, constraints, transform_to
from torch.distributions.transforms import SoftmaxTransform

from ...circuits.chain import Chain
from ...circuits.circuit import Circuit
from ...circuits.parameters import Block, blocks, replace
from ...errors import CircuitError, ShapeError
from ...layers import InputLayer

Model = TypeVar("Model", Chain, Circuit)


class Trainable(torch.nn.Module, Generic[Model]):
    """Unconstrained parameters for every weight of a model; calling it gives the model, through which gradients flow.

        trainable = Trainable(model);  optimiser = torch.optim.Adam(trainable.parameters())
        loss = -log_marginal(trainable(), batch).mean();  loss.backward();  optimiser.step()

    Rows of weights are the ``rows`` transform of the parameters: their softmax unless another is given. With
    ``ExpTransform()`` the model is not normalised: subtract :func:`~tractile.partition`. Other parameters of input layers keep
    to their ``constraints``. Tied tensors stay tied, and weights of zero stay zero. Raises :class:`CircuitError` if a row of
    weights is zero throughout.

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
        self._fixed: list[Tensor | None] = []
        self.raw = torch.nn.ParameterList(self._finite(self._unconstrained(self._blocks)))

    def forward(self) -> Model:
        """Return the model with the present parameters."""
        return self._constrained(list(self.raw))

    @property
    def num_parameters(self) -> int:
        """The number of unconstrained scalar parameters."""
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
        for raw, value in zip(self.raw, self._finite(values), strict=True):
            raw.copy_(value)

    def _finite(self, raw: list[Tensor]) -> list[Tensor]:
        """Keep infinite entries, those of weights of zero, aside; return zeros in their place."""
        self._fixed = [None if bool(t.isfinite().all()) else t for t in raw]
        return [t.masked_fill(~t.isfinite(), 0) for t in raw]

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
        whole = (
            t if fixed is None else torch.where(fixed.isfinite().to(t.device), t, fixed.to(t))
            for t, fixed in zip(raw, self._fixed, strict=True)
        )
        rest, new = iter(whole), dict[int, Tensor]()
        for block in self._blocks:
            if block.layer is None:
                weights = block.split(self._rows(next(rest)))
            else:
                weights = [transform(next(rest)) for transform in self._transforms(block.layer)]
            new |= {id(old): weight for old, weight in zip(block.tensors, weights, strict=True)}
        return replace(self._model, new)

    def _transforms(self, layer: InputLayer) -> Sequence[Transform]:
        return [self._rows if c is constraints.simplex else transform_to(c) for c in layer.constraints()]
