"""What a proposal promises: its tokens are properly weighted for language model and constraint."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..circuits.automaton import Automaton
from ..circuits.chain import Chain
from ..inference.smc.proposals import Proposal, Tabular
from ..inference.smc.step import Step
from ..lm.base import LanguageModel, Prompt
from .comparison import promise, same, unbiased
from .steps import Prefix, query_of, step_after


def check_proposal(
    proposal: Proposal,
    lm: LanguageModel,
    fa: Automaton,
    hmm: Chain | None = None,
    *,
    horizon: int = 4,
    prefixes: Sequence[Prefix] = ((),),
    prompt: Prompt = (),
    factor: Callable[[Prefix], float] = lambda tokens: 1.0,
    draws: int = 2000,
    error: float = 1e-5,
    seed: int = 0,
) -> None:
    """Check that a proposal is properly weighted: E[W · 1{X = x}] = p_lm(x | prefix) · 1[x is allowed] for every token x.

    A tabular proposal (one that gives log q for the whole vocabulary) is compared exactly, token by token, and its draws with q.
    Any other is judged by its draws alone: one that gives large weights to tokens which it hardly draws needs more of them.

    Parameters
    ----------
    proposal, lm, fa, hmm
        What :func:`tractile.smc` is given. Small vocabularies show more: each token should be drawn often.
    horizon
        The budget, in tokens.
    prefixes
        Where a token is drawn: sequences of tokens after the prompt that the automaton allows.
    prompt
        What the language model reads first.
    factor
        The factor of the target that the proposal itself brings in, of the tokens with the new one; 0 or 1 for a check that
        it makes.
    draws
        How many tokens are drawn after each prefix.
    error
        The probability with which a right proposal is refused, at most.
    seed
        The seed of the draws.

    Raises
    ------
    AssertionError
        If a promise is broken; it says which, and after which prefix.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.testing import check_proposal
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> check_proposal(tt.inference.smc.GCDProposal(), lm, second, horizon=2, prefixes=[(), (0,)])
    """
    for prefix in prefixes:
        query = query_of(proposal.needs, fa, hmm, horizon).start(1)
        lm.start([prompt])
        for token in prefix:
            query.advance([token])
            lm.advance(torch.tensor([token]))
        left, said = horizon - len(prefix), f"{type(proposal).__name__} after {list(prefix)}"
        step = step_after(lm, query, [prefix], left)
        target = (step.log_probs[0].double().exp() * step.mask[0]).cpu()
        target = target * torch.tensor([factor((*prefix, token)) for token in range(lm.vocab_size)])
        many = step_after(lm, query, [prefix], left, torch.zeros(draws, dtype=torch.long))
        tokens, log_weight = proposal.draw(many, torch.Generator().manual_seed(seed))
        promise(
            tokens.shape == log_weight.shape == (draws,), f"{said}: a token and a log-weight for each row"
        )
        promise(
            bool(((tokens >= 0) & (tokens < lm.vocab_size)).all()),
            f"{said}: tokens are those of the vocabulary",
        )
        weights, drawn = (
            log_weight.double().cpu().exp(),
            torch.zeros(draws, lm.vocab_size, dtype=torch.float64),
        )
        promise(bool(weights.isfinite().all()), f"{said}: no weight is NaN or infinite")
        drawn[torch.arange(draws), tokens.cpu()] = 1.0
        share = error / len(prefixes)
        if isinstance(proposal, Tabular):
            q, weight = _belief(proposal, step)
            same(q * weight, target, f"{said}: q(x) · W(x) is p(x) · 1[x is allowed]", 1e-9)
            same(weights, weight[tokens.cpu()], f"{said}: the weight of a draw is W(x)", 1e-9)
            unbiased(drawn, q, f"{said}: tokens are drawn by q", share, 1.0)
        else:
            values = drawn * weights[:, None]
            unbiased(values, target, f"{said}: E[W · 1{{X = x}}] is p(x) · 1[x is allowed]", share)


def _belief(proposal: Tabular, step: Step) -> tuple[Tensor, Tensor]:
    """Return q(x) and W(x) of every token; W is zero where q is."""
    log_q = proposal.belief(step).double().log_softmax(1)[0].cpu()
    tokens = torch.arange(len(log_q))
    weight = proposal.log_weight(step.take(torch.zeros_like(tokens)), log_q, tokens).double().cpu().exp()
    return log_q.exp(), torch.where(log_q.isneginf(), 0.0, weight)
