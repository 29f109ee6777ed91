"""Evidence: what is known of each variable, as a weight for each of its values.

observed       one-hot          an int, or a (batch,) tensor of ints, −1 where it is marginalised
marginalised   ones             None, or −1
one of a set   0/1              a set of ints, or a boolean (V,) or (batch, V) tensor
soft           any w ≥ 0        a float (V,) or (batch, V) tensor
continuous     a real number    a float, or a (batch,) tensor of floats with nan = marginalised
open           the axis kept    the query variable, named by the query (``conditional(…, variable)``)

Evidence on all variables is a tensor or an array (batch, n), a list of rows, or a list with the evidence of each variable. Types
tell them apart: lists within a list are rows, sets are sets of values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...errors import EvidenceError
from ...layers.functorch_utils import any_if_concrete, is_abstract

CPU = torch.device("cpu")
EvidenceLike = (
    Any  # None | Int[Tensor, "batch n"] | Float[Tensor, "batch n vocab"] | Sequence | Mapping[variable, …]
)


class Evidence:
    """Evidence for a batch: ``tokens[v]`` (batch,) or ``weights[v]`` (V, batch); a variable in neither is marginalised.

    Tokens are −1 in the rows where the variable is marginalised; those of a continuous variable are floats, nan in such rows.
    ``device`` holds all tensors; the values of layers without parameters are computed there.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> known = tt.inference.Evidence(batch=2).observe(0, torch.tensor([1, 1])).observe(2, torch.tensor([0, 1]))
    >>> tt.log_marginal(hmm, known, n=3).exp()  # 1 ? 0 and 1 ? 1
    tensor([0.2279, 0.3221], dtype=torch.float64)
    """

    def __init__(self, batch: int, device: torch.device = CPU) -> None:
        self.batch, self.device = batch, device
        self.tokens: dict[int, Int[Tensor, " batch"]] = {}
        self.weights: dict[int, Float[Tensor, "vocab batch"]] = {}

    def observe(self, variable: int, tokens: Int[Tensor, " batch"]) -> Evidence:
        """Return a copy in which a variable has these values, one for each row."""
        out = self._copy()
        out.weights.pop(variable, None)
        out.tokens[variable] = torch.as_tensor(tokens)
        return out

    def repeat(self, index: Int[Tensor, " rows"]) -> Evidence:
        """Return the evidence of the rows ``index``, which may repeat."""
        out = Evidence(len(index), self.device)
        out.tokens = {v: t.index_select(0, index) for v, t in self.tokens.items()}
        out.weights = {v: w.index_select(1, index) for v, w in self.weights.items()}
        return out

    def without(self, variable: int) -> Evidence:
        """Return a copy in which a variable is marginalised."""
        out = self._copy()
        out.tokens.pop(variable, None)
        out.weights.pop(variable, None)
        return out

    def to(self, device: torch.device) -> Evidence:
        """Return the evidence on another device."""
        if device == self.device:
            return self
        out = Evidence(self.batch, device)
        out.tokens = {v: t.to(device) for v, t in self.tokens.items()}
        out.weights = {v: w.to(device) for v, w in self.weights.items()}
        return out

    def _copy(self) -> Evidence:
        out = Evidence(self.batch, self.device)
        out.tokens, out.weights = dict(self.tokens), dict(self.weights)
        return out


def as_evidence(
    evidence: EvidenceLike, vocab_sizes: Mapping[int, int], device: torch.device = CPU
) -> Evidence:
    """Convert evidence on the variables of ``vocab_sizes`` (0: continuous) to :class:`Evidence` on ``device``.

    Raises :class:`EvidenceError` if the evidence does not fit the variables.
    """
    evidence = in_rows(evidence)
    if isinstance(evidence, Evidence):
        return _of_variables(evidence, vocab_sizes, device)
    if isinstance(evidence, Tensor):
        _must_be_real(evidence, "evidence")
        if not holds_weights(evidence):
            evidence = evidence.long()  # of any integer type
        return _read(evidence.to(device), vocab_sizes, device)
    return _read(evidence, vocab_sizes, device)


def in_rows(evidence: EvidenceLike) -> EvidenceLike:
    """Return an array, or a list of rows, as a tensor; other evidence as it is."""
    if isinstance(evidence, np.ndarray):
        return torch.as_tensor(evidence)
    rows = evidence if isinstance(evidence, list | tuple) else ()
    if not rows or not all(isinstance(row, list | tuple | np.ndarray) for row in rows):
        return evidence
    try:
        return torch.as_tensor(np.array(rows))
    except (TypeError, ValueError) as error:
        raise EvidenceError(
            f"evidence as a list of lists is rows of equal length, with −1 where a value is missing; a set is {{0, 1}} ({error})"
        ) from None


def _of_variables(evidence: Evidence, vocab_sizes: Mapping[int, int], device: torch.device) -> Evidence:
    """Return the evidence, checked. Raises :class:`EvidenceError` if it does not fit the variables or its own batch."""
    items = {**evidence.tokens, **{v: w.T for v, w in evidence.weights.items()}}
    if not items or not evidence.batch:
        return evidence.to(device)
    found = _read(items, vocab_sizes, device)
    if found.batch not in (1, evidence.batch):
        raise EvidenceError(
            f"evidence for a batch of {evidence.batch} rows has {found.batch} values of a variable"
        )
    if found.batch < evidence.batch:
        found = found.repeat(torch.zeros(evidence.batch, dtype=torch.long, device=device))
    return found


def _read(evidence: EvidenceLike, vocab_sizes: Mapping[int, int], device: torch.device) -> Evidence:
    items: dict[int, Any]
    if evidence is None:
        items = {}
    elif isinstance(evidence, Mapping):
        items = dict(evidence)
    elif isinstance(evidence, Tensor) and 0 in list(vocab_sizes.values()):
        columns = zip(vocab_sizes.items(), _rows(evidence, 2, len(vocab_sizes)).unbind(1), strict=True)
        items = {v: _whole(column, v) if size else column for (v, size), column in columns}
    elif isinstance(evidence, Tensor) and holds_weights(evidence):
        _must_be_weights(evidence, vocab_sizes)
        items = dict(zip(vocab_sizes, _rows(evidence, 3, len(vocab_sizes)).unbind(1), strict=True))
    elif isinstance(evidence, Tensor):
        rows = _rows(evidence, 2, len(vocab_sizes))
        observed = Evidence(len(rows), device)
        if not rows.numel():
            return observed
        low, high = (-2, 0) if is_abstract(rows) else map(int, rows.aminmax())
        if low >= -1 and high < min(vocab_sizes.values()):  # one check for all
            observed.tokens = dict(zip(vocab_sizes, rows.T.long().contiguous().unbind(0), strict=True))
            if low < 0:
                for v, some in zip(vocab_sizes, (rows >= 0).any(0).tolist(), strict=True):
                    _ = some or observed.tokens.pop(v)
            return observed
        items = dict(zip(vocab_sizes, rows.unbind(1), strict=True))
    elif isinstance(evidence, Sequence):
        if len(evidence) != len(vocab_sizes):
            raise EvidenceError(
                f"evidence on {len(evidence)} variables, but the circuit has {len(vocab_sizes)}"
            )
        items = dict(zip(vocab_sizes, evidence, strict=True))
    else:
        raise EvidenceError(
            f"evidence must be a tensor, a sequence, a mapping or None, not {type(evidence).__name__}"
        )
    unknown = sorted(set(items) - set(vocab_sizes), key=repr)
    if unknown:
        raise EvidenceError(f"evidence on variables {unknown}, which the circuit does not have")
    known = {
        v: (_one(item, v, vocab_sizes[v]) if vocab_sizes[v] else _real(item, v)).to(device)
        for v, item in items.items()
        if item is not None
    }
    sizes = {t.shape[-1] for t in known.values()} - {1}
    if 0 in sizes:
        raise EvidenceError("evidence is for a batch of no rows")
    if len(sizes) > 1:
        raise EvidenceError(f"evidence has rows for different batches: {sorted(sizes)}")
    out = Evidence(sizes.pop() if sizes else 1, device)
    for v, t in known.items():
        t = t.expand(*t.shape[:-1], out.batch)
        if not vocab_sizes[v]:
            out.tokens[v] = t
        elif t.is_floating_point():
            out.weights[v] = t
        else:
            _observe(out, v, t, vocab_sizes[v])
    return out


def holds_weights(evidence: EvidenceLike) -> bool:
    """Return whether evidence is a (batch, n, vocab) tensor of weights (booleans: the values allowed)."""
    return isinstance(evidence, Tensor) and (evidence.is_floating_point() or evidence.dtype == torch.bool)


def check_possible(
    log_p: Float[Tensor, " batch"], query: str, rows: Int[Tensor, " batch"] | None = None
) -> None:
    """Raise :class:`EvidenceError` that names a row of probability zero; ``rows``: the numbers of the rows."""
    impossible = log_p.detach().isneginf()
    if any_if_concrete(impossible):
        row = int(impossible.nonzero()[0])
        number = row if rows is None else int(rows[row])
        raise EvidenceError(f"{query}: row {number} of the evidence has probability zero")


def _must_be_real(values: Tensor, what: str) -> None:
    if values.is_complex():
        raise EvidenceError(f"{what} must be of real numbers or integers, not of {values.dtype}")


def _must_be_weights(evidence: Tensor, vocab_sizes: Mapping[int, int]) -> None:
    """Refuse floats that are no weights: observed values given as floats, perhaps with nan where one is missing."""
    size = next(iter(vocab_sizes.values()), 0)
    if evidence.ndim not in (2, 3) or (evidence.shape[-2:] != (len(vocab_sizes), size) and size):
        raise EvidenceError(
            f"evidence of {evidence.dtype} holds weights, ([batch,] {len(vocab_sizes)} variables, values), not "
            f"{tuple(evidence.shape)}; observed values are integers, ([batch,] variables), with −1 where one is missing"
        )
    if any_if_concrete(evidence.isnan()):
        raise EvidenceError(
            "evidence holds nan as a weight; give a variable that is not observed the weight one for every value, or "
            "give integers, with −1 where a value is missing"
        )


def _rows(evidence: Tensor, ndim: int, variables: int) -> Tensor:
    evidence = evidence.unsqueeze(0) if evidence.ndim == ndim - 1 else evidence
    if evidence.ndim != ndim or evidence.shape[1] != variables:
        raise EvidenceError(
            f"evidence of shape {tuple(evidence.shape)} does not fit {variables} variables (batch first)"
        )
    return evidence


def _real(item: Any, variable: int) -> Tensor:
    """Return the evidence of a continuous variable as floats (batch,)."""
    numeric = isinstance(item, int | float) and not isinstance(item, bool)
    values = torch.tensor([float(item)], dtype=torch.float64) if numeric else item
    if (
        not isinstance(values, Tensor)
        or values.ndim != 1
        or not values.is_floating_point()
        or any_if_concrete(values.isinf())
    ):
        raise EvidenceError(
            f"variable {variable} is continuous: its evidence must be None, a finite number or a (batch,) tensor of floats "
            f"(nan: marginalised), not {item!r}"
        )
    return values


def _whole(values: Float[Tensor, " batch"], variable: int) -> Int[Tensor, " batch"]:
    """Convert a discrete variable's column of a float tensor to ints; nan becomes −1 (marginalised)."""
    found = values.nan_to_num(-1)
    if any_if_concrete(found != found.round()):
        raise EvidenceError(f"variable {variable} is discrete: its values must be whole numbers")
    return found.long()


