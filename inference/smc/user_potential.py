"""Any Python function as a potential: φ(text) ≥ 0, asked where its boundary says and at the end, and never twice.

    φ_t(x_≤t) = φ(x_≤t cut at its last boundary),  1 before the first;        φ(x) at the end

The value is kept by text, so a particle that waits for its next boundary, or was copied, costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from ...errors import EvidenceError, PotentialError
from .boundaries import Boundary, at_end, every_token
from .potentials import AtBoundary, Potential
from .step import Extension
from .workers import Failure, Workers

CACHE_SIZE = 1 << 16


@final
class FunctionPotential(Potential):
    """Ψ(x) = ``function(text)``, a number ≥ 0 or a truth value; zero before the end must mean that no continuation will do.

    ``boundary``: one of ``every_token``, ``every_line``, ``every_clause``, ``every_statement``, ``every_json_value``,
    ``at_end``, or your own. ``final``: another function for complete sequences. With ``twist`` the function only steers and
    complete sequences count one. ``tokens``: it gets a tuple of token ids, not text. ``batched``: a list of them, and
    returns a list. ``log``: it returns log φ, in nats. ``processes``: it runs in so many worker processes, each call
    within ``timeout`` seconds (see :mod:`.workers`).

    A call that raises, hangs past the limit, or returns NaN, +∞ or a negative number raises :class:`PotentialError`
    with ``name`` and the text; with ``zero_on_error`` it counts as zero.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        boundary: Boundary = every_token,
        *,
        final: Callable[[Any], Any] | None = None,
        twist: bool = False,
        tokens: bool = False,
        batched: bool = False,
        log: bool = False,
        processes: int = 0,
        timeout: float | None = None,
        zero_on_error: bool = False,
        name: str | None = None,
    ) -> None:
        if timeout is not None and (processes < 1 or timeout <= 0):
            raise EvidenceError(
                "FunctionPotential: a time limit must be positive and needs processes=1 or more"
            )
        if processes and batched:
            raise EvidenceError("FunctionPotential: processes take one text at a time; leave batched out")
        if final is not None and twist:
            raise EvidenceError("FunctionPotential: a twist counts one at the end; leave final out")
        self.is_twist = twist
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self._boundary, self._functions = boundary, [function, final or function]
        self._separate_final, self._twist = final is not None, twist
        self._tokens, self._batched, self._log, self._zero = tokens, batched, log, zero_on_error
        self._pools = [Workers(f, processes, timeout) for f in self._functions] if processes else None
        self._cache: dict[tuple[Any, bool], float] = {}

    def at(self, boundary: Boundary) -> Potential:
        """This potential with another boundary, ``FunctionPotential(function, boundary, …)``.

        If it has a boundary already, it sees the text up to its own last boundary before the other's. A function of token
        ids sees whole tokens.
        """
        own = self._boundary
        if self._tokens and boundary is not at_end:
            return AtBoundary(self, boundary)
        chosen = copy(self)
        if boundary is at_end or own is every_token:
            chosen._boundary = boundary
        elif own is not at_end and boundary not in (own, every_token):
            chosen._boundary = lambda text: own(text[: boundary(text)])
        return chosen

    def log_value(self, rows: Extension) -> Float[Tensor, " rows"]:
        asked: dict[tuple[Any, bool], list[int]] = {}
        for row in rows.alive.nonzero()[:, 0].tolist():
            ended = bool(rows.ended[row])
            if ended and self._twist:
                continue
            prefix = rows.sequence(row) if self._tokens else rows.text(row)
            cut = len(prefix) if ended else self._cut(rows, row, prefix)
            if ended or cut:
                asked.setdefault((prefix[:cut], ended and self._separate_final), []).append(row)
        self._evaluate([key for key in asked if key not in self._cache])
        value = torch.zeros(len(rows.tokens), dtype=torch.float64)
        for key, found in asked.items():
            value[found] = self._cache[key]
        if len(self._cache) > CACHE_SIZE:
            self._cache = dict(list(self._cache.items())[CACHE_SIZE // 2 :])  # the latest
        return value

    def _cut(self, rows: Extension, row: int, prefix: Any) -> int:
        cut = int(self._boundary(prefix) if self._tokens else rows.cut(row, self._boundary))
        if not 0 <= cut <= len(prefix):
            raise PotentialError(self.name, f"has a boundary at {cut}, outside the text,", prefix)
        return cut

    def _evaluate(self, keys: list[tuple[Any, bool]]) -> None:
        for which in (False, True):
            texts = [text for text, final in keys if final is which]
            if texts:
                for text, value in zip(texts, self._call(texts, int(which)), strict=True):
                    self._cache[text, which] = self._checked(value, text)

    def _call(self, texts: list[Any], which: int) -> Sequence[Any]:
        function = self._functions[which]
        if self._pools is not None:
            return self._pools[which].map(texts)
        if not self._batched:
            return [_attempt(function, text) for text in texts]
        values = _attempt(lambda batch: list(function(batch)), texts)
        if isinstance(values, list) and len(values) == len(texts):
            return values
        # One of them is to blame: each alone.
        alone = [_attempt(lambda batch: next(iter(function(batch))), [text]) for text in texts]
        if any(isinstance(value, Failure) for value in alone):
            return alone
        what = (
            values.what if isinstance(values, Failure) else f"returned {len(values)} values for {len(texts)}"
        )
        return [Failure(what)] * len(texts)

    def _checked(self, value: Any, text: Any) -> float:
        failure = value if isinstance(value, Failure) else None
        if failure is None:
            try:
                number = float(value)
            except (TypeError, ValueError):
                failure = Failure(f"returned {value!r}, which is not a number,")
            else:
                if math.isnan(number) or number == math.inf or (number < 0 and not self._log):
                    failure = Failure(f"returned {number}")
        if failure is not None:
            if not self._zero:
                raise PotentialError(self.name, failure.what, text)
            return -math.inf
        if self._log:
            return number
        return math.log(number) if number > 0 else -math.inf


def _attempt(function: Callable[[Any], Any], argument: Any) -> Any:
    try:
        return function(argument)
    except Exception as error:
        return Failure(f"raised {type(error).__name__}: {error}")
