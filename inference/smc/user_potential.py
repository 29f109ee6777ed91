"""Any Python function as a potential: φ(text) ≥ 0, evaluated at the boundaries of the text and at its end.

    φ_t(x_≤t) = φ(x_≤t cut at its last boundary),  1 before the first;        φ(x) at the end

Values are cached by text, so no call is made for a particle that has reached no new boundary or is a copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from ...errors import EvidenceError, PotentialError
from .boundaries import Boundary, at_end, every_token
from .potentials import AtBoundary, Potential
from .step import Extension
from .user_function import UserFunction, log_of


@final
class FunctionPotential(Potential):
    """The potential Ψ(x) = ``function(text)``, a number ≥ 0 or a truth value.

    Zero before the end must mean that every continuation has value zero. ``boundary``: one of ``every_token``, ``every_line``,
    ``every_clause``, ``every_statement``, ``every_json_value``, ``at_end``, or your own. ``final``: another function for complete
    sequences. ``twist``: the function only steers, and Ψ = 1 for complete sequences. ``tokens``: the function gets a tuple of
    token ids, not text. ``batched``: it gets a list of arguments and returns a list. ``log``: it returns log φ, in nats.
    ``processes``: the number of worker processes in which it runs, each call within ``timeout`` seconds.

    A call that raises, hangs past the limit, or returns NaN, +∞ or a negative number raises :class:`PotentialError`
    with ``name`` and the text; with ``zero_on_error`` it counts as zero.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> few = tt.inference.smc.FunctionPotential(lambda tokens: 0.5 ** sum(tokens), tokens=True)
    >>> post = tt.smc(lm, [], second, "gcd", particles=400, max_new_tokens=2, seed=0, potential=few)
    >>> round(post.log_evidence, 1)  # log of (0.2 · 0.5) · (0.8 + 0.2 · 0.5): -2.4
    -2.4
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
            raise EvidenceError("FunctionPotential: a time limit is positive and needs processes=1 or more")
        if processes and batched:
            raise EvidenceError("FunctionPotential: processes take one text at a time; leave batched out")
        if final is not None and twist:
            raise EvidenceError("FunctionPotential: a twist counts one at the end; leave final out")
        self.is_twist = twist
        self._boundary, self._separate_final = boundary, final is not None
        self._tokens, self._log = tokens, log
        zero = -math.inf if log else 0.0
        self._function = UserFunction(
            function,
            final,
            lowest=zero,
            batched=batched,
            processes=processes,
            timeout=timeout,
            on_error=zero if zero_on_error else None,
            name=name,
        )

    @property
    def name(self) -> str:
        """The function's name in errors."""
        return self._function.name

    def at(self, boundary: Boundary) -> Potential:
        """Return this potential with another boundary, as ``FunctionPotential(function, boundary, …)``.

        If it has a boundary already, the function gets the text up to the last of its own boundaries within the text cut at
        ``boundary``. A function of token ids gets whole tokens.
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
        asked: dict[int, tuple[Any, bool]] = {}
        for row, (alive, ended) in enumerate(zip(rows.alive.tolist(), rows.ended.tolist(), strict=True)):
            if not alive or (self.is_twist if ended else self._boundary is at_end):
                continue
            prefix = rows.sequence(row) if self._tokens else rows.text(row)
            cut = len(prefix) if ended else self._cut(rows, row, prefix)
            if ended or cut:
                asked[row] = prefix[:cut], ended and self._separate_final
        value = torch.zeros(len(rows.tokens), dtype=torch.float64)
        numbers = self._function.values(list(asked.values())) if asked else []
        for row, number in zip(asked, numbers, strict=True):
            value[row] = number if self._log else log_of(number)
        return value

    def _cut(self, rows: Extension, row: int, prefix: Any) -> int:
        cut = int(self._boundary(prefix) if self._tokens else rows.cut(row, self._boundary))
        if not 0 <= cut <= len(prefix):
            raise PotentialError(self.name, f"has a boundary at {cut}, outside the text,", prefix)
        return cut
