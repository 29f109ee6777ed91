"""Proposals that draw row by row from a base proposal q, and adaptive weighted rejection sampling (Lipkin et al. 2025).

Each row draws X with a weight Ŵ such that E[Ŵ · 1{X = x}] = q(x) · ψ(x), so Ŵ · p_lm(X) / q(X) is properly weighted for
p_lm · ψ. AWRS draws tokens from q without replacement until a black-box check accepts one, X, and once more; M is the mass of q
that was not refused before X:

    Ŵ = M if one more draw is accepted, q(X) if not        E[Ŵ · 1{X = x}] = q(x) · 1[x is accepted]
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from ...errors import EvidenceError
from .potentials import Potential
from .proposals import GCDProposal, Proposal, Tabular
from .step import Knowledge, Step
from .user_function import UserFunction

FEW = 0.25  # the share of the mass below which draws are made from the tokens that are left alone


class Row:
    """A row about to draw a token: its distribution q, its tokens so far, and draws from q without replacement.

    ``mass`` is the probability of the tokens not removed yet.
    """

    def __init__(
        self, q: Float[ndarray, " vocab"], prefix: Sequence[int], generator: torch.Generator
    ) -> None:
        self.q, self.prefix, self.mass = q, tuple(prefix), 1.0
        self._generator, self._gone = generator, set[int]()
        self._left, self._cumulative = q, q.cumsum()

    def pick(self, weights: Float[ndarray, " n"], cumulative: Float[ndarray, " n"] | None = None) -> int:
        """Draw an index with probability proportional to its weight; ``cumulative`` is ``weights.cumsum()``."""
        cumulative = weights.cumsum() if cumulative is None else cumulative
        point = float(torch.rand((), dtype=torch.float64, generator=self._generator)) * cumulative[-1]
        index = int(np.searchsorted(cumulative, point, "right"))
        return index if index < len(weights) else int(weights.nonzero()[0][-1])

    def draw(self) -> int:
        """Draw a token that is left in proportion to q, without removing it."""
        while (token := self.pick(self._left, self._cumulative)) in self._gone:
            pass
        return token

    def remove(self, token: int) -> None:
        """Remove a token."""
        self._gone.add(token)
        self.mass -= float(self.q[token])
        if self.mass < FEW * self._cumulative[-1]:
            self._left = self.q.copy()
            self._left[list(self._gone)] = 0.0
            self._cumulative = self._left.cumsum()
            self.mass = float(self._left.sum())

    @property
    def empty(self) -> bool:
        """Whether no token is left."""
        return not self.mass


class RowProposal(Proposal):
    """A proposal that draws row by row from the table q of a ``base`` proposal (default: GCD); abstract."""

    def __init__(self, base: Tabular | None = None) -> None:
        self.base: Tabular = GCDProposal() if base is None else base
        self.needs = self.base.needs

    @property
    def potential(self) -> Potential:
        return self.base.potential

    @abstractmethod
    def draw_rows(self, rows: Sequence[Row], step: Step) -> Sequence[tuple[int, float]]:
        """Draw a token X and its weight Ŵ for each row, properly weighted for q · ψ."""

    def draw(
        self, step: Step, generator: torch.Generator
    ) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        log_q = self.base.checked(self.base.belief(step), step).double().cpu()
        possible = log_q.isfinite().any(dim=1)
        log_q = log_q.masked_fill(~possible[:, None], 0.0).log_softmax(dim=1)
        index, q = possible.nonzero()[:, 0].tolist(), log_q.exp().numpy()
        drawn = self.draw_rows([Row(q[i], step.prefixes[i].tolist(), generator) for i in index], step)
        tokens, weight = torch.zeros(len(q), dtype=torch.long), torch.zeros(len(q), dtype=torch.float64)
        for i, (token, value) in zip(index, drawn, strict=True):
            tokens[i], weight[i] = token, value
        log_q = log_q.gather(1, tokens[:, None])[:, 0]
        return tokens, self.base.log_weight(step, log_q, tokens) + weight.log()


@final
class AWRSProposal(RowProposal):
    """Adaptive weighted rejection sampling (Lipkin et al. 2025) with a black-box check.

    ``check(text)`` says whether a prefix may be continued, ``complete(text)`` whether a sequence may end there (default:
    ``check``). Both must return yes or no, and ``check`` yes for every prefix of an accepted sequence. The final target is p_lm
    times the check of the complete sequence. ``base`` is the proposal to draw from (default: GCD on the automaton). After
    ``max_rejects`` rejections at one place the particle dies; the weights stay right. With ``tokens`` the functions get token
    ids; with ``batched`` a list, for the rows of a step together.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> check = tt.inference.smc.AWRSProposal(lambda tokens: len(tokens) != 2 or tokens[1] == 1, tokens=True)
    >>> post = tt.smc(lm, [], None, check, particles=200, max_new_tokens=2, seed=0)
    >>> round(post.log_evidence, 1)  # log 0.2 = -1.6
    -1.6
    >>> sorted(set(p.token_ids[1] for p in post.particles if p.weight > 0))
    [1]
    """

    def __init__(
        self,
        check: Callable[[Any], Any],
        complete: Callable[[Any], Any] | None = None,
        *,
        base: Tabular | None = None,
        tokens: bool = False,
        batched: bool = False,
        max_rejects: int | None = None,
    ) -> None:
        super().__init__(base)
        if max_rejects is not None and max_rejects < 1:
            raise EvidenceError(f"AWRSProposal: max_rejects must be positive, it is {max_rejects}")
        self._check = UserFunction(check, complete, highest=1.0, batched=batched)
        self._tokens, self.max_rejects = tokens, max_rejects

    def draw_rows(self, rows: Sequence[Row], step: Step) -> Sequence[tuple[int, float]]:
        """Draw in all rows at once: the tokens that they ask about are checked together, round by round."""
        going = [recursive(row, self.max_rejects) for row in rows]
        found = [(0, 0.0)] * len(rows)
        answers: dict[int, Any] = dict.fromkeys(range(len(rows)))
        while answers:
            asked: dict[int, tuple[Any, bool]] = {}
            for i, answer in answers.items():
                try:
                    token = going[i].send(answer)
                except StopIteration as stop:
                    found[i] = stop.value
                else:
                    ids = (*rows[i].prefix, token)
                    complete = step.last or token == step.eos_token_id
                    asked[i] = ids if self._tokens else step.texts(ids), complete
            answers = dict(zip(asked, map(_yes, self._check.values(list(asked.values()))), strict=True))
        return found


def recursive(row: Row, max_rejects: int | None = None) -> Generator[int, bool, tuple[int, float]]:
    """Draw X and Ŵ by AWRS; yields each token that is to be checked, and is sent whether it is accepted."""
    rejects = 0
    while True:
        mass, token = row.mass, row.draw()
        accepted = yield token
        row.remove(token)
        if accepted:
            if row.empty or rejects + 1 == max_rejects:
                return token, mass
            return token, mass if (yield row.draw()) else float(row.q[token])
        rejects += 1
        if row.empty or rejects == max_rejects:
            return token, 0.0


def _yes(value: float) -> bool:
    if value not in (0.0, 1.0):
        raise EvidenceError(f"AWRSProposal: the check must say yes or no, it said {value}")
    return bool(value)


@final
class MaskedAWRSProposal(Proposal):
    """:class:`AWRSProposal` on p_lm with the constraint's own mask (at any length) as the check, for all rows at once.

    Tokens and weights have the same distribution as there. Draws without replacement come in the order of E / p_lm for
    independent exponential E, so the first acceptance and the draw after it are two minima, and the refusals are all before.
    """

    needs = Knowledge.LOCAL

    def draw(
        self, step: Step, generator: torch.Generator
    ) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        p = step.log_probs.double().exp()
        uniform = torch.rand(p.shape, dtype=torch.float64, generator=generator).to(p.device)
        times = (uniform.neg_().log1p_().neg_() / p).masked_fill_(p == 0, torch.inf)
        tokens, weight = first_accepted(times, p, step.mask)
        return tokens, weight.log()


def first_accepted(
    times: Float[Tensor, "rows vocab"], p: Float[Tensor, "rows vocab"], allowed: Bool[Tensor, "rows vocab"]
) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
    """Return X and Ŵ if tokens are drawn in the order of ``times``; a token at infinity is never drawn."""
    when, token = times.masked_fill(~allowed, torch.inf).min(dim=1, keepdim=True)
    mass = p.masked_fill(times < when, 0.0).sum(dim=1)
    behind, other = times.masked_fill(times <= when, torch.inf).min(dim=1, keepdim=True)
    refused = (behind.isfinite() & ~allowed.gather(1, other))[:, 0]
    weight = torch.where(refused, p.gather(1, token)[:, 0], mass)
    return token[:, 0], weight.masked_fill_(when.isinf()[:, 0], 0.0)
