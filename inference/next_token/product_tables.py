"""What all rows of a query on a chain × an automaton share: backward messages, scores of tokens, the automaton as arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property, partial, reduce
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.chain import Chain
from ...layers import Categorical
from ...layers.functorch_utils import version
from ..engine.contract import outer
from ..engine.filter import dot
from ..semirings.base import Semiring
from ..semirings.scaled_real import Real
from .backward import Backward
from .token_scores import EdgeLabels, ScaledTable, TableScores, TokenScores

SR = Semiring[Any]
T = TypeVar("T")


class ProductTables:
    """The backward messages of a chain × an automaton, the scores of tokens, and the automaton's edges.

    ``dtype``: the precision of the table of scores. ``tolerance``, ``memory`` and ``table`` as in :class:`~.backward.Backward`.
    """

    def __init__(
        self,
        chain: Chain,
        automaton: Automaton,
        horizon: int,
        semiring: SR,
        tolerance: float = 0.0,
        memory: int | None = None,
        dtype: torch.dtype | None = None,
        table: bool = False,
    ) -> None:
        self.chain, self.automaton, self.semiring, self.device = chain, automaton, semiring, chain.device
        self.horizon = horizon
        self.labels = labels = EdgeLabels(automaton)
        self.backward = Backward(semiring, chain, automaton, labels, horizon, tolerance, memory, dtype, table)
        self.tokens: TokenScores | TableScores
        if isinstance(semiring, Real) and type(chain.inputs) is Categorical and chain.inputs.weight.ndim == 2:
            scaled = kept(chain, ("table", dtype), partial(ScaledTable, chain.inputs.weight, dtype))
            self.tokens = TableScores(semiring, scaled, labels)
        else:
            self.tokens = TokenScores(semiring, chain.inputs, labels)
        self.deterministic, self.unit_final = automaton.is_deterministic, chain.unit_final
        self.label, self.target = labels.number.to(self.device), automaton.edge_target.to(self.device)
        self.first = torch.searchsorted(automaton.edge_source, torch.arange(automaton.num_states + 1)).to(
            self.device
        )
        self.sizes = torch.tensor(labels.sizes, device=self.device)
        self._outside: dict[int, Int[Tensor, " tokens"]] = {}

    @cached_property
    def totals_of_lengths(self) -> Float[Tensor, " lengths"]:
        """The log of the product's total over all sequences of n = 0, 1, … horizon tokens (nats); NaN: something was lost."""
        sr, backward, states = self.semiring, self.backward, self.automaton.num_states
        start, accept = (
            (v > 0).to(self.device) for v in (self.automaton.initial[0], self.automaton.final[0])
        )
        begin = outer(sr, self.chain.initial, states)
        ended = sr.log(dot(sr, begin, outer(sr, self.chain.final, states))).masked_fill(~accept, -torch.inf)
        after = backward.lengths(torch.arange(1, self.horizon + 1))
        found = [sr.log(dot(sr, begin, backward.states(r))) for r in range(int(after[-1]) + 1)]
        logs = torch.stack([ended, *(found[r] for r in after.tolist())]).double()
        return logs.masked_fill(~start, -torch.inf).logsumexp(1)

    def outside(self, label: int) -> Int[Tensor, " tokens"]:
        """Return the tokens that are not in a label."""
        if label not in self._outside:
            free = torch.ones(self.automaton.vocab_size, dtype=torch.bool)
            free[self.labels.tokens(label)] = False
            self._outside[label] = free.nonzero().squeeze(1).to(self.device)
        return self._outside[label]


def kept(chain: Chain, name: Hashable, make: Callable[[], T]) -> T:
    """Return ``make()``, or what it returned before for this chain and name if no parameter was written to since."""
    parameters = chain.parameters()
    written = [(id(tensor), version(tensor)) for tensor in parameters]
    found = chain.cache.get(name)
    if found is None or found[0] != written or any(count is None for _, count in written):
        found = chain.cache[name] = written, make(), parameters  # held, so that no other takes their identity
    return cast(T, found[1])


def in_one_precision(chain: Chain) -> Chain:
    """Return the chain in the finest precision of its parameters, at least float32, without derivatives."""
    dtype = reduce(torch.promote_types, (t.dtype for t in chain.parameters()), torch.float32)

    def cast(t: Tensor) -> Tensor:
        return t.detach().to(dtype)

    initial, final = tuple(map(cast, chain.initial)), tuple(map(cast, chain.final))
    return Chain(initial, chain.left.map(cast), chain.inputs.map(cast), chain.right.map(cast), final)
