"""Beam search under a constraint: a deterministic decoder that keeps to the token budget.

A beam is kept only if it can still be accepted in the tokens left: its automaton state is no further from acceptance
(the GCD mask), so every sequence that comes back satisfies the constraint (Collura et al. 2025). With an HMM beams are ranked by

    log p_lm(x_≤t) + log p_hmm(C | x_≤t)

instead of log p_lm(x_≤t) alone, which puts off what the constraint asks for until the budget enforces it.
"""

from __future__ import annotations

import heapq
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ..circuits.chain import Chain
from ..errors import NoParticleSurvived
from ..inference.arguments import whole
from ..inference.smc.arguments import ConstraintLike, check_normalised
from ..inference.smc.proposals import GCDProposal, LookaheadProposal
from ..inference.smc.request import Request, requests
from ..inference.smc.step import Step
from ..inference.threads import one_thread
from ..lm.base import LanguageModel, Prompt


class Beam(NamedTuple):
    """A complete sequence that satisfies the constraint; ``log_prob`` is log p_lm(tokens | prompt) in nats.

    Examples
    --------
    >>> import tractile as tt
    >>> beam = tt.decoding.Beam((5, 2), "yes", -0.5)
    >>> beam.text, beam.log_prob
    ('yes', -0.5)
    """

    token_ids: tuple[int, ...]
    text: str
    log_prob: float


def beam_search(
    lm: LanguageModel | Any,
    prompt: Prompt,
    fa: ConstraintLike | None,
    max_new_tokens: int = 64,
    beams: int = 8,
    hmm: Chain | str | Path | None = None,
    *,
    tokenizer: Any = None,
) -> list[Beam]:
    """Search for the most probable sequences that satisfy ``fa`` within ``max_new_tokens`` tokens.

    Returns the ``beams`` most probable sequences found, best first; fewer if the search found fewer. Calls the language model
    once for each token, with at most ``beams`` rows. If at every length at most ``beams`` prefixes are possible, the result
    is exactly the top of p_lm(x | constraint). ``lm``, ``fa``, ``hmm``, ``tokenizer``, budget and errors are as in
    :func:`.smc`. Raises :class:`NoParticleSurvived` if the language model gives probability zero to every extension of the
    beams, :class:`EvidenceError` if its logits are NaN.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> coin = tt.HMM(torch.ones(1), torch.ones(1, 1), torch.full((1, 2), 0.5))
    >>> beams = tt.decoding.beam_search(tt.CircuitLM(coin), [], one, max_new_tokens=3, beams=2)
    >>> [round(beam.log_prob, 3) for beam in beams]  # 3 log ½ each
    [-2.079, -2.079]
    """
    who, beams = "beam_search", whole(beams, "beam_search: beams")
    proposal = GCDProposal() if hmm is None else LookaheadProposal()
    (request,) = requests(
        who, lm, prompt, None, fa, proposal, hmm, tokenizer=tokenizer, max_new_tokens=max_new_tokens
    )
    check_normalised(request.lm, who)
    with one_thread(request.lm, request.hmm):
        return search(request.prepare(), beams)


def search(request: Request, beams: int) -> list[Beam]:
    """Run the search; beams are ranked with the HMM's lookahead if the request has an HMM."""
    lm, eos, max_new_tokens, guided = request.lm, request.eos, request.max_new_tokens, request.hmm is not None
    query = request.query.start(1)
    lm.start([request.prompt])
    prefixes, log_p = torch.zeros(1, 0, dtype=torch.long), torch.zeros(1, dtype=torch.float64)
    done: list[tuple[float, tuple[int, ...]]] = []  # a heap, the worst first
    for t in range(max_new_tokens):
        last = t + 1 == max_new_tokens
        step = Step(lm.log_probs(), query, prefixes, decode=lm.decode, eos_token_id=eos, last=last)
        step.check_log_probs()
        total = log_p[:, None] + step.log_probs.masked_fill(~step.mask, -torch.inf).double().cpu()
        rank = total + step.lookahead.cpu() if guided and not last else total
        complete = torch.full_like(total, -torch.inf)
        if last:
            complete = total
        elif eos is not None:
            complete[:, eos] = total[:, eos]
        for row, token in _top(complete, beams):
            heapq.heappush(done, (float(total[row, token]), (*prefixes[row].tolist(), token)))
            if len(done) > beams:
                heapq.heappop(done)
        if last:
            break
        # A prefix no more probable than the worst of ``beams`` complete sequences cannot enter the result.
        floor = done[0][0] if len(done) == beams else -torch.inf
        growing = complete.isneginf() & (total > floor)
        chosen = _top(rank.masked_fill(~growing, -torch.inf), beams)
        if not chosen:
            break
        source, tokens = torch.tensor(chosen).T
        prefixes, log_p = torch.cat([prefixes[source], tokens[:, None]], 1), total[source, tokens]
        lm.select(source)
        query.select(source)
        lm.advance(tokens)
        query.advance(tokens)
    if not done:
        raise NoParticleSurvived(
            "beam_search: the language model gives probability zero to all that the beams could become; "
            "use more beams or relax the constraint"
        )
    return [
        Beam(tokens, lm.decode(tokens), score) for score, tokens in sorted(done, key=lambda d: (-d[0], d[1]))
    ]


def _top(scores: Float[Tensor, "rows vocab"], count: int) -> list[tuple[int, int]]:
    """Return (row, token) of the ``count`` highest scores, best first; −∞ is left out."""
    found = scores.flatten().topk(min(count, scores.numel()))
    cells = found.indices[found.values > -torch.inf]
    return [(cell // scores.shape[1], cell % scores.shape[1]) for cell in cells.tolist()]
