"""Speculative sampling with HMM × constraint as the drafter (Leviathan et al. 2023; Chen et al. 2023).

    draft    x_1 … x_k ~ d,  d_j = p_hmm(x_j | x_<j, C)                      valid by construction
    accept   x_j with probability min(1, q_j(x_j) / d_j(x_j))                 q_j from one pass of the language model
    correct  the first token rejected: x_j ~ max(q_j − d_j, 0), normalised    then draft again
    extend   if all are accepted: x_{k+1} ~ q_{k+1}

Each token has the distribution q of the sampler without drafts: p_lm under the mask (GCD), or p_lm · p_hmm(C | x_≤t) (lookahead).
The weight p_lm / q is a function of the tokens, so it is distributed as in that sampler too: mean(weight) is unbiased for Z.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..circuits.chain import Chain
from ..errors import EvidenceError
from ..inference.arguments import whole
from ..inference.next_token.protocol import NextTokenQuery
from ..inference.smc.arguments import ConstraintLike, a_proposal
from ..inference.smc.posterior import Posterior
from ..inference.smc.potentials import LookaheadPotential
from ..inference.smc.proposals import LookaheadProposal, Proposal, Tabular, draw_tokens
from ..inference.smc.request import Request, requests
from ..inference.smc.step import Knowledge, Step
from ..inference.threads import one_thread
from ..lm.base import LanguageModel, Prompt
from ..lm.drafts import Extending, StepByStep

Table = Float[Tensor, "rows vocab"]


@dataclass(frozen=True)
class Speculation:
    """Samples with their weights, and their cost.

    ``tokens`` is the number of tokens of all samples. ``passes`` counts evaluations of the language model, added up over the
    samples, the prompt's included; without drafts there is one for each token. ``drafted`` is the number of tokens that the HMM
    proposed, ``accepted`` the number of these that were kept. ``calls`` counts calls of the language model, each for all samples
    that had not ended.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> coin = tt.HMM(torch.ones(1), torch.ones(1, 1), torch.tensor([[0.5, 0.5]]))
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)
    >>> found = tt.decoding.speculative(tt.CircuitLM(coin), [], second, coin, particles=2, max_new_tokens=2)
    >>> found.tokens >= found.accepted, found.passes <= found.tokens
    (True, True)
    """

    posterior: Posterior
    tokens: int
    passes: int
    drafted: int
    accepted: int
    calls: int

    @property
    def tokens_per_pass(self) -> float:
        """The mean number of tokens per pass of the language model; 1 without drafts."""
        return self.tokens / self.passes

    @property
    def acceptance_rate(self) -> float:
        """The share of the drafted tokens that were accepted."""
        return self.accepted / max(1, self.drafted)


def speculative(
    lm: LanguageModel | Any,
    prompt: Prompt,
    fa: ConstraintLike | None,
    hmm: Chain | str | Path,
    proposal: str | Proposal = "gcd",
    particles: int = 16,
    max_new_tokens: int = 64,
    seed: int = 0,
    *,
    draft: int = 4,
    tokenizer: Any = None,
) -> Speculation:
    """Draw independent weighted samples in fewer passes of the language model: HMM × constraint drafts, the model verifies.

    Samples and weights have exactly the distribution of :func:`.importance_sampling` with this proposal. ``proposal`` is
    "gcd", "pgcd" (of strength 1), "pgcd-mixture" or an object that gives its probabilities within the mask as a table;
    ``draft`` is the number of tokens drafted for each pass. Other arguments and errors are those of :func:`.smc`. Passes are
    saved if the language model can read several tokens in one pass (:class:`~tractile.lm.drafts.Extending`); any other must
    have ``fork``.

    >>> import torch
    >>> import tractile as tt
    >>> from tractile.lm import CircuitLM
    >>> hmm = tt.HMM(torch.tensor([0.5, 0.5]), torch.eye(2), torch.tensor([[0.1, 0.8, 0.1], [0.3, 0.3, 0.4]]))
    >>> fa = tt.Automaton.from_edges([(0, [0, 1], 1), (1, [2], 0)], 0, [0], 3)
    >>> found = tt.decoding.speculative(CircuitLM(hmm), [], fa, hmm, particles=2, max_new_tokens=6)
    >>> [len(p.token_ids) for p in found.posterior.particles], found.passes < found.tokens
    ([6, 6], True)
    """
    who = "speculative"
    draft = whole(draft, f"{who}: draft")
    wanted = LookaheadProposal() if proposal == "pgcd" else a_proposal(proposal)
    if not isinstance(wanted, Tabular) or not wanted.elementwise or wanted.needs is Knowledge.LOCAL:
        raise EvidenceError(
            f"speculative: {type(wanted).__name__} gives no probabilities within the budget's mask; choose "
            '"gcd", "pgcd" or "pgcd-mixture"'
        )
    (request,) = requests(
        who,
        lm,
        prompt,
        None,
        fa,
        wanted,
        hmm,
        tokenizer=tokenizer,
        particles=particles,
        max_new_tokens=max_new_tokens,
        seed=seed,
    )
    with one_thread(request.lm, request.hmm):
        run = _Run(request.prepare(LookaheadPotential()), wanted, draft)
        while len(run.live):
            run.round()
        return run.result()


def acceptance(q: Table, d: Table) -> Table:
    """Return the log-probability with which each drafted token is accepted, log min(1, q / d), from log q and log d."""
    return (q - d).clamp(max=0).masked_fill(q.isneginf(), -torch.inf)


def residual(q: Table, d: Table) -> Table:
    """Return the distribution of a rejected token's replacement, not normalised: max(q − d, 0), from log q and log d."""
    return (q.exp() - d.exp()).clamp(min=0)


