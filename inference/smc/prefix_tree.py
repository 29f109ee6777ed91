"""The tree of prefixes that a language model may write under a constraint, read from the most probable ones on.

A prefix u is *read* when the model has given its next tokens. What the tree has not read is bounded: a child v of u has the mass

    p_lm(all texts of C that begin with u v)  ≤  p_lm(u v),

so the complete texts found, and the sum of p_lm over the children not read, bound p_lm(C) and everything that is a share of it.
One sweep reads at most ``width`` prefixes of each length, as beam search does, and goes back to what earlier sweeps left
(complete anytime beam search: Zhang 1998). Rows of the model have equal lengths throughout. The first sweep also reads every
prefix of the greedy text, which takes the most probable allowed token each time. If the request's proposal has a lookahead
h(u) = p_hmm(C | u)^strength, "most probable" is by p_lm(u) h(u) in all of this; masses and bounds are those of p_lm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from .potentials import LookaheadPotential
from .proposals import GCDProposal, LookaheadProposal, draw_tokens
from .request import Request
from .resampling import systematic
from .step import Step

LISTED = 256
"""The children of a prefix that are listed one by one; the others are one entry."""

Prefix = tuple[int, ...]


@dataclass
class Children:
    """The children of a read prefix that were not read: ``log_probs`` is log p_lm of the prefix with each token.

    ``promise`` is log p_lm + log h of each, descending. ``rest`` is the log mass (nats) of the children that are not listed, −∞
    if all are, ``bound`` the largest log p_lm among them and ``rest_promise`` the log of their Σ p_lm h. ``stand_in`` is one of
    them, drawn with probability proportional to p_lm h, and ``stand_in_ahead`` its log h.
    """

    prefix: Prefix
    tokens: Int[ndarray, " children"]
    log_probs: Float[ndarray, " children"]
    promise: Float[ndarray, " children"]
    rest: float = -math.inf
    bound: float = -math.inf
    rest_promise: float = -math.inf
    stand_in: float = 0.0
    stand_in_ahead: float = 0.0

    @property
    def best(self) -> float:
        """The largest log p_lm of a child, in nats; −∞ if none is left."""
        return max(float(self.log_probs.max(initial=-math.inf)), self.bound)


class PrefixTree:
    """The tree after the prompt of a request: ``complete`` maps each text found to its log p_lm (nats), ``open`` is the rest.

    The request's lookahead is used, not its potential. ``passes`` counts the calls of the language model. ``greedy`` is the
    greedy text once the first sweep has ended; it is not complete if p_lm excludes all that the constraint allows there.
    ``listed`` is the number of children of a prefix that are listed one by one (default: ``LISTED``).
    """

    def __init__(self, request: Request, width: int = 64, seed: int = 0, listed: int | None = None) -> None:
        twist = request.proposal.potential
        self._strength = twist.strength if isinstance(twist, LookaheadPotential) else 0.0
        guide = LookaheadProposal(self._strength) if self._strength else GCDProposal()
        self.request = replace(request, proposal=guide, potential=None, strength=None)
        self.request.prepare()
        self.width, self.passes, self.listed = width, 0, LISTED if listed is None else listed
        self.complete: dict[Prefix, float] = {}
        self.open: list[Children] = []
        self.greedy: Prefix = ()
        self._follows_greedy = True
        self._generator = torch.Generator().manual_seed(seed)

    @property
    def log_found(self) -> float:
        """The log of the mass of the complete texts, in nats."""
        return log_sum(list(self.complete.values()))

    @property
    def log_unread(self) -> float:
        """The log of the mass that was not read: what all other texts together have at most, in nats; 0 at the start."""
        if not self.passes:
            return 0.0
        return log_sum([x for one in self.open for x in (log_sum(one.log_probs), one.rest)])

    @property
    def bound(self) -> float:
        """The log-probability that every text not found has at most, in nats; −∞ if all were found."""
        if not self.passes:
            return 0.0
        return max((one.best for one in self.open), default=-math.inf)

    @property
    def unfinished(self) -> bool:
        """Whether another sweep can read more."""
        return not self.passes or any(len(one.tokens) for one in self.open)

    def sweep(
        self, floor: Callable[[], float] = lambda: -math.inf, stop: Callable[[], bool] = lambda: False
    ) -> None:
        """Read at most ``width`` prefixes of each length, the most probable ones with log p_lm above ``floor()``.

        The first sweep begins at the prompt, another one at the most probable children that were not read. ``stop`` is asked
        before each pass whether the sweep ends here; what was chosen and not read is then open again. The first sweep goes on
        until the greedy text is known.
        """
        request = self.request
        chosen: dict[Prefix, float] = taken(self.open, self.width, floor()) if self.passes else {(): 0.0}
        lm, query = request.lm, request.query.start(1, request.max_new_tokens)
        ancestors = {prefix[:length] for prefix in chosen for length in range(len(prefix))}
        lm.start([request.prompt])
        rows: list[Prefix] = [()]
        for length in range(request.max_new_tokens):
            if stop() and not self._follows_greedy:
                self.open += [
                    Children(one[:-1], np.array(one[-1:]), np.array([value]), np.array([value]))
                    for one, value in chosen.items()
                    if len(one) >= length
                ]
                return
            self.passes += 1
            here = [i for i, row in enumerate(rows) if row in chosen]
            if here:
                prefixes = torch.tensor([rows[i] for i in here], dtype=torch.long).reshape(len(here), length)
                step = Step(
                    lm.log_probs().detach(), query, prefixes, torch.tensor(here), decode=lm.decode, prompt=request.number
                )  # fmt: skip
                self._read(step, [chosen[rows[i]] for i in here], length + 1 == request.max_new_tokens)
            onward = [one for one in {**dict.fromkeys(ancestors), **chosen} if len(one) == length + 1]
            if (free := self.width - len(onward)) > 0:
                known = set(rows)
                beside = [one for one in self.open if one.prefix in known]
                best: dict[Prefix, float] = {}
                if self._follows_greedy:
                    best = taken([one for one in beside if one.prefix == self.greedy[:-1]], 1)
                best |= taken(beside, free - len(best), floor())
                chosen |= best
                onward += best
            if not onward:
                return
            place = {row: i for i, row in enumerate(rows)}
            source = torch.tensor([place[one[:-1]] for one in onward])
            tokens = torch.tensor([one[-1] for one in onward])
            lm.select(source)
            query.select(source)
            lm.advance(tokens)
            query.advance(tokens)
            rows = onward

    def _read(self, step: Step, log_p: list[float], last: bool) -> None:
        """Add the children of prefixes of one length; those that end a text are complete."""
        step.check_log_probs()
        eos = self.request.eos
        total = step.allowed_only(step.log_probs).double().cpu()
        total += torch.tensor(log_p, dtype=torch.float64)[:, None]
        promise = total + self._strength * step.lookahead.double().cpu() if self._strength else total
        prefixes = [tuple(row) for row in step.prefixes.tolist()]  # type: ignore[union-attr]
        ended = [-math.inf] * len(prefixes)
        if not last and eos is not None:
            ended = total[:, eos].tolist()
            for prefix, value in zip(prefixes, ended, strict=True):
                if value > -math.inf:
                    self.complete[(*prefix, eos)] = value
            total[:, eos] = promise[:, eos] = -torch.inf
        best = promise.topk(min(self.listed, total.shape[1]))
        if self._follows_greedy:
            row = prefixes.index(self.greedy)
            value, token = float(best.values[row, 0]), int(best.indices[row, 0])
            ends = eos is not None and ended[row] >= value
            if max(value, ended[row]) > -math.inf:
                self.greedy = (*self.greedy, eos if ends else token)  # type: ignore[arg-type]
            self._follows_greedy = not (ends or last or value == -math.inf)
        rest, hoped = (table.scatter(1, best.indices, -torch.inf) for table in (total, promise))
        top = hoped.amax(1, keepdim=True).clamp(min=torch.finfo(torch.float64).min)
        stand_in, _ = draw_tokens((hoped - top).exp(), self._generator)
        ahead = (hoped - rest).gather(1, stand_in[:, None])[:, 0]
        others = torch.stack([rest.logsumexp(1), rest.amax(1), hoped.logsumexp(1), stand_in, ahead], 1)
        values = total.gather(1, best.indices)
        for row, (prefix, other) in enumerate(zip(prefixes, others.tolist(), strict=True)):
            count = int((best.values[row] > -torch.inf).sum())
            if last:
                found = zip(best.indices[row, :count].tolist(), values[row, :count].tolist(), strict=True)
                self.complete |= {(*prefix, token): value for token, value in found}
                count = 0
            if count or other[0] > -math.inf:
                tokens, *listed = (x[row, :count].numpy() for x in (best.indices, values, best.values))
                self.open.append(Children(prefix, tokens, listed[0], listed[1], *other))

    def draw(self, count: int) -> tuple[list[Prefix], Float[Tensor, " draws"]]:
        """Draw ``count`` children that were not read, with probability q ∝ p_lm h; return them and log p_lm / q in nats.

        The draw is systematic over the children in the order of their prefixes, so that each subtree has its share of the draws
        up to one.
        """
        parents = sorted(
            (one for one in self.open if len(one.tokens) or one.rest > -math.inf), key=lambda one: one.prefix
        )
        promise = np.concatenate([np.append(one.promise, one.rest_promise) for one in parents])
        ahead = np.concatenate(
            [np.append(one.promise - one.log_probs, one.stand_in_ahead) for one in parents]
        )
        total = log_sum(promise)
        places = systematic(torch.from_numpy(np.exp(promise - total)), self._generator, count).numpy()
        tokens = np.concatenate([np.append(one.tokens, one.stand_in) for one in parents])[places]
        owner = np.repeat(np.arange(len(parents)), [len(one.tokens) + 1 for one in parents])[places]
        found = zip(owner.tolist(), tokens.tolist(), strict=True)
        prefixes = [(*parents[i].prefix, int(token)) for i, token in found]
        return prefixes, torch.from_numpy(total - ahead[places])


def taken(parents: list[Children], count: int, floor: float = -math.inf) -> dict[Prefix, float]:
    """Remove the ``count`` most promising listed children above ``floor`` from their parents; return them with their log p_lm."""
    parents = [one for one in parents if len(one.tokens) and one.promise[0] > floor]
    if not parents:
        return {}
    values = np.concatenate([one.promise for one in parents])
    best = np.argsort(-values, kind="stable")[:count]
    best = best[values[best] > floor]
    owner = np.searchsorted(np.cumsum([len(one.tokens) for one in parents]), best, "right")
    found: dict[Prefix, float] = {}
    for i, some in zip(*(part.tolist() for part in np.unique(owner, return_counts=True)), strict=True):
        one = parents[i]  # its most promising children are first
        for token, value in zip(one.tokens[:some].tolist(), one.log_probs[:some].tolist(), strict=True):
            found[(*one.prefix, token)] = value
        one.tokens, one.log_probs, one.promise = (x[some:] for x in (one.tokens, one.log_probs, one.promise))
    return found


def log_sum(values: list[float] | Float[ndarray, " values"] | Float[Tensor, " values"]) -> float:
    """Return log Σ exp(value); −∞ of no values."""
    found = torch.as_tensor(values, dtype=torch.float64)
    return float(found.logsumexp(0)) if len(found) else -math.inf
