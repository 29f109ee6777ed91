"""Proposals for a black-box check ψ that can only be asked about one token at a time; few tokens are.

Each draws X with a weight Ŵ such that E[Ŵ · 1{X = x}] = q(x) · ψ(x) for a base proposal q, so Ŵ · p_lm(X) / q(X) is properly
weighted for p_lm · ψ. All randomness goes through ``pick(weights)``, an index drawn in proportion.

    AWRS     adaptive weighted rejection sampling (Lipkin et al. 2025), the recursive estimator: draw without replacement
             until one is accepted, and once more to learn how much mass that leaves
    top-k    the K most probable tokens, and one of the rest for all the rest
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Generator, Tensor

from ...errors import EvidenceError, PotentialError
from .proposals import GCDProposal, Proposal, Tabular
from .step import Step

Pick = Callable[[ndarray], int]
CACHE_SIZE = 1 << 16


class OneByOne(Proposal):
    """A proposal that draws row by row, with another for its belief about the next token."""

    def __init__(self, base: Tabular | None = None) -> None:
        self.base: Tabular = GCDProposal() if base is None else base
        self.needs = self.base.needs

    @abstractmethod
    def draw_row(self, q: Float[ndarray, " vocab"], step: Step, row: int, pick: Pick) -> tuple[int, float]:
        """A token and Ŵ, properly weighted for q · ψ; q sums to one."""

    def draw(self, step: Step, generator: Generator) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        log_q = self.base.belief(step).double()
        possible = log_q.isfinite().any(dim=1)
        log_q = log_q.masked_fill(~possible[:, None], 0.0).log_softmax(dim=1)
        q = log_q.exp().cpu().numpy()

        def pick(weights: ndarray) -> int:
            total = np.cumsum(weights)
            uniform = float(torch.rand((), dtype=torch.float64, generator=generator))
            return min(
                int(np.searchsorted(total, uniform * total[-1], "right")), int(weights.nonzero()[0][-1])
            )

        drawn, weight = [0] * len(q), [0.0] * len(q)
        for row in possible.nonzero()[:, 0].tolist():
            drawn[row], weight[row] = self.draw_row(q[row], step, row, pick)
        tokens = torch.tensor(drawn, device=log_q.device)
        log_weight = self.base.log_weight(step, log_q.gather(1, tokens[:, None])[:, 0], tokens)
        return tokens, log_weight + torch.tensor(weight, dtype=torch.float64, device=log_q.device).log()


class Check:
    """ψ ∈ [0, 1] of a prefix: ``function(text)``, or ``complete(text)`` once the sequence is complete; each asked once.

    With ``tokens`` they get a tuple of token ids. A check that raises or returns something else is a :class:`PotentialError`.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        complete: Callable[[Any], Any] | None = None,
        *,
        tokens: bool = False,
    ) -> None:
        self._function, self._complete, self._tokens = function, complete or function, tokens
        self._cache: dict[tuple[Any, bool], float] = {}

    def __call__(self, step: Step, row: int, token: int) -> float:
        """ψ of the row's prefix with ``token``."""
        sequence = (*step.prefixes[row].tolist(), token)
        text = sequence if self._tokens else step.decode(sequence)
        key = (text, bool(step.ends(torch.tensor([token]))[0]))
        if key not in self._cache:
            function = self._complete if key[1] else self._function
            name = str(getattr(function, "__name__", type(function).__name__))
            try:
                value = float(function(text))
            except Exception as error:
                raise PotentialError(name, f"raised {type(error).__name__}: {error},", text) from error
            if not 0 <= value <= 1:
                raise PotentialError(name, f"returned {value}, which is not between 0 and 1,", text)
            if len(self._cache) >= CACHE_SIZE:
                self._cache.clear()
            self._cache[key] = value
        return self._cache[key]


@final
class AWRSProposal(OneByOne):
    """Adaptive weighted rejection sampling: ``check(text)`` says whether a prefix may go on, ``complete(text)`` whether it
    may end there (default: the same). The final target is p_lm times the check of the complete sequence.

    ``base`` is what is drawn from (default: GCD on the automaton). After ``max_rejects`` rejections in one place the
    particle dies; the weights stay right. The check must be a yes or no, and yes for every prefix of what it accepts.
    """

    def __init__(
        self,
        check: Callable[[Any], Any],
        complete: Callable[[Any], Any] | None = None,
        *,
        base: Tabular | None = None,
        tokens: bool = False,
        max_rejects: int | None = None,
    ) -> None:
        super().__init__(base)
        if max_rejects is not None and max_rejects < 1:
            raise EvidenceError(f"AWRSProposal: max_rejects must be positive, it is {max_rejects}")
        self.check, self.max_rejects = Check(check, complete, tokens=tokens), max_rejects

    def draw_row(self, q: Float[ndarray, " vocab"], step: Step, row: int, pick: Pick) -> tuple[int, float]:
        left = q.copy()  # what has not been drawn; its mass is the product of all (1 − share) so far
        rejects = 0
        while True:
            mass = float(left.sum())
            token = pick(left)
            share = float(left[token]) / mass
            left[token] = 0.0
            exhausted = not left.any()
            if self._accepts(step, row, token):
                if exhausted or rejects + 1 == self.max_rejects:
                    return token, mass
                return token, mass if self._accepts(step, row, pick(left)) else mass * share
            rejects += 1
            if exhausted or rejects == self.max_rejects:
                return token, 0.0

    def _accepts(self, step: Step, row: int, token: int) -> bool:
        value = self.check(step, row, token)
        if value not in (0.0, 1.0):
            raise EvidenceError(
                f"AWRSProposal: the check must say yes or no, it said {value}; use TopKProposal"
            )
        return bool(value)


@final
class TopKProposal(OneByOne):
    """The ``k`` most probable tokens weighed by ``check``, and one of the rest, drawn, that stands for all of them.

    ``check`` and ``complete`` as in :class:`AWRSProposal`, but they may return anything between 0 and 1; the final target is
    p_lm times the product of the checks of all prefixes. k + 1 checks for a token.
    """

    def __init__(
        self,
        check: Callable[[Any], Any],
        complete: Callable[[Any], Any] | None = None,
        k: int = 16,
        *,
        base: Tabular | None = None,
        tokens: bool = False,
    ) -> None:
        super().__init__(base)
        if k < 1:
            raise EvidenceError(f"TopKProposal: k must be positive, it is {k}")
        self.check, self.k = Check(check, complete, tokens=tokens), k

    def draw_row(self, q: Float[ndarray, " vocab"], step: Step, row: int, pick: Pick) -> tuple[int, float]:
        top = np.argsort(-q, kind="stable")[: self.k]
        tokens = [int(token) for token in top if q[token] > 0]
        mass = [float(q[token]) for token in tokens]
        rest = q.copy()
        rest[top] = 0.0
        if rest.any():
            tokens.append(pick(rest))
            mass.append(float(rest.sum()))
        weights = np.array([m * self.check(step, row, t) for m, t in zip(mass, tokens, strict=True)])
        if not weights.any():
            return tokens[0], 0.0
        return tokens[pick(weights)], float(weights.sum())
