"""Read HMM checkpoints of the Ctrl-G family: directories written by ``PyTorchModelHubMixin``, with ``config.json`` and
``model.safetensors`` or ``pytorch_model.bin``. Their tensors (h hidden states, v tokens):

    beta                         (h, v)       log p(x_t | z_t)
    gamma or gamma_exp           (h,), (1, h) log p(z_1), or p(z_1); the models normalise ``gamma`` themselves
    alpha_exp                    (h, h)       p(z_{t+1} | z_t)                      dense (Zhang et al. 2024, Ctrl-G)
    alpha_exp.weights_exp.s      (h / b_s, b_s, b_s), s = 1 … k, h = b_1 ⋯ b_k      Monarch (Zhang et al. 2025)

Monarch factor s rewrites index s of the state (i_1, …, i_k); its blocks are numbered by the other indices in the order
(i_{s+1}, …, i_k, i_1, …, i_{s−1}). Emissions of −1e10 or −inf are zero. In every checkpoint the last state emits only the
end-of-sequence token and is absorbing, so sequences are padded with this token, as in Tractile.

The training of these models clamps parameters from below without normalising again, and checkpoints come in half precision:
rows whose sum is within 1 % of one are divided by it, others are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ...errors import FormatError
from ...layers import Dense, Monarch, Operator

TOLERANCE = 0.01  # how far a row's sum may be from one
FACTOR = "alpha_exp.weights_exp."

Parameters = tuple[Float[Tensor, " hidden"], Operator, Float[Tensor, "hidden vocab"]]


def is_ctrlg(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bool:
    """Return whether a directory holds a checkpoint of this family: no format of Tractile, and a transition ``alpha_exp``."""
    return "format" not in config and any(name.split(".")[0] == "alpha_exp" for name in tensors)


def ctrlg_parameters(
    path: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor], dtype: torch.dtype
) -> Parameters:
    """Convert a checkpoint of this family to (π, A, B). Raises :class:`FormatError`, naming the tensor at fault."""

    def rows(name: str, shape: tuple[int, ...], log_space: bool, unnormalised: bool = False) -> Tensor:
        if name not in tensors:
            raise FormatError(f"{path}: the checkpoint has no {name!r}, only {', '.join(sorted(tensors))}")
        weight = tensors[name]
        if tuple(weight.shape) != shape:
            raise FormatError(f"{path}: {name} should have shape {shape}, not {tuple(weight.shape)}")
        if not weight.is_floating_point():
            raise FormatError(f"{path}: {name} should hold floating-point numbers, not {weight.dtype}")
        weight = weight.to(dtype)
        if unnormalised and bool(weight.isfinite().any()):
            return weight.softmax(-1)
        weight = weight.exp() if log_space else weight
        total = weight.sum(-1, keepdim=True)
        off = (total - 1).abs()
        if not bool((off <= TOLERANCE).all()) or bool((weight < 0).any()):
            worst = float(total.flatten()[int(off.nan_to_num(torch.inf).argmax())])
            space = "log-probabilities" if log_space else "probabilities"
            raise FormatError(
                f"{path}: the rows of {name} should be {space} that sum to one (± {TOLERANCE}); one sums to {worst:g}"
            )
        return weight / total

    beta = tensors.get("beta")
    if beta is None or beta.ndim != 2 or 0 in beta.shape:
        found = "missing" if beta is None else f"of shape {tuple(beta.shape)}"
        raise FormatError(f"{path}: beta should hold log-emissions of shape (hidden, vocab); it is {found}")
    hidden, vocab = beta.shape
    for key, size in (("hidden_states", hidden), ("hidden_size", hidden), ("vocab_size", vocab)):
        if config.get(key, size) != size:
            raise FormatError(f"{path}: config.json says {key} = {config[key]}, beta has {size}")
    eos = config.get("eos_token_id")
    if eos is not None and not (isinstance(eos, int) and 0 <= eos < vocab):
        raise FormatError(f"{path}: the end-of-sequence token {eos} is not among the {vocab} tokens of beta")
    if "gamma" in tensors:
        initial = rows("gamma", (hidden,), True, unnormalised=True)
    else:
        initial = rows("gamma_exp", (1, hidden), False)[0]
    transition: Operator
    if "alpha_exp" in tensors:
        transition = Dense(rows("alpha_exp", (hidden, hidden), False))
    else:
        numbers = sorted(int(n.removeprefix(FACTOR)) for n in tensors if n.removeprefix(FACTOR).isdigit())
        names = [f"{FACTOR}{s}" for s in numbers]
        blocks = tuple(int(tensors[name].shape[-1]) for name in names)
        if prod(blocks) != hidden or list(blocks) != list(config.get("block_sizes", blocks)):
            raise FormatError(
                f"{path}: the blocks {blocks} of alpha_exp should multiply to {hidden} states, "
                f"as block_sizes = {config.get('block_sizes')} in config.json"
            )
        weights = [rows(name, (hidden // b, b, b), False) for name, b in zip(names, blocks, strict=True)]
        transition = Monarch([_factor(w, s, blocks) for s, w in enumerate(weights)], range(len(blocks)))
    return initial, transition, rows("beta", (hidden, vocab), True)


def _factor(weight: Tensor, axis: int, dims: tuple[int, ...]) -> Tensor:
    """Permute the blocks of factor ``axis`` from the order (i_{axis+1}, …, i_k, i_1, …, i_{axis−1}, row) to (i_1, …, i_k)."""
    k = len(dims)
    order = [*range(axis + 1, k), *range(axis), axis]
    split = weight.reshape(*(dims[i] for i in order), dims[axis])
    return split.permute(*(order.index(i) for i in range(k)), k).contiguous()
