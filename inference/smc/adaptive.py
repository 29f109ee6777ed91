"""A proposal that learns from what it has drawn: adaptive sampling with expected futures (Park et al. 2024, "ASAp").

Exact sampling under a constraint needs c(x_≤t) = p_lm(C | x_≤t). For the prefixes drawn so far a tree keeps

    c̃(x_≤t) = Σ_v p_lm(v | x_≤t) c̃(x_≤t v),        c̃ = a guess g at the leaves:  1[allowed], or p_hmm(C | ·)

and tokens are drawn from q(v) ∝ p_lm(v | x_<t) c̃(x_<t v). With g = 1[allowed] c̃ is an upper bound that falls towards c, and q
tends to p_lm(v | x_<t, C). A token is weighted by the q that drew it, so draws are properly weighted, given all earlier ones,
from the first on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from ...errors import EvidenceError
from .potentials import Potential
from .proposals import GCDProposal, LookaheadProposal, Tabular
from .step import Extension, Step

FLOOR = 1e-12  # c̃ of a prefix is at least this share of its first value, despite rounding
TOLERANCE = 1e-2  # nats; the largest difference between batches in log-probabilities of one prefix


@dataclass
class _Child:
    """A token that was drawn after a prefix: its probability by the model, and c̃ of the longer prefix."""

    p: float
    future: float


@dataclass
class _Node:
    """A prefix: ``mass`` = Σ_v p_lm(v) g(v) when it was added, ``top`` = max_v log p_lm(v), ``future`` = its present c̃."""

    mass: float
    top: float
    future: float
    children: dict[int, _Child] = field(default_factory=dict)


@final
class AdaptiveProposal(Tabular):
    """A proposal q ∝ p_lm · 1[allowed] · c̃, with c̃ learned from earlier draws; keep the object from run to run.

    ``base`` gives the guess g for prefixes that were never drawn: ``GCDProposal()`` (default: g = 1, c̃ is an upper bound) or
    ``LookaheadProposal()``. One object is for one language model, prompt, constraint and budget; it raises
    :class:`EvidenceError` if it is used with another. After ``max_prefixes`` prefixes it adds no new ones. Particles that are
    resampled need its ``potential`` too, which :func:`.smc` uses by default.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> learned = tt.inference.smc.AdaptiveProposal()
    >>> for seed in range(3):
    ...     post = tt.smc(lm, [], second, learned, particles=8, max_new_tokens=2, seed=seed)
    >>> round(post.log_evidence, 4)  # log 0.2, without variance once all prefixes are known
    -1.6094
    """

    def __init__(
        self, base: GCDProposal | LookaheadProposal | None = None, *, max_prefixes: int = 1 << 20
    ) -> None:
        self.base = GCDProposal() if base is None else base
        if not isinstance(self.base, GCDProposal | LookaheadProposal) or self.base.temperature != 1:
            raise EvidenceError(
                "AdaptiveProposal: the base must be GCDProposal() or LookaheadProposal(), at temperature 1"
            )
        self.needs, self.max_prefixes = self.base.needs, max_prefixes
        self._tree: dict[tuple[int, ...], _Node] = {}

    @property
    def log_evidence(self) -> float:
        """log c̃ of the prompt: an estimate of log p_lm(C), an upper bound with ``GCDProposal()``; 0 before any draw."""
        return _log(self.future(()))

    @property
    def potential(self) -> Potential:
        """The twist that belongs to this proposal: c̃ of every prefix, one at the end."""
        return _FuturePotential(self)

    def belief(self, step: Step) -> Float[Tensor, "rows vocab"]:
        belief = self.base.belief(step).double()
        prefixes = [tuple(prefix.tolist()) for prefix in step.prefixes]
        mass, top = belief.logsumexp(1).exp().tolist(), step.log_probs.amax(1).tolist()
        for i, prefix in enumerate(prefixes):
            self._add(prefix, mass[i], top[i])
        for i, prefix in enumerate(prefixes):
            if (node := self._tree.get(prefix)) and node.children:
                tokens = list(node.children)
                future = belief.new_tensor([child.future for child in node.children.values()])
                learned = step.log_probs[i, tokens].double() + future.log()
                belief[i, tokens] = torch.where(belief[i, tokens].isneginf(), -torch.inf, learned)
        return belief

    def draw(self, step: Step, generator: Generator) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        tokens, log_weight = super().draw(step, generator)
        p = step.log_probs.gather(1, tokens[:, None])[:, 0].exp().tolist()
        guess = self._guess(step, tokens).exp().tolist()
        ended = step.ends(tokens).tolist()
        for i in (~log_weight.isneginf()).nonzero()[:, 0].tolist():
            prefix, token = tuple(step.prefixes[i].tolist()), int(tokens[i])
            if (node := self._tree.get(prefix)) and token not in node.children:
                node.children[token] = _Child(p[i], guess[i])
                if ended[i]:
                    self._propagate((*prefix, token), 1.0)
        return tokens, log_weight

    def future(self, prefix: tuple[int, ...]) -> float:
        """Return the present c̃ of a prefix, 1 if it was never drawn."""
        if prefix in self._tree:
            return self._tree[prefix].future
        parent = self._tree.get(prefix[:-1]) if prefix else None
        child = None if parent is None else parent.children.get(prefix[-1])
        return 1.0 if child is None else child.future

    def log_future(self, rows: Extension) -> Float[Tensor, " rows"]:
        """Return log c̃ of each row's prefix with its token, in nats."""
        step, tokens = rows.step, rows.tokens
        value = self._guess(step, tokens)
        for i, (prefix, token) in enumerate(zip(step.prefixes, tokens.tolist(), strict=True)):
            node = self._tree.get(tuple(prefix.tolist()))
            if node is not None and token in node.children:
                value[i] = _log(node.children[token].future)
        return value

    def _guess(self, step: Step, tokens: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        if isinstance(self.base, GCDProposal) or not self.base.power:
            return torch.zeros(len(tokens), dtype=torch.float64)
        table = step.lookahead
        return self.base.power * table.gather(1, tokens[:, None].to(table.device))[:, 0].cpu().double()

    def _add(self, prefix: tuple[int, ...], mass: float, top: float) -> None:
        """Add a prefix to the tree; raise :class:`EvidenceError` if it is there with other probabilities."""
        node = self._tree.get(prefix)
        if node is not None:
            if abs(node.top - top) > TOLERANCE or not math.isclose(node.mass, mass, rel_tol=TOLERANCE):
                raise EvidenceError(
                    f"AdaptiveProposal: it has learned of another language model, prompt, constraint or budget (after {prefix}); "
                    "make a new one for each"
                )
            return
        parent = self._tree.get(prefix[:-1])
        met = not prefix or (parent is not None and prefix[-1] in parent.children)
        if len(self._tree) >= self.max_prefixes or not met:  # another proposal may have drawn the token
            return
        self._tree[prefix] = _Node(mass, top, mass)
        self._propagate(prefix, mass)

    def _propagate(self, prefix: tuple[int, ...], future: float) -> None:
        """Set c̃ of a prefix to ``future`` and update its ancestors."""
        for n in range(len(prefix) - 1, -1, -1):
            parent = self._tree[prefix[:n]]
            child = parent.children[prefix[n]]
            parent.future += child.p * (future - child.future)
            child.future = future
            parent.future = future = max(parent.future, FLOOR * parent.mass)


@final
class _FuturePotential(Potential):
    def __init__(self, proposal: AdaptiveProposal) -> None:
        self.proposal, self.needs = proposal, proposal.needs

    def log_value(self, rows: Extension) -> Float[Tensor, " rows"]:
        return self.proposal.log_future(rows).masked_fill(rows.ended, 0.0)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf
