"""The constrained requests of an engine's batch: requests that began together under one constraint are scored together.

batch = Batch(adapter.automaton, hmm, max_model_len)
request = Member(batch.within(asked, len(prompt)), output)      output: the engine's list, which grows
batch.apply(logits, {request: [row]})                            one row of logits for each request
batch.apply(logits, {request: [4, 5, 6]}, {request: [17, 9]})    and one for each drafted token
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, final
from weakref import WeakValueDictionary

import torch
from jaxtyping import Float
from torch import Tensor

from ...circuits import HMM, Automaton
from ...errors import BudgetTooSmall, EvidenceError
from ...inference import gcd
from ...inference.next_token.protocol import NextTokenQuery
from ...inference.next_token.query import GUIDE_TOLERANCE, pgcd
from ..constrained_rows import ConstrainedRows
from ..request import ConstraintRequest

logger = logging.getLogger(__name__)
MOST_GROUPS = (
    8  # groups under one constraint (requests that began at different times); more are merged into one
)
MOST_QUERIES = 8  # queries cached for later requests; requests that wait or run hold their own reference


def budget_of(max_tokens: int, prompt: int, max_model_len: int) -> int:
    """Return the most tokens of a request's output: ``max_tokens``, or what the prompt leaves of the model's context."""
    return min(max_tokens, max_model_len - prompt)


@dataclass(eq=False)
class Member:
    """A constrained request in the batch.

    ``output``: the engine's own list of tokens, which grows; ``read``: the number of them that its group has followed.
    """

    asked: ConstraintRequest
    output: Sequence[int]
    read: int = 0


@dataclass(eq=False)
class Group:
    """Requests under one constraint that are scored together, and the query with their tables."""

    rows: ConstrainedRows
    query: NextTokenQuery
    requests: list[Member] = field(default_factory=list)

    def follow(self) -> None:
        """Append to the rows the tokens that the engine has appended since the last call.

        Raises :class:`EvidenceError` for a placeholder (a negative token) of asynchronous scheduling.
        """
        while True:
            tokens = [r.output[r.read] if r.read < len(r.output) else None for r in self.requests]
            if any(token is not None and token < 0 for token in tokens):
                raise EvidenceError(
                    "the engine has not filled in a token that it has drawn; turn asynchronous scheduling off"
                )
            if all(token is None for token in tokens):
                return
            self.rows.append(torch.tensor([-1 if token is None else token for token in tokens]))
            for request, token in zip(self.requests, tokens, strict=True):
                request.read += token is not None

    def apply(
        self,
        logits: Float[Tensor, "rows vocab"],
        rows: Mapping[Member, Sequence[int]],
        drafts: Mapping[Member, Sequence[int]],
    ) -> None:
        """Change rows of logits in place: ``rows[request][d]`` is the row after the first d tokens of the request's draft."""
        drafted = [list(drafts.get(request, ())) for request in self.requests]
        deepest = max(len(draft) for draft in drafted)
        for depth in range(deepest + 1):
            if depth:
                tokens = [draft[depth - 1] if depth <= len(draft) else -1 for draft in drafted]
                self.rows.append(torch.tensor(tokens))
            self._apply([rows[r][depth] if depth < len(rows[r]) else -1 for r in self.requests], logits)
        self.rows.rollback(deepest)

    def _apply(self, at: Sequence[int], logits: Float[Tensor, "rows vocab"]) -> None:
        """Change row ``at[i]`` of the logits for request i of the group; −1: no row."""
        index = torch.tensor(at, device=logits.device)
        there = index >= 0
        index = index.clamp(min=0)
        changed = self.rows.apply(logits[index])
        logits[index[there]] = changed[there]


