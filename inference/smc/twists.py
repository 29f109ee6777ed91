"""Twists beyond φ_pgcd: intermediate values that steer resampling and are one at the end, so the final target does not depend
on them (they must be positive while a sequence can still succeed).

    rollout   (1/M) Σ_m Π_s W_s · p_hmm(C | end of m) · f(text of m)    M short continuations by a proposal with weights W:
              an unbiased estimate of E_lm[1[x ∈ C] f(x) | x_≤t] if they run to the end (without a function f, or with a
              proposal that uses no HMM, this factor is left out)
    hidden    ψ(x_<t, v) = exp f(h_<t)[v], a head on the language model's hidden state h with a value for every token
              (Zhao et al. 2024), which needs no further call of the model
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...errors import EvidenceError, ShapeError
from ...lm.base import Forking, Hidden, LanguageModel, Prompt
from .potentials import Potential, scaled
from .proposals import GCDProposal, Proposal
from .step import Extension, Knowledge, Step
from .user_function import UserFunction, log_of


@final
class RolloutPotential(Potential):
    """A twist: the mean weight of ``rollouts`` continuations of up to ``length`` tokens (default: to the end).

    They are drawn by ``proposal`` (default: GCD). With a proposal that uses the HMM (``LookaheadProposal()``) a rollout that
    stops early is weighted by p_hmm(C | ·). ``function(text)`` ≥ 0 of each rollout's text is multiplied in: a property to look
    ahead to that the constraint does not express. If all rollouts fail, which is no proof, the value is 1 / (10 · ``rollouts``),
    not zero. Each rollout costs calls of the language model; ``.at(boundary)`` reduces them.

    Values are estimates, each drawn once for a prefix. Each prompt of a batch has its own random numbers, from ``seed``, so its
    values do not depend on the other prompts. Raises :class:`EvidenceError` if the language model cannot fork,
    :class:`PotentialError` if ``function`` fails.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> phi = tt.inference.smc.RolloutPotential(rollouts=2)
    >>> post = tt.smc(lm, [], second, "gcd", particles=50, max_new_tokens=2, seed=0, potential=phi)
    >>> round(post.log_evidence, 1)  # log 0.2 = -1.6
    -1.6
    """

    def __init__(
        self,
        rollouts: int = 4,
        length: int | None = None,
        *,
        proposal: Proposal | None = None,
        function: Callable[[str], float] | None = None,
        seed: int = 0,
    ) -> None:
        if rollouts < 1 or (length is not None and length < 1):
            raise EvidenceError("RolloutPotential: rollouts and length must be positive")
        self.proposal = GCDProposal() if proposal is None else proposal
        self.needs = max(self.proposal.needs, Knowledge.BUDGET)  # a rollout ends with its budget
        self.rollouts, self.length, self.seed = rollouts, length, seed
        self.function = None if function is None else UserFunction(function)

    def start(self, lm: LanguageModel, prompts: Sequence[Prompt], budgets: Sequence[int]) -> None:
        if not isinstance(lm, Forking):
            raise EvidenceError(f"RolloutPotential: {type(lm).__name__} has no fork() to look ahead with")
        self._lm = lm
        self._generators = [torch.Generator().manual_seed(self.seed) for _ in prompts]
        self._prompt = list(range(len(prompts)))  # the prompt of each state
        self._known: list[dict[int, float]] = [{} for _ in prompts]  # log-values by state and next token

    def advance(self, indices: Int[Tensor, " states"], tokens: Int[Tensor, " states"]) -> None:
        same = [token < 0 for token in tokens.tolist()]  # states that wait
        self._known = [
            self._known[i] if waits else {} for i, waits in zip(indices.tolist(), same, strict=True)
        ]
        self._prompt = [self._prompt[i] for i in indices.tolist()]

    def log_value(self, rows: Extension) -> Float[Tensor, " rows"]:
        value, place = torch.zeros(len(rows.tokens), dtype=torch.float64), 0
        for part, states in rows.step.parts():
            here = slice(place, place + len(states))
            place += len(states)
            growing = rows.alive[here] & ~rows.ended[here]
            pairs = list(zip(states.tolist(), rows.tokens[here].tolist(), strict=True))
            asked = {pairs[i]: i for i in growing.nonzero()[:, 0].tolist()}
            new = {pair: i for pair, i in asked.items() if pair[1] not in self._known[pair[0]]}
            for length in {
                len(part.prefixes[i]) for i in new.values()
            }:  # one unless some have waited for others
                alike = {pair: i for pair, i in new.items() if len(part.prefixes[i]) == length}
                index = torch.tensor(list(alike.values()))
                found = self._estimate(part.take(index), states[index], rows.tokens[here][index])
                for (state, token), estimate in zip(alike, found.tolist(), strict=True):
                    self._known[state][token] = estimate
            values = [
                self._known[s][v] if ok else 0.0 for (s, v), ok in zip(pairs, growing.tolist(), strict=True)
            ]
            value[here] = torch.tensor(values, dtype=torch.float64)
        return value

    def _estimate(
        self, step: Step, states: Int[Tensor, " rows"], tokens: Int[Tensor, " rows"]
    ) -> Float[Tensor, " rows"]:
        """Return the log of the mean over the rollouts of each row with its token; all rows are of one prompt."""
        assert isinstance(self._lm, Forking)
        count, m = len(tokens), self.rollouts
        generator = self._generators[self._prompt[int(states[0])]]
        copies = torch.arange(count).repeat_interleave(m)
        lm, query = self._lm.fork(), copy(step.query)
        lm.select(states[copies])
        query.select(step.rows[copies])
        prefixes = [(*step.prefixes[i].tolist(), int(tokens[i])) for i in copies.tolist()]
        lm.advance(tokens[copies])
        query.advance(tokens[copies])
        weight, growing = torch.zeros(count * m, dtype=torch.float64), torch.arange(count * m)
        left = int(query.remaining.max())
        for n in range(left if self.length is None else min(self.length, left)):
            now = Step(
                lm.log_probs(),
                query,
                torch.tensor([prefixes[i] for i in growing.tolist()]),
                decode=step.decode,
                eos_token_id=step.eos_token_id,
                last=n + 1 == left,
            )
            drawn, log_weight = self.proposal.draw_checked(now, generator)
            weight[growing] += log_weight
            for i, token in zip(growing.tolist(), drawn.tolist(), strict=True):
                prefixes[i] = (*prefixes[i], token)
            goes_on = (~now.ends(drawn) & ~log_weight.isneginf()).nonzero()[:, 0]
            growing = growing[goes_on]
            if not len(growing):
                break
            lm.select(goes_on)
            query.select(goes_on)
            lm.advance(drawn[goes_on])
            query.advance(drawn[goes_on])
        if len(growing) and self.proposal.needs is Knowledge.HMM:
            weight[growing] += query.log_lookahead()
        if self.function is not None:
            alive = (~weight.isneginf()).nonzero()[:, 0].tolist()
            texts = [(step.decode(prefixes[i]), False) for i in alive]
            weight[alive] += weight.new_tensor([log_of(value) for value in self.function.values(texts)])
        found = weight.view(count, m).logsumexp(1) - math.log(m)
        return found.masked_fill(found.isneginf(), -math.log(10 * m))


@final
class HiddenTwist(Potential):
    """A learned twist: ``head`` maps hidden states (states, dim) to log ψ (states, vocab) in nats, for each next token.

    log ψ is multiplied by ``scale``. Raises :class:`EvidenceError` if the language model gives no hidden states
    (``TransformersLM(…, keep_hidden=True)`` does), :class:`ShapeError` if the head returns another shape; NaN or +∞ raises
    :class:`PotentialError` with the text.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> tt.inference.smc.HiddenTwist(torch.nn.Linear(8, 100), scale=0.5).scale  # hidden states of 8 numbers, 100 tokens
    0.5
    """

    def __init__(self, head: Callable[[Tensor], Tensor], scale: float = 1.0) -> None:
        self.head, self.scale = head, scale

    def start(self, lm: LanguageModel, prompts: Sequence[Prompt], budgets: Sequence[int]) -> None:
        if not isinstance(lm, Hidden):
            raise EvidenceError(f"HiddenTwist: {type(lm).__name__} has no hidden() states")
        self._lm = lm

    @torch.no_grad()
    def log_value(self, rows: Extension) -> Float[Tensor, " rows"]:
        assert isinstance(self._lm, Hidden)
        states, index = rows.step.rows.unique(return_inverse=True)
        hidden = self._lm.hidden()
        table = self.head(hidden[states.to(hidden.device)])
        if table.shape != (len(states), self._lm.vocab_size):
            raise ShapeError(
                f"HiddenTwist: the head returned shape {tuple(table.shape)}, not {(len(states), self._lm.vocab_size)}"
            )
        chosen = table[index.to(table.device), rows.tokens.to(table.device)].cpu().double()
        return scaled(self.scale, chosen).masked_fill(rows.ended, 0.0)
