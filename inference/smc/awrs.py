"""Adaptive weighted rejection sampling (Lipkin et al. 2025): draw from q until a black-box check accepts, and a little longer
to estimate the mass of q that the check accepts. With A the accepted tokens, each form has E[Ŵ · 1{X = x}] = q(x) · 1[x ∈ A]:

    recursive     without replacement to the first acceptance X, then one more draw:  Ŵ = M if it is accepted, q(X) if not,
                  M the mass that was not refused before X
    two rounds    without replacement to the first acceptance and, without removing X, to a second:
                  Ŵ = M / (1 + all refusals), M the mass that was not refused before X
    geometric     with replacement to r acceptances or m refusals; known tokens are simulated without a check:
                  Ŵ = min(r − 1, a) / (a + n − 1) for a acceptances and n refusals

The recursive form makes the fewest checks. The others make more for a weight of lower variance: two rounds if few tokens are
accepted, the geometric form as many as ``wanted`` says.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from ...errors import EvidenceError
from .blackbox import Check, RowContext, RowDraw, RowProposal
from .proposals import Proposal, Tabular
from .step import Knowledge, Step


class CheckedProposal(RowProposal):
    """The base of proposals that draw until a check accepts the token; abstract."""

    def __init__(
        self,
        check: Callable[[Any], Any],
        complete: Callable[[Any], Any] | None = None,
        *,
        base: Tabular | None = None,
        tokens: bool = False,
        batched: bool = False,
    ) -> None:
        super().__init__(base)
        self.check = Check(check, complete, tokens=tokens, batched=batched)

    @abstractmethod
    def draw_row(self, row: RowContext, step: Step) -> RowDraw: ...

    def _yes(self, value: float) -> bool:
        if value not in (0.0, 1.0):
            raise EvidenceError(
                f"{type(self).__name__}: the check must say yes or no, it said {value}; use TopKProposal"
            )
        return bool(value)


@final
class AWRSProposal(CheckedProposal):
    """Adaptive weighted rejection sampling, recursive form, with a black-box check.

    ``check(text)`` says whether a prefix may be continued, ``complete(text)`` whether a sequence may end there (default:
    ``check``). Both must return yes or no, and ``check`` yes for every prefix of an accepted sequence. The final target is p_lm
    times the check of the complete sequence. ``base`` is the proposal to draw from (default: GCD on the automaton). After
    ``max_rejects`` rejections at one place the particle dies; the weights stay right. With ``tokens`` the functions get token
    ids; with ``batched`` a list, for the rows of a step together.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
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
        super().__init__(check, complete, base=base, tokens=tokens, batched=batched)
        if max_rejects is not None and max_rejects < 1:
            raise EvidenceError(f"AWRSProposal: max_rejects must be positive, it is {max_rejects}")
        self.max_rejects = max_rejects

    def draw_row(self, row: RowContext, step: Step) -> RowDraw:
        left, rejects = row.remaining(), 0
        while True:
            mass, token = left.mass, left.draw()
            accepted = self._yes((yield token))
            left.remove(token)
            if accepted:
                if left.empty or rejects + 1 == self.max_rejects:
                    return token, mass
                return token, mass if self._yes((yield left.draw())) else float(row.q[token])
            rejects += 1
            if left.empty or rejects == self.max_rejects:
                return token, 0.0


@final
class MaskedAWRSProposal(Proposal):
    """:class:`AWRSProposal` on p_lm with the constraint's own mask (at any length) as the check, for all rows at once.

    Tokens and weights have the same distribution as there. Draws without replacement come in the order of E / p_lm for
    independent exponential E, so the first acceptance and the draw after it are two minima, and the refusals are all before.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> from tractile.inference.smc import MaskedAWRSProposal
    >>> post = tt.smc(lm, [], second, MaskedAWRSProposal(), particles=200, max_new_tokens=2, seed=0)
    >>> sorted(set(p.token_ids[1] for p in post.particles if p.weight > 0))
    [1]
    """

    needs = Knowledge.LOCAL

    def draw(self, step: Step, generator: Generator) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        p = step.log_probs.double().exp()
        uniform = torch.rand(p.shape, dtype=torch.float64, generator=generator).to(p.device)
        times = (uniform.neg_().log1p_().neg_() / p).masked_fill_(p == 0, torch.inf)
        tokens, weight = first_accepted(times, p, step.mask)
        return tokens, weight.log()


