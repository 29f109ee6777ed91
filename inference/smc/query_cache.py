"""A cache of next-token queries, kept with their automaton.

The backward messages of P-GCD are the costly part of a short run, and masks built for one prompt serve the next.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from threading import RLock
from typing import Any

from ...circuits.automaton import Automaton
from ...circuits.chain import Chain
from ...layers.functorch_utils import version
from ..next_token.gcd import GCDQuery
from ..next_token.pgcd import PGCDQuery
from ..next_token.query import GUIDE_TOLERANCE, gcd, lcd, pgcd

_memory: ContextVar[int] = ContextVar("memory", default=1 << 28)


@contextmanager
def keeping(memory: int) -> Iterator[None]:
    """Set the memory in bytes for P-GCD queries kept with each automaton, within the block (default: 256 MiB).

    The query used last is kept whatever its size.
    """
    token = _memory.set(memory)
    try:
        yield
    finally:
        _memory.reset(token)


def guided(chain: Chain, fa: Automaton, horizon: int) -> PGCDQuery:
    """Return :func:`pgcd` for guiding a sampler; kept with the automaton for this horizon and these parameters of the chain.

    Each call returns an object of its own, to be started; these share tables. Parameters changed in place make a new query.
    """
    parameters = chain.parameters()
    versions = [version(tensor) for tensor in parameters]
    if None in versions:  # nothing says whether such parameters are untouched
        return pgcd(chain, fa, horizon, tolerance=GUIDE_TOLERANCE)
    key = (horizon, *zip(map(id, parameters), versions, strict=True))
    kept: OrderedDict[Hashable, tuple[Any, PGCDQuery]] = fa.cache.setdefault("guided", OrderedDict())
    with fa.cache.setdefault("lock", RLock()):  # calls from several threads
        if key not in kept:
            # The tensors are held too, so that no other takes their identity.
            kept[key] = parameters, pgcd(chain, fa, horizon, tolerance=GUIDE_TOLERANCE)
        kept.move_to_end(key)
        query = kept[key][1]
        while len(kept) > 1 and sum(one.nbytes for _, one in kept.values()) > _memory.get():
            kept.popitem(last=False)
    return copy(query)


def forget(fa: Automaton) -> None:
    """Drop the P-GCD queries kept with an automaton, whose tables may be large."""
    fa.cache.pop("guided", None)


def masking(fa: Automaton, horizon: int | None) -> GCDQuery:
    """Return :func:`gcd`, or :func:`lcd` without a horizon; each call returns an object of its own, to be started."""
    kept: dict[int | None, GCDQuery] = fa.cache.setdefault("masking", {})
    query = kept.get(horizon)
    if query is None:
        if len(kept) > 8:
            kept.clear()
        query = kept[horizon] = lcd(fa) if horizon is None else gcd(fa, horizon)
    return copy(query)