@final
class Batch:
    """The groups of an engine's constrained requests, and the queries that they share.

    Args:
        automaton: compiles the constraint of a request (its JSON text).
        hmm: the HMM for P-GCD; ``None``: GCD.
        max_model_len: the length in tokens, prompt included, at which the engine ends a text.
    """

    def __init__(self, automaton: Callable[[str], Automaton], hmm: HMM | None, max_model_len: int) -> None:
        self._automaton, self._hmm, self._max_model_len = automaton, hmm, max_model_len
        self.groups: dict[tuple[Any, ...], list[Group]] = {}
        self.queries: OrderedDict[tuple[Any, ...], NextTokenQuery] = OrderedDict()
        self._used: WeakValueDictionary[tuple[Any, ...], NextTokenQuery] = WeakValueDictionary()
        self._lock = Lock()

    def within(self, asked: ConstraintRequest, prompt: int) -> ConstraintRequest:
        """Return the request with its budget lowered to what a prompt of ``prompt`` tokens leaves of the model's context.

        If no text fits, the budget is that of the shortest text: the engine will cut it with ``finish_reason`` ``"length"``.
        """
        left = budget_of(asked.budget, prompt, self._max_model_len)
        fitting = self._fitting(asked, left)
        if left < fitting.budget:
            logger.error(
                "the prompt leaves %d tokens for a constraint that needs %d: the text will be cut",
                left,
                fitting.budget,
            )
        return fitting

    def _fitting(self, asked: ConstraintRequest, left: int) -> ConstraintRequest:
        """Return the request with a budget of ``left`` tokens, or of the shortest text if that has more."""
        if left == asked.budget:
            return asked
        return replace(asked, budget=max(left, self._automaton(asked.constraint).fewest_after([])))

    def key(self, asked: ConstraintRequest, prompt: int) -> tuple[Any, ...]:
        """Return the argument of :meth:`query` for a request with a prompt of ``prompt`` tokens."""
        budget = max(1, budget_of(asked.budget, prompt, self._max_model_len))
        return key_of(replace(asked, budget=budget))[:3]

    def ready(self, key: tuple[Any, ...]) -> bool:
        """Return whether :meth:`query` finds its tables computed."""
        with self._lock:
            return key in self._used

    def query(self, key: tuple[Any, ...]) -> NextTokenQuery:
        """Return the query of a constraint, computing its tables if they are missing; any thread may call it."""
        with self._lock:
            query = self._used.get(key)
        if query is None:
            constraint, horizon, guided = key
            fa = self._automaton(constraint)
            if self._hmm is None or not guided:
                query = gcd(fa, horizon)
            else:
                query = pgcd(self._hmm, fa, horizon, tolerance=GUIDE_TOLERANCE)
        with self._lock:
            query = self._used.setdefault(key, query)
            self.queries[key] = query
            self.queries.move_to_end(key)
            while len(self.queries) > MOST_QUERIES:
                self.queries.popitem(last=False)
        return query

    def prepare(self, asked: ConstraintRequest, prompt: int) -> NextTokenQuery:
        """Compute all that the first token of a request needs: tables, mask, scores of the HMM; any thread may call it.

        Returns the query. As long as a reference to it is held, the request finds its tables computed.
        """
        asked = self._fitting(asked, budget_of(asked.budget, prompt, self._max_model_len))
        group = self._begin(key_of(asked), [Member(asked, [])])
        group.rows.apply(torch.zeros(1, group.query.vocab_size, device=group.query.device))
        return group.query

    def apply(
        self,
        logits: Float[Tensor, "rows vocab"],
        rows: Mapping[Member, Sequence[int]],
        drafts: Mapping[Member, Sequence[int]] | None = None,
    ) -> None:
        """Change the logits of the requests in place; requests that are not in ``rows`` leave the batch."""
        self._gather(rows)
        for groups in self.groups.values():
            for group in groups:
                group.follow()
                group.apply(logits, rows, drafts or {})

    def _gather(self, present: Mapping[Member, Any]) -> None:
        """Update the groups: remove requests that have left or were cut short, and form groups of the new ones."""
        new = dict.fromkeys(present)
        for key, groups in list(self.groups.items()):
            for group in list(groups):
                # a request whose output has become shorter leaves its group and begins anew
                keep = [i for i, r in enumerate(group.requests) if r in present and r.read <= len(r.output)]
                if len(keep) < len(group.requests):
                    group.requests = [group.requests[i] for i in keep]
                    group.rows.select(torch.tensor(keep, dtype=torch.long))
                for request in group.requests:
                    del new[request]
                if not group.requests:
                    groups.remove(group)
            if not groups:
                del self.groups[key]
        arrived: dict[tuple[Any, ...], list[Member]] = {}
        for request in new:
            arrived.setdefault(key_of(request.asked), []).append(request)
        for key, requests in arrived.items():
            groups = self.groups.setdefault(key, [])
            if len(groups) >= MOST_GROUPS:
                requests = [r for group in groups for r in group.requests] + requests
                groups.clear()
            groups.append(self._begin(key, requests))

    def _begin(self, key: tuple[Any, ...], requests: list[Member]) -> Group:
        *_, strength, mixture = key
        query = self.query(key[:3])
        rows = ConstrainedRows(copy(query), strength=strength, mixture=mixture)  # tables are shared
        budgets = torch.tensor([request.asked.budget for request in requests])
        try:
            rows.begin(torch.empty(len(requests), 0, dtype=torch.long), budgets)
        except BudgetTooSmall as error:
            # the engine has no numbers for requests, and refuses this one alone
            raise error.of_prompt(None) from None
        for request in requests:
            request.read = 0
        return Group(rows, query, requests)


def key_of(asked: ConstraintRequest) -> tuple[Any, ...]:
    """Return the key of a request's group: constraint, horizon (budget rounded up to a power of 2), weights of the HMM."""
    horizon = 1 << (asked.budget - 1).bit_length()  # so that few different tables are needed
    return asked.constraint, horizon, asked.hmm, asked.strength, asked.mixture