def _chosen(item: Any, variable: int, vocab_size: int) -> Tensor:
    """Return one value as tokens (1,), a set of allowed values as weights (V,)."""
    if isinstance(item, bool) or not isinstance(item, Integral | set | frozenset):
        raise EvidenceError(
            f"variable {variable}: evidence must be None, an int, a set of ints or a tensor, not {item!r} (the values of several "
            "rows are a tensor, a set of values is a set)"
        )
    if isinstance(item, Integral):
        return torch.tensor([int(item)])
    chosen = list(item)
    if not chosen or not all(
        isinstance(t, Integral) and not isinstance(t, bool) and 0 <= int(t) < vocab_size for t in chosen
    ):
        raise EvidenceError(
            f"variable {variable}: a set must hold values in 0 … {vocab_size - 1}, not {item!r} (a mask of the values "
            "allowed is a tensor of booleans)"
        )
    allowed = torch.zeros(vocab_size)
    allowed[chosen] = 1.0
    return allowed


def _one(item: Any, variable: int, vocab_size: int) -> Tensor:
    """Return one variable's evidence as tokens (batch,) or weights (V, batch)."""
    if isinstance(item, np.ndarray):
        item = torch.as_tensor(item)
    if not isinstance(item, Tensor):
        item = _chosen(item, variable, vocab_size)
    _must_be_real(item, f"variable {variable}: evidence")
    if item.dtype == torch.bool:
        item = item.float()
    if item.is_floating_point():
        weights: Tensor = item.unsqueeze(0) if item.ndim == 1 else item
        if (
            weights.ndim != 2
            or weights.shape[1] != vocab_size
            or any_if_concrete(~((weights >= 0) & weights.isfinite()))
        ):
            raise EvidenceError(
                f"variable {variable}: weights must be finite, ≥ 0 and of shape (batch, {vocab_size}), not {tuple(item.shape)}"
            )
        return weights.T
    item = item.long()
    if item.ndim != 1 or any_if_concrete((item < -1) | (item >= vocab_size)):
        raise EvidenceError(
            f"variable {variable}: observed values must be a (batch,) tensor in 0 … {vocab_size - 1} (or −1: marginalised)"
        )
    tokens: Tensor = item
    return tokens


def _observe(evidence: Evidence, variable: int, tokens: Tensor, vocab_size: int) -> None:
    """Store observed values in place: as tokens, or as weights if the values cannot be read."""
    missing = tokens < 0
    if is_abstract(missing):
        values = torch.arange(vocab_size, device=tokens.device)
        evidence.weights[variable] = ((values[:, None] == tokens) | missing).float()
    elif not bool(missing.all()):
        evidence.tokens[variable] = tokens
