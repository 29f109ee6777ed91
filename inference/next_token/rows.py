"""Argument checks, bit-packed masks and normalised scores of next-token queries."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self, SupportsIndex

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int32
from numpy import ndarray
from torch import Tensor

from ...argument_checks import whole_numbers
from ...errors import BudgetTooSmall, EvidenceError, FormatError, ShapeError, VocabularyMismatch
from ..arguments import short, whole
from ..semirings.base import Semiring
from ..semirings.linear import Boolean
from ..semirings.logarithms import MaxProduct
from .history import NO_ROWS
from .protocol import NextTokenQuery, Tokens


class Shortfall(NamedTuple):
    """An infeasible length, the next feasible one (None: unknown), and whether that is the least or an upper bound of it."""

    given: int
    needed: int | None
    exact: bool = True


class NoRows:
    """Stands for what holds the rows of a query until it has some: asked for, it is an :class:`EvidenceError`."""

    def __get__(self, query: object, kind: type) -> Self:
        if query is None:
            return self
        raise EvidenceError(NO_ROWS)


class Copied:
    """What every query is: copied with rows of its own and shared tables, by ``copy``, ``deepcopy`` and ``fork``; never pickled.

    The attributes that hold rows are set when rows begin.
    """

    if not TYPE_CHECKING:
        _rows = NoRows()

    def __copy__(self) -> Self:
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__)
        return out

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy(self)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise FormatError(
            f"a {type(self).__name__} is not pickled: save its automaton and HMM, and make the query again where it is needed"
        )


def check_horizon(horizon: int | None, name: str) -> None:
    """Raise :class:`EvidenceError` for a horizon that is no whole number, :class:`BudgetTooSmall` below one token."""
    horizon = None if horizon is None else whole(horizon, f"{name}: horizon", None)
    if horizon is not None and horizon < 1:
        raise BudgetTooSmall(
            f"{name}: the horizon must be at least one token, not {horizon}", needed=None, given=horizon
        )


def shortfall_of(fits: Bool[Tensor, " lengths"], asked: list[int], horizon: int | None) -> Shortfall | None:
    """Return the smallest length asked for that does not fit and the next one up to the horizon that does; None if all fit.

    Lengths beyond the last of ``fits`` are as that one.
    """
    known = fits[[min(length, len(fits) - 1) for length in asked]].tolist()
    given = min((length for length, fit in zip(asked, known, strict=True) if not fit), default=None)
    if given is None:
        return None
    longer = [] if horizon is None else fits[given + 1 :].nonzero()[:1, 0].tolist()
    return Shortfall(given, given + 1 + longer[0] if longer else None)


def checked_tokens(tokens: Tokens, rows: int, vocab_size: int) -> Int[Tensor, " batch"]:
    """Return one token id per row; raise :class:`VocabularyMismatch` for anything else."""
    found = whole_numbers(tokens, "advance: token ids", VocabularyMismatch)
    if found.shape != (rows,):
        raise VocabularyMismatch(
            f"advance: one token for each of {rows} rows, not shape {tuple(found.shape)}"
        )
    if rows and (int(found.min()) < 0 or int(found.max()) >= vocab_size):
        raise VocabularyMismatch(f"advance: a token lies outside the vocabulary of {vocab_size}")
    return found


def row_indices(indices: Tensor | Sequence[int] | Sequence[bool], rows: int) -> Int[Tensor, " rows"]:
    """Return the rows to keep as positions of 0 or more.

    ``indices`` are positions, negative ones counted from the end, or one Boolean for each row. Raises :class:`ShapeError` for
    anything else.
    """
    wanted = f"select: takes the positions of rows, or a Boolean for each of {rows} rows, not"
    try:
        index = torch.as_tensor(indices)
    except (TypeError, ValueError, RuntimeError):
        raise ShapeError(f"{wanted} {short(indices)}") from None
    if not index.numel() and index.dtype != torch.bool:
        index = index.long()
    integral = not index.is_floating_point() and not index.is_complex()
    if index.ndim != 1 or not integral or (index.dtype == torch.bool and len(index) != rows):
        raise ShapeError(f"{wanted} {index.dtype} of shape {tuple(index.shape)}")
    if index.dtype == torch.bool:
        return index.nonzero().squeeze(1)
    if index.device.type != "cpu":  # range-checking would wait for the device
        return index.long()
    lowest, highest = map(int, index.aminmax()) if len(index) else (0, -1)
    if lowest < -rows or highest >= rows:
        raise ShapeError(f"select: a position lies outside the {rows} rows: {index.tolist()}")
    return index.long() if lowest >= 0 else torch.where(index < 0, index + rows, index).long()


def conditionals(
    m: Float[Tensor, "batch vocab"], remaining: Int[Tensor, " batch"], semiring: Semiring[Any]
) -> Float[Tensor, "batch vocab"]:
    """Normalise log m(v) by each row's ⊕-total, in nats, as :meth:`NextTokenQuery.scores` returns it."""
    total = m.amax(1) if isinstance(semiring, Boolean | MaxProduct) else m.logsumexp(1)
    if bool((total.isneginf() & (remaining.to(total.device) > 0)).any()):
        raise EvidenceError(
            "the chain gives this prefix and its accepted continuations no probability at all"
        )
    return m - total.masked_fill(total.isneginf(), 0)[:, None]


def no_hmm(query: NextTokenQuery) -> NoReturn:
    """Raise :class:`EvidenceError`: a query without an HMM has no lookahead."""
    raise EvidenceError(
        f"{type(query).__name__}: the lookahead is a probability under an HMM; ask a query made by pgcd(hmm, …)"
    )


def pack_bits(mask: Bool[Tensor, "batch vocab"]) -> Int[Tensor, "batch words"]:
    """Pack Booleans into int32 words: token v is bit v mod 32 of word v div 32, as in xgrammar and vLLM."""
    padded = torch.nn.functional.pad(mask, (0, -mask.shape[1] % 32)).cpu().numpy()
    words = np.packbits(padded, axis=1, bitorder="little").view("<i4")
    return torch.from_numpy(words.astype(np.int32, copy=False)).to(mask.device)


def unpack_bits(words: Int32[ndarray, "batch words"], vocab_size: int) -> Bool[Tensor, "batch vocab"]:
    """Unpack little-endian 32-bit words into Booleans, the inverse of ``pack_bits``."""
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    return torch.from_numpy(bits[:, :vocab_size].view(bool))


def single_bit(words: memoryview) -> int | None:
    """Return the index of the only set bit in int32 words; None if no bit or several bits are set."""
    array = np.frombuffer(words, np.uint32)
    places = array.nonzero()[0]
    word = int(array[places[0]]) if len(places) == 1 else 0
    return None if word.bit_count() != 1 else 32 * int(places[0]) + word.bit_length() - 1


def check_words(out: Int32[ndarray, "batch words"], rows: int, width: int) -> None:
    """Raise :class:`ShapeError` if a buffer is not (rows, width) of int32."""
    if out.shape != (rows, width) or out.dtype != np.int32:
        raise ShapeError(
            f"the buffer must be int32 of shape ({rows}, {width}), not {out.dtype} of {tuple(out.shape)}"
        )


def buffer_of(out: Tensor) -> Int32[ndarray, "batch words"]:
    """Return a tensor as a numpy array that shares its memory; raise :class:`ShapeError` unless int32 on the CPU."""
    if out.dtype != torch.int32 or out.device.type != "cpu":
        raise ShapeError(f"bitmask: the buffer must be int32 on the CPU, not {out.dtype} on {out.device}")
    return out.detach().numpy()
