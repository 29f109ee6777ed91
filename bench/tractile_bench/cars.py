"""Constrained adaptive rejection sampling (Parys et al. 2025, "CARS"): exact samples at a cost that falls with every draw.

A tree of the prefixes drawn so far keeps an upper bound c̃(x_≤t) ≥ p_lm(C | x_≤t), one minus the mass known to violate the
constraint (Park et al. 2024):

    c̃(x_≤t) = Σ_v p_lm(v | x_≤t) c̃(x_≤t v),        c̃ = 1[allowed] at the leaves

A draw follows q(v) ∝ p_lm(v | x_<t) c̃(x_<t v), so it never enters a prefix known to fail. At a prefix drawn for the first time
the bound falls from b to c̃, and the draw is rejected with probability 1 − c̃ / b. A draw that reaches its end is accepted: with
M = c̃(empty prefix) before the draw,

    P(accepted, x) = Π q(v) · Π c̃ / b = p_lm(x) 1[x ∈ C] / M,

so accepted draws follow p_lm(x | C), whatever was drawn before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from tractile.errors import EvidenceError
from tractile.inference.smc import GCDProposal, Knowledge, Proposal, Step
from tractile.inference.smc.proposals import Tabular

FLOOR = 1e-12  # c̃ of a prefix is at least this share of its first value, despite rounding
TOLERANCE = 1e-2  # nats; the largest difference between batches in log-probabilities of one prefix


@dataclass
class _Child:
    """A token that was drawn after a prefix: its probability by the model, and c̃ of the longer prefix."""

    p: float
    bound: float = 1.0


@dataclass
class _Node:
    """A prefix: ``mass`` = Σ_v p_lm(v) 1[allowed], ``top`` = max_v log p_lm(v), ``bound`` = its present c̃."""

    mass: float
    top: float
    bound: float
    children: dict[int, _Child] = field(default_factory=dict)


@final
class CARS:
    """What draws have told of prefixes that fail, for :func:`.rejection_sampling`: it avoids them, and learns new ones.

    Keep the object: later draws are rejected less often. One object is for one language model, prompt, constraint and budget;
    it raises :class:`EvidenceError` if it is used with another. After ``max_prefixes`` prefixes it adds no new ones.

    It is no :class:`Proposal`: a Markov chain, or particles that are moved, would not keep their target while it learns.

    >>> import math, torch
    >>> import tractile as tt
    >>> from tractile_bench.rejection import rejection_sampling
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})
    >>> rare = tt.Automaton.from_edges([(0, 1, 1), (1, 1, 2)], 0, [2], 2)  # token 1 twice: p = 0.04
    >>> cars = CARS()
    >>> found = rejection_sampling(lm, [], rare, samples=50, max_new_tokens=2, cars=cars)
    >>> found.accepted, found.tries < 100, round(math.exp(cars.log_bound), 6)
    (50, True, 0.04)
    """

    def __init__(self, *, max_prefixes: int = 1 << 20) -> None:
        self.proposal = _Learning(max_prefixes)

    @property
    def log_bound(self) -> float:
        """log M, an upper bound of log p_lm(C) in nats, which never rises; 0 before any draw."""
        return math.log(self.proposal.bound(()))


@final
class _Learning(Proposal):
    """The draws, properly weighted given all earlier ones."""

    needs = Knowledge.BUDGET

    def __init__(self, max_prefixes: int) -> None:
        self.max_prefixes = max_prefixes
        self._tree: dict[tuple[int, ...], _Node] = {}
        self._q = _Bounded(self._tree)

    def draw(self, step: Step, generator: Generator) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        prefixes = [tuple(prefix.tolist()) for prefix in step.prefixes]
        before = torch.tensor([self.bound(prefix) for prefix in prefixes], dtype=torch.float64)
        mass = GCDProposal().belief(step).double().logsumexp(1).exp().tolist()
        for prefix, m, top in zip(prefixes, mass, step.log_probs.amax(1).tolist(), strict=True):
            self._add(prefix, m, top)
        kept = (self._q.belief(step).logsumexp(1).exp().cpu() / before).clamp(max=1)
        rejected = torch.rand(len(before), dtype=torch.float64, generator=generator) >= kept
        tokens, log_weight = self._q.draw(step, generator)
        self._grow(step, prefixes, tokens, log_weight)
        return tokens, (log_weight.cpu() - kept.log()).masked_fill(rejected, -torch.inf)

    def _grow(self, step: Step, prefixes: list[tuple[int, ...]], tokens: Tensor, log_weight: Tensor) -> None:
        """Add the drawn tokens as children of their prefixes; a whole text has the bound 1."""
        p = step.log_probs.gather(1, tokens[:, None])[:, 0].exp().tolist()
        ended = step.ends(tokens).tolist()
        for i in (~log_weight.isneginf()).nonzero()[:, 0].tolist():
            prefix, token = prefixes[i], int(tokens[i])
            if (node := self._tree.get(prefix)) and token not in node.children:
                node.children[token] = _Child(p[i])
                if ended[i]:
                    self._propagate((*prefix, token), 1.0)

    def bound(self, prefix: tuple[int, ...]) -> float:
        """Return the present c̃ of a prefix, 1 if it was never drawn."""
        if prefix in self._tree:
            return self._tree[prefix].bound
        parent = self._tree.get(prefix[:-1]) if prefix else None
        child = None if parent is None else parent.children.get(prefix[-1])
        return 1.0 if child is None else child.bound

    def _add(self, prefix: tuple[int, ...], mass: float, top: float) -> None:
        """Add a prefix to the tree; raise :class:`EvidenceError` if it is there with other probabilities."""
        node = self._tree.get(prefix)
        if node is not None:
            if abs(node.top - top) > TOLERANCE or not math.isclose(node.mass, mass, rel_tol=TOLERANCE):
                raise EvidenceError(
                    f"CARS: it has learned of another language model, prompt, constraint or budget (after {prefix}); "
                    "make a new one for each"
                )
            return
        parent = self._tree.get(prefix[:-1])
        met = not prefix or (parent is not None and prefix[-1] in parent.children)
        if len(self._tree) < self.max_prefixes and met:
            self._tree[prefix] = _Node(mass, top, mass)
            self._propagate(prefix, mass)

    def _propagate(self, prefix: tuple[int, ...], bound: float) -> None:
        """Set c̃ of a prefix to ``bound`` and update its ancestors."""
        for n in range(len(prefix) - 1, -1, -1):
            parent = self._tree[prefix[:n]]
            child = parent.children[prefix[n]]
            parent.bound += child.p * (bound - child.bound)
            child.bound = bound
            parent.bound = bound = max(parent.bound, FLOOR * parent.mass)


@final
class _Bounded(Tabular):
    """q ∝ p_lm · 1[allowed] · c̃ of a tree."""

    needs = Knowledge.BUDGET

    def __init__(self, tree: dict[tuple[int, ...], _Node]) -> None:
        self._tree = tree

    def belief(self, step: Step) -> Float[Tensor, "rows vocab"]:
        belief = GCDProposal().belief(step).double()
        for i, prefix in enumerate(step.prefixes):
            if (node := self._tree.get(tuple(prefix.tolist()))) and node.children:
                tokens = list(node.children)
                bound = belief.new_tensor([child.bound for child in node.children.values()])
                belief[i, tokens] += bound.log()
        return belief