class _Run:
    """The samples of one call; those that have not ended (``live``) are the rows of language model and query."""

    def __init__(self, request: Request, proposal: Tabular, draft: int) -> None:
        self.request, self.proposal, self.draft = request, proposal, draft
        self.generator, count, lm = request.generator(), request.particles, request.lm
        self.query = request.query.start(count, request.max_new_tokens)
        lm.start([request.prompt])
        lm.select(torch.zeros(count, dtype=torch.long))
        self.reader: Extending | StepByStep = lm if isinstance(lm, Extending) else StepByStep(lm)
        self.next: Table = lm.log_probs()  # log p_lm of the first token; used in the first round only
        self.live: Int[Tensor, " rows"] = torch.arange(count)
        self.tokens: list[list[int]] = [[] for _ in range(count)]
        self.log_weights = torch.zeros(count, dtype=torch.float64)
        self.log_probs = torch.zeros(count, dtype=torch.float64)
        self.passes, self.calls, self.drafted, self.accepted = count, 1, 0, 0
        self.began = False  # whether the language model has yet to read each row's last token

    def round(self) -> None:
        """Draft tokens, let the language model read them, accept and correct."""
        drafts, tables, queries = self._drafted()
        given = drafts
        if self.began:
            last = torch.tensor([[self.tokens[sample][-1]] for sample in self.live.tolist()])
            given = torch.cat([last, drafts], 1)
        read = self.reader.extend(given).detach()
        if not self.began:
            read = torch.cat([self.next[:, None], read], 1)
        self.calls, self.passes = self.calls + 1, self.passes + len(self.live)
        counts = self._verified(drafts, tables, queries, read)
        self.reader.keep(counts + self.began)
        self.began = True
        self._drop_ended()

    def _drafted(self) -> tuple[Int[Tensor, "rows draft"], list[Table], list[NextTokenQuery]]:
        """Draft with the HMM under the constraint; return tokens, log-probabilities and queries.

        Tokens are −1 after the end of a row. There is a table of log-probabilities for each drafted place, and the query before
        each token and after the last one.
        """
        query, tokens, tables, queries = self.query.fork(), [], [], [self.query.fork()]
        open_ = query.remaining.cpu() > 0
        for _ in range(self.draft):
            table = query.scores().double().cpu()
            drawn, _ = draw_tokens(table.exp(), self.generator)
            tokens.append(drawn.masked_fill(~open_, -1))
            tables.append(table)
            query.advance_some(drawn, open_)
            queries.append(query.fork())
            open_ = open_ & (query.remaining.cpu() > 0) & (drawn != self.request.eos)
        self.drafted += int((torch.stack(tokens) >= 0).sum())
        return torch.stack(tokens, 1), tables, queries

    def _verified(
        self,
        drafts: Int[Tensor, "rows draft"],
        tables: list[Table],
        queries: list[NextTokenQuery],
        read: Float[Tensor, "rows read vocab"],
    ) -> Int[Tensor, " rows"]:
        """Append to each sample its accepted tokens and one drawn anew; return the number accepted in each row."""
        rows = len(self.live)
        counts, going = torch.zeros(rows, dtype=torch.long), torch.ones(rows, dtype=torch.bool)
        for place, query in enumerate(queries):
            index = going.nonzero()[:, 0]
            if not len(index):
                break
            prefixes = [torch.tensor([*self.tokens[int(self.live[i])]], dtype=torch.long) for i in index]
            step = Step(read[:, place], query, prefixes, index, decode=self.request.lm.decode)
            q = self.proposal.checked(self.proposal.belief(step), step).cpu().double()
            if bool((dead := q.amax(1).isneginf()).any()):  # no allowed token has any probability
                self.log_weights[self.live[index[dead]]] = -torch.inf
                going[index[dead]] = False
                index, q = index[~dead], q[~dead]
                if not len(index):
                    break
            q = q.log_softmax(1)
            tokens, accepted = torch.zeros(len(index), dtype=torch.long), torch.zeros(len(index)).bool()
            correction = q.exp()
            if place < self.draft:
                d = tables[place][index]
                tokens = drafts[index, place]
                chance = acceptance(q, d).gather(1, tokens.clamp(min=0)[:, None])[:, 0]
                drawn = torch.rand(len(index), dtype=torch.float64, generator=self.generator)
                accepted = drawn.log() < chance
                rest = residual(q, d)
                correction = torch.where(rest.sum(1, keepdim=True) > 0, rest, correction)
            anew, _ = draw_tokens(correction, self.generator)
            tokens = torch.where(accepted, tokens, anew)
            log_q, log_p = q.gather(1, tokens[:, None])[:, 0], read[index, place].cpu().double()
            log_p = log_p.gather(1, tokens[:, None])[:, 0]
            self._append(index, tokens, log_p, log_q)
            counts[index] += accepted
            self.accepted += int(accepted.sum())
            ended = (self.query.remaining.cpu()[index] == 0) | (tokens == self.request.eos)
            going[index] = accepted & ~ended
        return counts

    def _append(
        self,
        index: Int[Tensor, " some"],
        tokens: Int[Tensor, " some"],
        log_p: Float[Tensor, " some"],
        log_q: Float[Tensor, " some"],
    ) -> None:
        """Append a token to the rows ``index``, and update their weights and the query."""
        samples, every = self.live[index], torch.zeros(len(self.live), dtype=torch.long)
        for sample, token in zip(samples.tolist(), tokens.tolist(), strict=True):
            self.tokens[sample].append(token)
        self.log_weights[samples] += log_p - log_q
        self.log_probs[samples] += log_p
        moving = torch.zeros(len(self.live), dtype=torch.bool).index_fill_(0, index, True)
        self.query.advance_some(every.index_copy(0, index, tokens), moving)

    def _drop_ended(self) -> None:
        """Drop the rows that are complete, and those that failed: their weight is zero."""
        last = [self.tokens[sample][-1:] == [self.request.eos] for sample in self.live.tolist()]
        ended = torch.tensor(last) | self.log_weights[self.live].isneginf()
        rows = ((self.query.remaining.cpu() > 0) & ~ended).nonzero()[:, 0]
        if len(rows) < len(self.live):
            self.live = self.live[rows]
            if len(rows):
                self.query.select(rows)
                self.reader.select(rows)

    def result(self) -> Speculation:
        """Return the samples and their cost."""
        ids = [tuple(tokens) for tokens in self.tokens]
        posterior = Posterior(
            ids,
            [self.request.lm.decode(tokens) for tokens in ids],
            self.log_weights,
            self.log_probs,
            narrowed=self.request.fa.narrowed,
        )
        total = sum(map(len, ids))
        return Speculation(posterior, total, self.passes, self.drafted, self.accepted, self.calls)
