"""Proposals that draw row by row, and may evaluate a black-box check ψ on single tokens.

Each draws X with a weight Ŵ such that E[Ŵ · 1{X = x}] = q(x) · ψ(x) for a base proposal q, so Ŵ · p_lm(X) / q(X) is properly
weighted for p_lm · ψ. A row asks for a check by yielding a token and is sent ψ, so that the checks of all rows are evaluated
together.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from .potentials import Potential
from .proposals import GCDProposal, Proposal, Tabular
from .step import Step
from .user_function import UserFunction

Pick = Callable[[ndarray], int]
RowDraw = Generator[int, float, tuple[int, float]]  # yields a token and is sent its ψ; returns X and Ŵ
FEW = 0.25  # the mass below which the remaining tokens are drawn from directly


class RowContext:
    """A row about to draw a token: its distribution q and its tokens so far; ``pick`` draws an index by weight."""

    def __init__(
        self,
        q: Float[ndarray, " vocab"],
        prefix: tuple[int, ...],
        pick: Pick,
        cumulative: Float[ndarray, " vocab"] | None = None,
        uniform: Callable[[], float] | None = None,
    ) -> None:
        self.q, self.prefix, self.pick = q, prefix, pick
        self._cumulative, self._uniform = cumulative, uniform

    def remaining(self) -> Remaining:
        """Return a sampler of q without replacement."""
        return Remaining(self.q, self.pick, self._cumulative, self._uniform)


class Remaining:
    """A sampler from q without replacement; ``mass`` is the total probability of the remaining tokens."""

    def __init__(
        self,
        q: Float[ndarray, " vocab"],
        pick: Pick,
        cumulative: Float[ndarray, " vocab"] | None,
        uniform: Callable[[], float] | None,
    ) -> None:
        self._q, self._pick, self._cumulative, self._uniform = q, pick, cumulative, uniform
        self._gone: set[int] = set()
        self._rest: ndarray | None = q.copy() if cumulative is None else None
        self.mass = 1.0

    @property
    def empty(self) -> bool:
        """Whether no token remains."""
        return self._rest is not None and not self._rest.any()

    def draw(self) -> int:
        """Draw a remaining token in proportion to q, without removing it."""
        if self._rest is not None:
            return self._pick(self._rest)
        assert self._cumulative is not None
        assert self._uniform is not None
        while True:  # most of the mass remains: draw from all tokens until a remaining one comes
            point = self._uniform() * self._cumulative[-1]
            token = min(int(np.searchsorted(self._cumulative, point, "right")), len(self._q) - 1)
            if token not in self._gone and self._q[token] > 0:
                return token

    def remove(self, *tokens: int) -> None:
        """Remove tokens."""
        self._gone.update(tokens)
        self.mass -= float(sum(self._q[token] for token in tokens))
        if self._rest is None and self.mass < FEW:
            self._rest = self._q.copy()
            self._rest[list(self._gone)] = 0.0
        if self._rest is not None:
            self._rest[list(tokens)] = 0.0
            self.mass = float(self._rest.sum())


class RowProposal(Proposal):
    """A proposal that draws row by row from a ``base`` proposal and may evaluate a check on single tokens; abstract."""

    check: Check | None = None

    def __init__(self, base: Tabular | None = None) -> None:
        self.base: Tabular = GCDProposal() if base is None else base
        self.needs = self.base.needs

    @property
    def potential(self) -> Potential:
        """The default potential of the base proposal."""
        return self.base.potential

    @abstractmethod
    def draw_row(self, row: RowContext, step: Step) -> RowDraw:
        """Draw a token X and its weight Ŵ, properly weighted for q · ψ; yield each token to be checked."""

    def draw(
        self, step: Step, generator: torch.Generator
    ) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        log_q = self.base.checked(self.base.belief(step), step).double()
        possible = log_q.isfinite().any(dim=1)
        log_q = log_q.masked_fill(~possible[:, None], 0.0).log_softmax(dim=1)
        probs = log_q.exp().cpu()
        cumulative, q = probs.cumsum(1).numpy(), probs.numpy()

        def uniform() -> float:
            return float(torch.rand((), dtype=torch.float64, generator=generator))

        def pick(weights: ndarray) -> int:
            total = np.cumsum(weights)
            index = int(np.searchsorted(total, uniform() * total[-1], "right"))
            return index if index < len(total) else int(weights.nonzero()[0][-1])

        rows = possible.nonzero()[:, 0].tolist()
        prefixes = [tuple(prefix.tolist()) for prefix in step.prefixes]
        asking = {
            i: self.draw_row(RowContext(q[i], prefixes[i], pick, cumulative[i], uniform), step) for i in rows
        }
        results = self._draw_all(asking, prefixes, step)
        drawn = [results[i][0] if i in results else 0 for i in range(len(q))]
        weight = [results[i][1] if i in results else 0.0 for i in range(len(q))]
        tokens = torch.tensor(drawn, device=log_q.device)
        log_weight = self.base.log_weight(step, log_q.gather(1, tokens[:, None])[:, 0], tokens)
        return tokens, log_weight + torch.tensor(weight, dtype=torch.float64, device=log_q.device).log()

    def _draw_all(
        self, asking: dict[int, RowDraw], prefixes: Sequence[tuple[int, ...]], step: Step
    ) -> dict[int, tuple[int, float]]:
        """Run all rows until each has its token X and weight Ŵ, evaluating their checks together, round by round."""
        results: dict[int, tuple[int, float]] = {}
        answers: dict[int, Any] = dict.fromkeys(asking)
        while answers:
            questions: dict[int, int] = {}
            for i, answer in answers.items():
                try:
                    questions[i] = asking[i].send(answer)
                except StopIteration as stop:
                    results[i] = stop.value
            if not questions:
                break
            assert self.check is not None
            sequences = [
                ((*prefixes[i], token), step.last or token == step.eos_token_id)
                for i, token in questions.items()
            ]
            answers = dict(zip(questions, self.check.ask(sequences, step.decode), strict=True))
        return results


class Check:
    """The check ψ ∈ [0, 1] of a prefix: ``function(text)``, or ``complete(text)`` for a complete sequence; values are cached.

    With ``tokens`` the functions get a tuple of token ids; with ``batched`` a list of texts, and return a list of values. A
    function that raises or returns anything else raises :class:`PotentialError`.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        complete: Callable[[Any], Any] | None = None,
        *,
        tokens: bool = False,
        batched: bool = False,
    ) -> None:
        self._function, self._tokens = UserFunction(function, complete, highest=1.0, batched=batched), tokens

    def ask(
        self, sequences: Sequence[tuple[tuple[int, ...], bool]], decode: Callable[[Sequence[int]], str]
    ) -> list[float]:
        """Return ψ of each sequence, a pair of token ids and whether the sequence is complete."""
        return self._function.values(
            [(ids if self._tokens else decode(ids), complete) for ids, complete in sequences]
        )