def first_accepted(
    times: Float[Tensor, "rows vocab"], p: Float[Tensor, "rows vocab"], allowed: Bool[Tensor, "rows vocab"]
) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
    """Return X and Ŵ of the recursive form if tokens are drawn in the order of ``times``; a token at infinity is never drawn."""
    when, token = times.masked_fill(~allowed, torch.inf).min(dim=1, keepdim=True)
    mass = p.masked_fill(times < when, 0.0).sum(dim=1)
    behind, other = times.masked_fill(times <= when, torch.inf).min(dim=1, keepdim=True)
    refused = (behind.isfinite() & ~allowed.gather(1, other))[:, 0]
    weight = torch.where(refused, p.gather(1, token)[:, 0], mass)
    return token[:, 0], weight.masked_fill_(when.isinf()[:, 0], 0.0)


@final
class TwoRoundsProposal(CheckedProposal):
    """Adaptive weighted rejection sampling in two rounds; the arguments are those of :class:`AWRSProposal`.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> check = tt.inference.smc.TwoRoundsProposal(lambda tokens: len(tokens) != 2 or tokens[1] == 1, tokens=True)
    >>> post = tt.smc(lm, [], None, check, particles=200, max_new_tokens=2, seed=0)
    >>> sorted(set(p.token_ids[1] for p in post.particles if p.weight > 0))
    [1]
    """

    def draw_row(self, row: RowContext, step: Step) -> RowDraw:
        left, rejects = row.remaining(), 0
        while True:
            mass, token = left.mass, left.draw()
            if self._yes((yield token)):
                break
            left.remove(token)
            rejects += 1
            if left.empty:
                return token, 0.0
        while True:
            again = left.draw()
            if again == token or self._yes((yield again)):
                return token, mass / (1 + rejects)
            left.remove(again)
            rejects += 1


@final
class GeometricProposal(CheckedProposal):
    """Adaptive weighted rejection sampling to ``wanted`` acceptances or ``max_rejects`` refusals, with replacement.

    More of either means more checks and a weight of lower variance. Other arguments are those of :class:`AWRSProposal`.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> check = tt.inference.smc.GeometricProposal(lambda tokens: len(tokens) != 2 or tokens[1] == 1, tokens=True)
    >>> post = tt.smc(lm, [], None, check, particles=200, max_new_tokens=2, seed=0)
    >>> sorted(set(p.token_ids[1] for p in post.particles if p.weight > 0))
    [1]
    """

    def __init__(
        self,
        check: Callable[[Any], Any],
        complete: Callable[[Any], Any] | None = None,
        *,
        wanted: int = 3,
        max_rejects: int = 64,
        base: Tabular | None = None,
        tokens: bool = False,
        batched: bool = False,
    ) -> None:
        super().__init__(check, complete, base=base, tokens=tokens, batched=batched)
        if wanted < 2 or max_rejects < 1:
            raise EvidenceError(
                f"GeometricProposal: wanted must be 2 or more and max_rejects positive, not {wanted} and {max_rejects}"
            )
        self.wanted, self.max_rejects = wanted, max_rejects

    def draw_row(self, row: RowContext, step: Step) -> RowDraw:
        left, rejects, accepted = row.remaining(), 0, list[int]()
        while len(accepted) < self.wanted:
            if left.empty:  # no token is accepted: all further draws are refusals
                rejects = self.max_rejects
                break
            # Simulate how many draws hit tokens known to be refused before one does not.
            before = (1 - left.mass) ** np.arange(self.max_rejects - rejects + 1)
            before[:-1] *= left.mass
            rejects += row.pick(before)
            if rejects == self.max_rejects:
                break
            token = left.draw()
            if token in accepted or self._yes((yield token)):
                accepted.append(token)
                continue
            left.remove(token)
            rejects += 1
            if rejects == self.max_rejects:
                break
        if not accepted:
            return int(row.q.argmax()), 0.0
        return accepted[0], min(self.wanted - 1, len(accepted)) / (len(accepted) + rejects - 1)
