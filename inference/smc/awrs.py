"""Adaptive weighted rejection sampling (Lipkin et al. 2025): draw from q until a black-box check accepts, and once more.

Tokens are drawn without replacement to the first acceptance X; M is the mass of q that was not refused before X. Then

    Ŵ = M if one more draw is accepted, q(X) if not        E[Ŵ · 1{X = x}] = q(x) · 1[x is accepted]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from ...errors import EvidenceError
from .blackbox import Check, RowContext, RowDraw, RowProposal
from .proposals import Proposal, Tabular
from .step import Knowledge, Step


@final
class AWRSProposal(RowProposal):
    """Adaptive weighted rejection sampling with a black-box check.

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
        self.check = Check(check, complete, tokens=tokens, batched=batched)
        if max_rejects is not None and max_rejects < 1:
            raise EvidenceError(f"AWRSProposal: max_rejects must be positive, it is {max_rejects}")
        self.max_rejects = max_rejects

    def draw_row(self, row: RowContext, step: Step) -> RowDraw:
        left, rejects = row.remaining(), 0
        while True:
            mass, token = left.mass, left.draw()
            accepted = _yes((yield token))
            left.remove(token)
            if accepted:
                if left.empty or rejects + 1 == self.max_rejects:
                    return token, mass
                return token, mass if _yes((yield left.draw())) else float(row.q[token])
            rejects += 1
            if left.empty or rejects == self.max_rejects:
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

    def draw(self, step: Step, generator: Generator) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
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
